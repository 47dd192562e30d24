//! Keys and values of fixed length: counters, sketches, identifiers.
//!
//! A thin layer over a [`Store`]. It lays bytes out on the stack, so a read of a record in memory
//! and an update in place allocate nothing. A record is the same as any other: the words that have
//! its lengths also hold its lock, its sequence and, on disk, its checksum, so leaving the lengths
//! out would save nothing.

use std::marker::PhantomData;

use engine::{At, Change, Demand, Engine, Host, Op, Operator, Reservation, Result, Wait};

use codec::Corruption;

use crate::options::Options;
use crate::scratch::Scratch;
use crate::store::Store;

/// A key or a value that takes the same number of bytes whatever it is. Implemented for integers
/// (little-endian) and arrays of bytes.
pub trait Fixed: Copy {
    /// An array of the value's bytes.
    type Bytes: AsRef<[u8]> + for<'a> TryFrom<&'a [u8]>;

    /// Its bytes.
    fn to_bytes(self) -> Self::Bytes;

    /// Returns the value that has these bytes.
    fn from_bytes(bytes: Self::Bytes) -> Self;
}

macro_rules! fixed_integers {
    ($($integer:ty),*) => {$(
        impl Fixed for $integer {
            type Bytes = [u8; size_of::<$integer>()];

            fn to_bytes(self) -> Self::Bytes {
                self.to_le_bytes()
            }

            fn from_bytes(bytes: Self::Bytes) -> Self {
                Self::from_le_bytes(bytes)
            }
        }
    )*};
}

fixed_integers!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128);

impl<const N: usize> Fixed for [u8; N] {
    type Bytes = Self;

    fn to_bytes(self) -> Self {
        self
    }

    fn from_bytes(bytes: Self) -> Self {
        bytes
    }
}

/// A store of keys `K` and values `V` (section 2.1 of the F2 paper: FASTER's counters), for
/// programs that use this crate alone, in a store without a journal: its writes are durable with
/// the next [`Typed::flush`].
///
/// ```
/// # use std::sync::Arc;
/// # use engine::{Host, NoJournal, Sequence};
/// # use memory_budget::MemoryBudget;
/// # let environment = environment::Environment::real();
/// # let telemetry = telemetry::Registry::default();
/// # let host = Host {
/// #     device: device::memory(),
/// #     workers: workers::Pool::start(&environment, 1, &telemetry)?,
/// #     telemetry,
/// #     environment,
/// #     sequence: Arc::new(Sequence::new()),
/// #     barrier: Arc::new(NoJournal),
/// #     memory: Arc::new(MemoryBudget::new(64 << 20)),
/// # };
/// use thermocline_f2::{Options, Typed};
///
/// let visits: Typed<u64, u32> = Typed::open(host, Options::default())?;
/// visits.update(7, 0, |count| *count += 1)?;
/// visits.update(7, 0, |count| *count += 1)?;
/// assert_eq!(visits.get(7)?, Some(2));
/// assert_eq!(visits.get(8)?, None);
/// visits.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Typed<K, V> {
    store: Store,
    of: PhantomData<fn(K) -> V>,
}

impl<K: Fixed, V: Fixed> Typed<K, V> {
    /// Opens the store in the host's directory, and makes it if there is none: [`Store::open`].
    /// That a store was made with the same types is not known before a value is read.
    ///
    /// # Errors
    /// As [`Store::open`].
    ///
    /// # Panics
    /// If the host keeps a journal, which its writes would pass by.
    pub fn open(host: Host, options: Options) -> Result<Self> {
        Store::open(host, options).map(Self::over)
    }

    /// The same over a store that is open already.
    ///
    /// # Panics
    /// The same.
    pub fn over(store: Store) -> Self {
        let journaled = store.shared.host.barrier.is_journaled();
        assert!(!journaled, "the writes of a typed store would pass the journal by");
        Self { store, of: PhantomData }
    }

    /// The value of `key`. No read of the device if it is in memory; two, mostly, if it is cold.
    ///
    /// # Errors
    /// [`engine::Error::Corruption`] if the stored value takes another number of bytes; as
    /// [`Engine::lookup`].
    pub fn get(&self, key: K) -> Result<Option<V>> {
        let shared = &self.store.shared;
        let key = key.to_bytes();
        let key = key.as_ref();
        let mut value = Scratch::take();
        match shared
            .lookups
            .pool
            .complete(shared.lookup(key, At::Newest, &mut value)?, &mut value)?
        {
            true => decode(&value).map(Some),
            false => Ok(None),
        }
    }

    /// Sets the value of `key`; nothing is read from the device. Blocks while compaction or
    /// flushing is behind.
    ///
    /// # Errors
    /// As [`Engine::apply`].
    pub fn put(&self, key: K, value: V) -> Result<()> {
        let (key, value) = (key.to_bytes(), value.to_bytes());
        self.write(Op::Put { key: key.as_ref(), value: value.as_ref() })
    }

    /// Removes `key`, which need not be there.
    ///
    /// # Errors
    /// As [`Engine::apply`].
    pub fn delete(&self, key: K) -> Result<()> {
        let key = key.to_bytes();
        self.write(Op::Delete { key: key.as_ref() })
    }

    fn write(&self, op: Op<'_>) -> Result<()> {
        let (ops, shared) = (std::slice::from_ref(&op), &self.store.shared);
        let room = shared.reserve(&Demand::Ops(ops), Wait::Yes)?;
        let room = room.unwrap_or_else(Reservation::uncounted);
        let number = shared.host.sequence.begin();
        shared.apply(ops, number.seqno(), &room)
    }

    /// Atomically changes the value of `key` by `change`, beginning with `initial` if it has none.
    /// The change is in place if the record is in the mutable region. `change` may be called
    /// several times, each time with the current value; only the last call counts.
    ///
    /// # Errors
    /// As [`Typed::get`] and [`Typed::put`].
    pub fn update(&self, key: K, initial: V, change: impl FnMut(&mut V)) -> Result<()> {
        let key = key.to_bytes();
        let mut updater = Updater { initial, change, problem: None };
        self.store.shared.rmw(key.as_ref(), &mut updater)?;
        updater.problem.map_or(Ok(()), |problem| Err(problem.into()))
    }

    /// Makes everything that was written before durable.
    ///
    /// # Errors
    /// As [`Engine::flush`].
    pub fn flush(&self) -> Result<()> {
        self.store.flush()
    }

    /// The store itself, for figures and walks.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Ends background work and closes the files. Writes that were not flushed are lost.
    ///
    /// # Errors
    /// As [`Engine::close`].
    pub fn close(&self) -> Result<()> {
        self.store.close()
    }
}

fn decode<V: Fixed>(stored: &[u8]) -> std::result::Result<V, engine::Error> {
    read(stored).map_err(Into::into)
}

fn read<V: Fixed>(stored: &[u8]) -> std::result::Result<V, Corruption> {
    V::Bytes::try_from(stored).map(V::from_bytes).map_err(|_| {
        let what = format!("a value of {} bytes is of another type", stored.len());
        Corruption::new(what, 0)
    })
}

/// A closure as the store's operator.
struct Updater<V, F> {
    initial: V,
    change: F,
    /// The damage that kept the last call from making a value.
    problem: Option<Corruption>,
}

impl<V: Fixed, F: FnMut(&mut V)> Updater<V, F> {
    fn changed(&mut self, stored: &[u8]) -> Option<V> {
        match read(stored) {
            Ok(mut value) => {
                self.problem = None;
                (self.change)(&mut value);
                Some(value)
            }
            Err(problem) => {
                self.problem = Some(problem);
                None
            }
        }
    }
}

impl<V: Fixed, F: FnMut(&mut V)> Operator for Updater<V, F> {
    fn update_in_place(&mut self, value: &mut [u8]) -> bool {
        let Some(changed) = self.changed(value) else { return false };
        value.copy_from_slice(changed.to_bytes().as_ref());
        true
    }

    fn update(&mut self, value: Option<&[u8]>) -> Change {
        let changed = match value {
            Some(stored) => self.changed(stored),
            None => {
                self.problem = None;
                let mut value = self.initial;
                (self.change)(&mut value);
                Some(value)
            }
        };
        changed.map_or(Change::Keep, |value| Change::Put(value.to_bytes().as_ref().to_vec()))
    }
}
