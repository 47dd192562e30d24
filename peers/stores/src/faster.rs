//! FASTER's C++ store.
//!
//! `peers/README.md` argues its settings.

use bench::stores::{
    DeviceCounts, Durability, Got, OpenOptions, Pairs, Session, Store, StoreError, OnRead,
};
use faster_c::Begun;

pub(crate) struct Faster {
    store: faster_c::Store,
    memory_bytes: u64,
}

impl Faster {
    pub(crate) fn open(options: &OpenOptions) -> Result<Self, StoreError> {
        if options.durability != Durability::None {
            return Err("faster has no journal: --durability none".into());
        }
        // Its table and its log together.
        let memory_bytes = options.cache_bytes.unwrap_or(options.memory_bytes);
        let store = faster_c::Store::open(&options.dir, options.keys, memory_bytes)?;
        Ok(Self { store, memory_bytes })
    }
}

impl Store for Faster {
    fn session(&self) -> Result<Box<dyn Session + '_>, StoreError> {
        Ok(Box::new(FasterSession { store: &self.store, session: None }))
    }

    fn flush(&self) -> Result<(), StoreError> {
        // Its pages are written as it fills them; a checkpoint is not measured.
        Ok(())
    }

    fn device(&self) -> Option<DeviceCounts> {
        None
    }

    fn cache_bytes(&self) -> Option<u64> {
        Some(self.memory_bytes)
    }

    fn close(&self) -> Result<(), StoreError> {
        // Closed on drop.
        Ok(())
    }
}

/// A thread's session, taken by the first operation: that runs on the thread that all others do.
struct FasterSession<'a> {
    store: &'a faster_c::Store,
    session: Option<faster_c::Session<'a>>,
}

impl<'a> FasterSession<'a> {
    fn session(&mut self) -> &mut faster_c::Session<'a> {
        self.session.get_or_insert_with(|| faster_c::Session::new(self.store, 0))
    }
}

impl Session for FasterSession<'_> {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, StoreError> {
        replaced(value, self.session().get(number(key)?)?)
    }

    fn overlap(&mut self, depth: usize) -> Result<bool, StoreError> {
        // One thread has one session.
        self.session = None;
        self.session = Some(faster_c::Session::new(self.store, depth));
        Ok(true)
    }

    fn begin_get(&mut self, tag: u64, key: &[u8], value: &mut Vec<u8>) -> Result<Got, StoreError> {
        let begun = self.session().begin_get(tag, number(key)?);
        got(self.session(), begun, tag, value)
    }

    fn begin_rmw(
        &mut self,
        tag: u64,
        key: &[u8],
        new: &[u8],
        old: &mut Vec<u8>,
    ) -> Result<Got, StoreError> {
        let begun = self.session().begin_exchange(tag, number(key)?, new)?;
        got(self.session(), begun, tag, old)
    }

    fn complete(&mut self, waits: bool, told: &mut OnRead<'_>) -> Result<usize, StoreError> {
        let session = self.session();
        let done = session.complete(waits);
        for &tag in &done {
            told(tag, session.outcome(tag).map_err(StoreError::from));
        }
        Ok(done.len())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        Ok(self.session().put(number(key)?, value)?)
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), StoreError> {
        Ok(self.session().delete(number(key)?)?)
    }

    fn rmw(&mut self, key: &[u8], new: &[u8], old: &mut Vec<u8>) -> Result<bool, StoreError> {
        replaced(old, self.session().exchange(number(key)?, new)?)
    }

    fn scan(&mut self, _: &[u8], _: usize, _: &mut Pairs) -> Result<(), StoreError> {
        Err("faster has no order to scan in".into())
    }
}

fn number(key: &[u8]) -> Result<u64, StoreError> {
    let bytes = key.try_into().map_err(|_| "faster is built for keys of 8 bytes: --shape 8+N")?;
    Ok(u64::from_le_bytes(bytes))
}

fn replaced(value: &mut Vec<u8>, found: Option<&[u8]>) -> Result<bool, StoreError> {
    value.clear();
    value.extend_from_slice(found.unwrap_or_default());
    Ok(found.is_some())
}

fn got(
    session: &mut faster_c::Session<'_>,
    begun: Begun,
    tag: u64,
    value: &mut Vec<u8>,
) -> Result<Got, StoreError> {
    Ok(match begun {
        Begun::Pending => Got::Pending,
        Begun::Full => Got::Full,
        Begun::Done if replaced(value, session.outcome(tag)?)? => Got::Found,
        Begun::Done => Got::Absent,
    })
}
