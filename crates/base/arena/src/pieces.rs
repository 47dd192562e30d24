//! Memory for pieces of any length, taken and dropped in any order, with a count of its residence.
//!
//! A cache that has its pieces from the system's allocator holds more memory than it knows of:
//! freed pieces are between pieces that stay, and are resident nevertheless. Here pieces have
//! memory of their own:
//!
//! ```text
//!  class of 4096  | slab: slot slot slot ... | slab | ...
//!  class of 4224  | slab: slot slot slot ... | slab | ...       a piece has a slot
//!  ...                 pages of the system: | in memory | in memory, idle | not in memory |
//! ```
//!
//! 1. A piece is cut to the next length that has a *class* (`size`): steps of 64 bytes, above 2 KiB
//!    of a 32nd part, and 16 KiB, for example, exactly. A longer one has a mapping of its own.
//! 2. It takes a slot that is in memory as a whole, of its class or else of one that is a little
//!    longer. If there is none, it takes a slot that is partly in memory, and else the first one of
//!    a new slab. By slabs the lowest, so that the highest become empty.
//! 3. When the piece is dropped, its slot is free. Free memory stays resident, to be filled again
//!    without a fault. Each class keeps one empty slab; the other empty slabs are returned to the
//!    system.
//! 4. Pages without a piece are *idle*. A cache that has to take less memory releases them
//!    ([`Pool::release`]), also if other pages of their slab are in use.
//!
//! Resident bytes minus idle bytes are the pages that hold pieces. Pieces of about a page share one
//! with each neighbour. If a part f of them was dropped at random, about f times f of the memory is
//! idle, and the rest waits for the next pieces. So a cache that needs memory immediately, and
//! knows its pieces by a mark, copies those of the highest slabs into free slots of lower ones
//! ([`Pool::sparse`]).
//!
//! # Invariants
//! - P1. A slot has one piece at most, and no page that holds a part of a piece is released.
//! - P2. [`Pool::resident`] counts a page from before a piece is on it for the first time until the
//!   page is released; and so does the meter.
//! - P3. A piece has left its slot before the slot is free.
//!
//! # Concurrency
//! A lock for each class, and no thread holds two at the same time. Memory is mapped, and unmapped,
//! without one. A piece may be dropped on another thread than the one that took it, and after its
//! pool.
#![expect(unsafe_code, reason = "slots are handed out as bytes")]

mod bits;
mod class;
mod marks;
mod memory;
mod size;
mod slots;

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use sync::Mutex;
use sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::planted::Planted;
use class::{Class, Taken};
use memory::{Memory, SlotBytes};
use slots::{Change, PAGE_BYTES, Slots};

/// Slots of a slab, at least and at most.
const SLOTS_MIN: usize = 4;
const SLOTS_MAX: usize = 1024;
/// Classes above its own from which a piece may have a slot: they are an eighth longer at most.
const NEAR: usize = if cfg!(any(loom, shuttle)) { 1 } else { 4 };

/// A callback for changes of a pool's resident bytes, for example to count them in a budget. It
/// must call nothing of the pool: a lock of it may be held.
pub trait Meter: fmt::Debug + Send + Sync {
    /// Adds `bytes` bytes.
    fn add(&self, bytes: u64);
    /// Subtracts `bytes` bytes.
    fn subtract(&self, bytes: u64);
}

/// A source of pieces. See the module's head.
///
/// ```
/// use thermocline_arena::pieces::Pool;
///
/// let pool = Pool::new(256 << 10);
/// let (short, long) = (pool.copy(b"cached"), pool.take(100_000));
/// assert_eq!((&*short, long.len()), (&b"cached"[..], 100_000));
/// assert!(pool.resident() >= 100_000);
/// drop((short, long));
/// pool.release(u64::MAX);
/// assert_eq!(pool.resident(), 0);
/// ```
///
/// A clone is the same pool.
#[derive(Clone, Debug)]
pub struct Pool(Arc<Shared>);

/// State that a pool and its pieces share.
#[derive(Debug)]
struct Shared {
    slab_bytes: usize,
    /// None was never taken from.
    classes: Box<[Mutex<Option<Box<Class>>>]>,
    resident: AtomicU64,
    idle: AtomicU64,
    used: AtomicU64,
    meter: Option<Arc<dyn Meter>>,
}

/// Bytes in a slot of its own, until it is dropped. It has the length that was requested, and may
/// become longer, up to its capacity; bytes that the owner has not stored may be anything.
#[derive(Debug)]
pub struct Piece {
    bytes: SlotBytes,
    /// Its class, and the slab; `None` if it has a mapping of its own.
    place: Option<(u16, u32)>,
    shared: Arc<Shared>,
}

impl Pool {
    /// Makes an empty pool, with slabs of about `slab_bytes` bytes. They take addresses, and memory
    /// as pieces come; a process may have some 65,000 mappings, so a cache of many GiB wants slabs
    /// of some MiB.
    pub fn new(slab_bytes: usize) -> Self {
        Self::of(slab_bytes, None)
    }

    /// Makes the same, and `meter` counts the resident bytes.
    pub fn metered(slab_bytes: usize, meter: Arc<dyn Meter>) -> Self {
        Self::of(slab_bytes, Some(meter))
    }

    fn of(slab_bytes: usize, meter: Option<Arc<dyn Meter>>) -> Self {
        let classes = (0..size::CLASSES).map(|_| Mutex::new(None)).collect();
        let [resident, idle, used] = [0, 0, 0].map(AtomicU64::new);
        Self(Arc::new(Shared { slab_bytes, classes, resident, idle, used, meter }))
    }

    /// Returns a piece of `len` bytes; anything may be in it. If the system has no addresses left
    /// the process ends, as for every allocation.
    pub fn take(&self, len: usize) -> Piece {
        let shared = &self.0;
        let Some(class) = size::class(len) else { return shared.take_own(len) };
        let near = class..(class + NEAR + 1).min(size::CLASSES);
        let warm = near.clone().find_map(|class| shared.take(class, Class::take_warm));
        let taken = warm.or_else(|| shared.take(class, Class::take_cold));
        let (class, taken) = taken.unwrap_or_else(|| shared.take_of_new_slab(class));
        // SAFETY: the class has just handed the slot out, and until this piece is dropped it
        // neither hands the slot out again nor releases a page of it [P1].
        let bytes = unsafe { SlotBytes::new(taken.memory, taken.slot, len) };
        shared.used.fetch_add(bytes.capacity() as u64, Relaxed);
        let place = Some((class as u16, taken.slab as u32));
        Piece { bytes, place, shared: Arc::clone(shared) }
    }

    /// A piece with these bytes.
    pub fn copy(&self, bytes: &[u8]) -> Piece {
        let mut piece = self.take(bytes.len());
        piece.copy_from_slice(bytes);
        piece
    }

    /// Returns whether a piece of `len` bytes can be had without more memory of the system. Another
    /// thread may take it first.
    pub fn has_room(&self, len: usize) -> bool {
        size::class(len).is_some_and(|class| {
            let near = class..(class + NEAR + 1).min(size::CLASSES);
            self.0.classes[near]
                .iter()
                .any(|class| class.lock().as_ref().is_some_and(|class| class.has_warm()))
        })
    }

    /// Bytes of memory that a piece of `len` bytes takes: its capacity.
    pub fn capacity_of(len: usize) -> usize {
        size::class(len).map_or_else(|| len.next_multiple_of(PAGE_BYTES), size::bytes)
    }

    /// Bytes that are in memory of all slabs, by whole pages of the system.
    pub fn resident(&self) -> u64 {
        self.0.resident.load(Relaxed)
    }

    /// Returns the resident bytes of pages without a piece, which [`Pool::release`] can release.
    pub fn idle(&self) -> u64 {
        self.0.idle.load(Relaxed)
    }

    /// The capacities of all pieces, in bytes.
    pub fn used(&self) -> u64 {
        self.0.used.load(Relaxed)
    }

    /// Adds the marks ([`Piece::mark`]) of a slab's pieces to `marks`. The slab is one whose pieces
    /// have room in lower slabs of its class, in the class that has most free bytes. A caller that
    /// copies these to new pieces has all of the slab idle. Returns whether there is such a slab.
    pub fn sparse(&self, marks: &mut Vec<u64>) -> bool {
        let mut most = (0, None);
        for (number, class) in self.0.classes.iter().enumerate() {
            let locked = class.lock();
            let sparse = locked.as_ref().and_then(|class| class.sparse());
            let free = sparse.map_or(0, |(free, _)| free * size::bytes(number));
            if free > most.0 {
                most = (free, Some(class));
            }
        }
        let Some(class) = most.1 else { return false };
        let locked = class.lock();
        let sparse = locked.as_ref().and_then(|class| class.sparse());
        let before = marks.len();
        marks.extend(sparse.iter().flat_map(|(_, marks)| marks.all()));
        marks.len() > before
    }

    /// About how many bytes a slab has.
    pub fn slab_bytes(&self) -> usize {
        self.0.slab_bytes
    }

    /// Returns idle pages to the system: `bytes` of them, up to a whole slab more, or all there
    /// are. Returns how many bytes. It makes a call of the system for each run of pages, about a
    /// microsecond; pieces of the same class wait meanwhile.
    pub fn release(&self, bytes: u64) -> u64 {
        let mut given_back = 0;
        for class in &self.0.classes {
            if given_back >= bytes || self.idle() == 0 {
                break;
            }
            let mut locked = class.lock();
            let Some(class) = locked.as_mut() else { continue };
            let (change, gone) = class.release_pages(class::pages(bytes - given_back));
            self.0.note(change);
            drop(locked);
            drop(gone);
            given_back += change.pages.unsigned_abs() as u64 * PAGE_BYTES as u64;
        }
        given_back
    }
}

impl Shared {
    /// A slot of a class, if it has one.
    fn take(
        &self,
        class: usize,
        take: impl FnOnce(&mut Class) -> Option<(Taken, Change)>,
    ) -> Option<(usize, Taken)> {
        let mut locked = self.classes[class].lock();
        let (taken, change) = take(locked.as_mut()?)?;
        self.note(change);
        Some((class, taken))
    }

    /// The same of a class that had none.
    #[cold]
    fn take_of_new_slab(&self, class: usize) -> (usize, Taken) {
        let slot_bytes = size::bytes(class);
        let count = (self.slab_bytes / slot_bytes).clamp(SLOTS_MIN, SLOTS_MAX);
        loop {
            let (memory, slots) = (Memory::new(slot_bytes, count), Slots::new(slot_bytes, count));
            self.classes[class].lock().get_or_insert_default().add(memory, slots);
            // Others may have been faster, each by a slot.
            if let Some(taken) = self.take(class, Class::take_cold) {
                return taken;
            }
        }
    }

    #[cold]
    fn take_own(self: &Arc<Self>, len: usize) -> Piece {
        let capacity = Pool::capacity_of(len);
        self.note(Change { pages: (capacity / PAGE_BYTES) as isize, idle: 0 });
        self.used.fetch_add(capacity as u64, Relaxed);
        // SAFETY: it is the only slot of a memory that no other owner knows [P1].
        let bytes = unsafe { SlotBytes::new(Arc::new(Memory::new(capacity, 1)), 0, len) };
        Piece { bytes, place: None, shared: Arc::clone(self) }
    }

    /// Counts, under the lock of the class, so that no page is counted off before it was counted.
    fn note(&self, change: Change) {
        let bytes = |pages: isize| pages.unsigned_abs() as u64 * PAGE_BYTES as u64;
        let (resident, idle) = (bytes(change.pages), bytes(change.idle));
        if change.idle < 0 {
            self.idle.fetch_sub(idle, Relaxed);
        } else if change.idle > 0 {
            self.idle.fetch_add(idle, Relaxed);
        }
        if change.pages < 0 {
            self.resident.fetch_sub(resident, Relaxed);
            self.meter.iter().for_each(|meter| meter.subtract(resident));
        } else if change.pages > 0 {
            self.resident.fetch_add(resident, Relaxed);
            self.meter.iter().for_each(|meter| meter.add(resident));
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Of slabs that are empty, with the pool or with the last of its pieces.
        let resident = self.resident.load(Relaxed);
        self.meter.iter().for_each(|meter| meter.subtract(resident));
    }
}

impl Piece {
    /// Bytes that it has room for.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Its owner calls it so from now on, for [`Pool::sparse`]; any number but the largest.
    pub fn mark(&self, mark: u64) {
        self.bytes.marks().set(self.bytes.slot(), mark);
    }

    /// Sets its length to `len` bytes.
    ///
    /// # Panics
    /// If its capacity is less.
    pub fn set_len(&mut self, len: usize) {
        self.bytes.set_len(len);
    }
}

impl Deref for Piece {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.bytes.as_slice()
    }
}

impl DerefMut for Piece {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        self.bytes.as_mut_slice()
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl AsMut<[u8]> for Piece {
    fn as_mut(&mut self) -> &mut [u8] {
        self
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.mark(marks::NONE);
        sync::mutant!(Planted::PieceLeftLate, self.bytes.leave(), ());
        let (capacity, shared) = (self.capacity(), &self.shared);
        shared.used.fetch_sub(capacity as u64, Relaxed);
        match self.place {
            Some((class, slab)) => {
                let mut locked = shared.classes[usize::from(class)].lock();
                let class = locked.as_mut().expect("a piece of it was taken");
                let (change, gone) = class.release(slab as usize, self.bytes.slot());
                shared.note(change);
                drop(locked);
                drop(gone);
            }
            None => shared.note(Change { pages: -((capacity / PAGE_BYTES) as isize), idle: 0 }),
        }
        sync::mutant!(Planted::PieceLeftLate, (), self.bytes.leave());
    }
}
