// A C interface to FASTER's C++ templates for keys of 8 bytes and values of any length. Nothing is
// allocated for an operation that does not go to the disk.

#include <atomic>
#include <cstdint>
#include <cstring>
#include <experimental/filesystem>
#include <thread>

#include "core/faster.h"
#include "device/file_system_disk.h"

using namespace FASTER::core;

namespace {

class Key {
 public:
  explicit Key(uint64_t key) : key_{ key } {}

  static constexpr uint32_t size() { return sizeof(Key); }
  KeyHash GetHash() const { return KeyHash{ Utility::GetHashCode(key_) }; }
  bool operator==(const Key& other) const { return key_ == other.key_; }
  bool operator!=(const Key& other) const { return key_ != other.key_; }

 private:
  uint64_t key_;
};

constexpr uint64_t kLocked = 1;
constexpr uint64_t kReplaced = 2;
constexpr uint64_t kGeneration = 4;

// A lock that also counts changes, so that readers see no half of one.
class Value {
 public:
  uint32_t size() const { return static_cast<uint32_t>(sizeof(Value)) + capacity_; }

  void Set(const uint8_t* bytes, uint32_t length) {
    control_.store(0);
    capacity_ = length;
    Fill(bytes, length);
  }

  // False: it is too small, or another thread has put a larger one in its place.
  bool SetAtomic(const uint8_t* bytes, uint32_t length, uint8_t* old, uint32_t* old_length) {
    if(!Lock()) {
      return false;
    }
    if(capacity_ < length) {
      Unlock(kReplaced);
      return false;
    }
    if(old != nullptr) {
      std::memcpy(old, this->bytes(), length_);
      *old_length = length_;
    }
    Fill(bytes, length);
    Unlock(0);
    return true;
  }

  void Copy(uint8_t* to, uint32_t* length) const {
    std::memcpy(to, bytes(), length_);
    *length = length_;
  }

  void CopyAtomic(uint8_t* to, uint32_t* length) const {
    for(;;) {
      uint64_t before = control_.load(std::memory_order_acquire);
      Copy(to, length);
      std::atomic_thread_fence(std::memory_order_acquire);
      if((before & kLocked) == 0 && control_.load(std::memory_order_relaxed) == before) {
        return;
      }
    }
  }

 private:
  bool Lock() {
    for(;;) {
      uint64_t seen = control_.load();
      if(seen & kReplaced) {
        return false;
      }
      if((seen & kLocked) == 0 && control_.compare_exchange_weak(seen, seen | kLocked)) {
        return true;
      }
      std::this_thread::yield();
    }
  }
  void Unlock(uint64_t flags) { control_.store(((control_.load() & ~kLocked) + kGeneration) | flags); }

  void Fill(const uint8_t* bytes, uint32_t length) {
    length_ = length;
    std::memcpy(this->bytes(), bytes, length);
  }

  const uint8_t* bytes() const { return reinterpret_cast<const uint8_t*>(this + 1); }
  uint8_t* bytes() { return reinterpret_cast<uint8_t*>(this + 1); }

  std::atomic<uint64_t> control_;
  uint32_t capacity_;
  uint32_t length_;
};
static_assert(sizeof(Value) == 16, "a value's head");

}  // namespace

extern "C" {

// The data that an operation reads or exchanges. It must live until the operation is done.
struct shim_slot {
  uint8_t* value;    // a value that is read goes here; there is room for any
  uint32_t length;   // its length
  uint32_t status;   // a Status, once done
  uint32_t done;
};

}

namespace {

class Context : public IAsyncContext {
 public:
  typedef Key key_t;
  typedef Value value_t;

  Context(uint64_t key, shim_slot* slot) : key_{ key }, slot_{ slot } {}

  const Key& key() const { return key_; }
  shim_slot* slot() const { return slot_; }

 protected:
  Key key_;
  shim_slot* slot_;
};

class ReadContext : public Context {
 public:
  using Context::Context;
  void Get(const Value& value) { value.Copy(slot_->value, &slot_->length); }
  void GetAtomic(const Value& value) { value.CopyAtomic(slot_->value, &slot_->length); }

 protected:
  Status DeepCopy_Internal(IAsyncContext*& copy) override {
    return IAsyncContext::DeepCopy_Internal(*this, copy);
  }
};

// The bytes of the new value must live until the operation is done.
class WriteContext : public Context {
 public:
  WriteContext(uint64_t key, shim_slot* slot, const uint8_t* bytes, uint32_t length)
    : Context{ key, slot }, bytes_{ bytes }, length_{ length } {}

  uint32_t value_size() const { return static_cast<uint32_t>(sizeof(Value)) + length_; }

 protected:
  const uint8_t* bytes_;
  uint32_t length_;
};

class UpsertContext : public WriteContext {
 public:
  using WriteContext::WriteContext;
  void Put(Value& value) { value.Set(bytes_, length_); }
  bool PutAtomic(Value& value) { return value.SetAtomic(bytes_, length_, nullptr, nullptr); }

 protected:
  Status DeepCopy_Internal(IAsyncContext*& copy) override {
    return IAsyncContext::DeepCopy_Internal(*this, copy);
  }
};

// Puts a new value in the place of the old one, which it tells.
class ExchangeContext : public WriteContext {
 public:
  using WriteContext::WriteContext;
  using WriteContext::value_size;
  uint32_t value_size(const Value&) const { return value_size(); }
  void RmwInitial(Value& value) {
    slot_->length = UINT32_MAX;
    value.Set(bytes_, length_);
  }
  void RmwCopy(const Value& old, Value& value) {
    // A value that is copied elsewhere no longer changes.
    old.Copy(slot_->value, &slot_->length);
    value.Set(bytes_, length_);
  }
  bool RmwAtomic(Value& value) {
    return value.SetAtomic(bytes_, length_, slot_->value, &slot_->length);
  }

 protected:
  Status DeepCopy_Internal(IAsyncContext*& copy) override {
    return IAsyncContext::DeepCopy_Internal(*this, copy);
  }
};

class DeleteContext : public Context {
 public:
  using Context::Context;
  uint32_t value_size() const { return sizeof(Value); }

 protected:
  Status DeepCopy_Internal(IAsyncContext*& copy) override {
    return IAsyncContext::DeepCopy_Internal(*this, copy);
  }
};

template <class C>
void Done(IAsyncContext* context, Status result) {
  CallbackContext<C> done{ context };
  shim_slot* slot = done->slot();
  slot->status = static_cast<uint32_t>(result);
  slot->done = 1;
}

uint32_t Answered(Status result, shim_slot* slot) {
  if(result != Status::Pending) {
    slot->status = static_cast<uint32_t>(result);
    slot->done = 1;
  }
  return static_cast<uint32_t>(result);
}

typedef FASTER::environment::QueueIoHandler handler_t;
typedef FasterKv<Key, Value, FASTER::device::FileSystemDisk<handler_t, 1073741824L>> store_t;

}  // namespace

extern "C" {

struct shim_store {
  store_t store;
};

// Null if FASTER refuses: `table_size` must be a power of two, and `log_bytes` pages of 32 MiB, of which
// each share is a whole number.
shim_store* shim_open(uint64_t table_size, uint64_t log_bytes, double mutable_share, const char* dir) {
  try {
    return new shim_store{ { table_size, log_bytes, dir, mutable_share, true } };
  } catch(const std::exception&) {
    return nullptr;
  }
}

void shim_close(shim_store* store) { delete store; }

void shim_start(shim_store* store) { store->store.StartSession(); }
void shim_stop(shim_store* store) { store->store.StopSession(); }
void shim_refresh(shim_store* store) { store->store.Refresh(); }
void shim_complete(shim_store* store, bool all) { store->store.CompletePending(all); }

uint32_t shim_read(shim_store* store, uint64_t key, shim_slot* slot, uint64_t serial) {
  ReadContext context{ key, slot };
  return Answered(store->store.Read(context, Done<ReadContext>, serial), slot);
}

uint32_t shim_upsert(shim_store* store, uint64_t key, const uint8_t* bytes, uint32_t length,
                     shim_slot* slot, uint64_t serial) {
  UpsertContext context{ key, slot, bytes, length };
  return Answered(store->store.Upsert(context, Done<UpsertContext>, serial), slot);
}

uint32_t shim_exchange(shim_store* store, uint64_t key, const uint8_t* bytes, uint32_t length,
                       shim_slot* slot, uint64_t serial) {
  ExchangeContext context{ key, slot, bytes, length };
  return Answered(store->store.Rmw(context, Done<ExchangeContext>, serial), slot);
}

uint32_t shim_delete(shim_store* store, uint64_t key, shim_slot* slot, uint64_t serial) {
  DeleteContext context{ key, slot };
  return Answered(store->store.Delete(context, Done<DeleteContext>, serial), slot);
}

}
