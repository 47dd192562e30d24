//! Reservations of space on the device.
//!
//! A write reserves the segments that it may begin before it gets a number, so that an append finds
//! its space ([`crate::values::bound`]). A reservation that is dropped returns it.
//!
//! A write that finds no space has three ways.
//! 1. It waits if garbage may be collected: the records of some group were not judged since the
//!    last append, or the last collection freed something.
//! 2. If it puts values in the place of others that are no smaller, it may take the segments that
//!    are kept for such writes. This is the only lookup in the index that a write causes.
//! 3. Otherwise it is refused with [`Error::NoSpace`], if the bound is fixed. A bound that follows
//!    the live bytes grows with the write.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use codec::SeqNo;
use engine::{At, Demand, Error, Op, Reservation, Result, Wait};

use crate::admission::has_value_of_its_own;
use crate::collect::COLLECT;
use crate::index_value::IndexValue;
use crate::segment::record::record_bytes;
use crate::store::Shared;
use crate::values::bound::{User, charge, charge_max, segments_for};

/// The space that records of one group take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Need {
    /// Charges of records that share segments.
    pub(crate) shared: u64,
    /// Bytes of the places of longer records.
    pub(crate) long: u64,
}

/// The space that a write takes.
struct Wanted {
    /// Each group once.
    needs: Vec<(usize, Need)>,
    user: User,
}

/// Returns the slot of a reservation. Slot 0 is that of memory.
fn slot(group: usize, is_long: bool) -> u32 {
    2 * group as u32 + 1 + u32::from(is_long)
}

/// Takes the space of a record out of the reservation of its write, and returns how much it has
/// taken.
pub(crate) fn spend(room: &mut Reservation<'_>, group: usize, is_long: bool, bytes: u64) -> u64 {
    // Behind the memory of buffers, and the room in the index.
    let mut next = room.inner().and_then(Reservation::inner);
    while let Some(space) = next {
        if space.slot() == slot(group, is_long) {
            return space.spend(bytes);
        }
        next = space.inner();
    }
    0
}

impl Shared {
    /// Returns the rest of a reservation of space.
    pub(crate) fn return_space(&self, bytes: u64, slot: u32) {
        if bytes == 0 {
            return;
        }
        let (group, is_long) = ((slot as usize - 1) / 2, slot.is_multiple_of(2));
        let need = match is_long {
            true => Need { shared: 0, long: bytes },
            false => Need { shared: bytes, long: 0 },
        };
        self.values.return_space(group, &need);
        self.admission.space_writers.note_returned(&self.group);
    }

    /// Reserves space for the records of a write.
    ///
    /// # Errors
    /// [`Error::NoSpace`]; [`Error::SpaceUsedUp`] if collecting fails.
    pub(crate) fn reserve_space(
        self: &Arc<Self>,
        demand: &Demand<'_>,
        wait: Wait,
    ) -> Result<Option<Reservation<'_>>> {
        if wait == Wait::Replay {
            return Ok(Some(Reservation::uncounted()));
        }
        let wanted = self.wanted(demand);
        let Wanted { needs, mut user } = wanted;
        let writers = &self.admission.space_writers;
        let room = writers.try_beside_queue(&self.group, || self.try_space(&needs, Some(user)));
        if room.is_some() {
            return Ok(room);
        }
        self.health.check_writable()?;
        if wait == Wait::No {
            if self.may_free() {
                self.schedule_collect_for_writers();
            }
            return Ok(None);
        }
        if user == User::Grows && writers.time_room(|| self.replaces(demand)) {
            user = User::Replaces;
        }
        let since = self.admission.collections.begun();
        // A write that is refused does not wait for others.
        if self.missing(&needs, user) > 0
            && let Some(room) = self.without_garbage(&needs, user, since)?
        {
            return Ok(Some(room));
        }
        let attempt = || {
            self.health.check_writable()?;
            match self.try_space(&needs, Some(user)) {
                None => self.without_garbage(&needs, user, since),
                room => Ok(room),
            }
        };
        let room = writers.time_room(|| writers.wait_for_room(&self.group, attempt));
        room.map(Some)
    }

    /// Returns the space that the records of a write take at most.
    fn wanted(&self, demand: &Demand<'_>) -> Wanted {
        match demand {
            Demand::Ops(ops) => {
                let mut needs = Vec::with_capacity(1);
                let mut user = User::Replaces;
                for op in *ops {
                    let (key, separation) = (op.key(), self.options.separation_bytes);
                    let value = op.value().filter(|it| has_value_of_its_own(key, it, separation));
                    if value.is_some() {
                        user = User::Grows;
                    }
                    let bytes = record_bytes(key.len(), value.map_or(0, <[u8]>::len));
                    self.add_need(&mut needs, key, bytes);
                }
                Wanted { needs, user }
            }
            Demand::Update { key, bytes_max } => {
                let mut needs = Vec::with_capacity(1);
                let bytes = record_bytes(key.len(), *bytes_max as usize);
                self.add_need(&mut needs, key, bytes);
                if self.values.is_long(bytes) {
                    // The value may be shorter.
                    let shared = charge_max(u64::from(self.values.geometry.segment_bytes));
                    needs.iter_mut().for_each(|(_, need)| need.shared += shared);
                }
                Wanted { needs, user: User::Grows }
            }
            Demand::Ingestion => Wanted { needs: Vec::new(), user: User::Grows },
        }
    }

    /// Adds what a record takes to the need of its group.
    fn add_need(&self, needs: &mut Vec<(usize, Need)>, key: &[u8], bytes: usize) {
        let group = self.values.group_number(self.values.hash(key).position());
        let need = match needs.iter_mut().find(|(other, _)| *other == group) {
            Some((_, need)) => need,
            None => {
                needs.push((group, Need::default()));
                let Some((_, need)) = needs.last_mut() else { return };
                need
            }
        };
        match self.values.is_long(bytes) {
            true => need.long += self.values.long_bytes(bytes),
            false => need.shared += charge(bytes),
        }
    }

    /// Reserves space, if there is some for this user; for none, whatever the limit is.
    fn try_space(&self, needs: &[(usize, Need)], user: Option<User>) -> Option<Reservation<'_>> {
        let mut all: Option<Reservation<'_>> = None;
        let reserved =
            |(group, need): &&(usize, Need)| self.values.reserve_space(*group, need, user);
        let count = needs.iter().take_while(reserved).count();
        if count < needs.len() {
            let reserved = needs.iter().take(count);
            reserved.for_each(|(group, need)| self.values.return_space(*group, need));
            return None;
        }
        for (group, need) in needs {
            for (is_long, bytes) in [(false, need.shared), (true, need.long)] {
                if bytes > 0 {
                    let one = Reservation::new(self, bytes, slot(*group, is_long));
                    all = Some(match all {
                        Some(others) => one.with(others),
                        None => one,
                    });
                }
            }
        }
        Some(all.unwrap_or_else(Reservation::uncounted))
    }

    /// Returns how many bytes are missing for a write, at least.
    fn missing(&self, needs: &[(usize, Need)], user: User) -> u64 {
        self.values.bound.missing(self.values.space_needed(needs), user)
    }

    /// Has garbage collected for a write that finds no space. If there is no garbage and no fixed
    /// bound, live records have made the bound too small: then the space is reserved without a
    /// limit. `since` is the last collection before the write has begun to wait.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if there is no garbage; [`Error::SpaceUsedUp`] if collecting fails.
    fn without_garbage(
        self: &Arc<Self>,
        needs: &[(usize, Need)],
        user: User,
        since: u64,
    ) -> Result<Option<Reservation<'_>>> {
        let is_fixed = self.options.disk_bytes_max.is_some();
        if !is_fixed && self.values.gates.are_exchanges_held() {
            // No job frees space until the checkpoint or the compaction ends.
            return Ok(self.try_space(needs, None));
        }
        let failure = self.values.failures.pausing(COLLECT);
        let failure = failure.or_else(|| self.admission.collections.failure_after(since));
        if let Some(cause) = failure {
            if !is_fixed {
                return Ok(self.try_space(needs, None));
            }
            let (bytes, limit) = (self.values.bound.allocated(), self.values.bound.limit());
            let (what, cause) = ("the volumes of values", Arc::new(cause));
            return Err(Error::SpaceUsedUp { what, bytes, limit, cause });
        }
        // It may judge a group, or free space, now. Its end has the write look again.
        if self.admission.is_collect_queued.load(SeqCst) {
            return Ok(None);
        }
        let bytes = self.values.space_needed(needs);
        let is_possible = !is_fixed || self.values.bound.holds_when_empty(bytes, user);
        if is_possible && self.may_free() {
            self.schedule_collect_for_writers();
            return Ok(None);
        }
        if !is_fixed {
            return Ok(self.try_space(needs, None));
        }
        // Another write may have reserved space for some groups, and then found none for others.
        if let Some(room) = self.try_space(needs, Some(user)) {
            return Ok(Some(room));
        }
        let space = self.space();
        Err(Error::NoSpace {
            live_bytes: space.live,
            held_bytes: space.held,
            limit_bytes: self.values.bound.limit(),
            more_bytes: self.missing(needs, user),
        })
    }

    /// Returns whether a collection may free something.
    fn may_free(&self) -> bool {
        let (moment, is_futile) = (self.moment(), self.admission.is_futile.load(Relaxed));
        self.values.groups.iter().any(|group| {
            let state = group.state.lock();
            let has_dead = state.ledger.dead > 0 && !is_futile;
            !state.is_barred && (has_dead || !state.is_judged(&moment))
        })
    }

    /// Returns whether each step of a write puts a value in the place of one that is no smaller and
    /// that no snapshot sees, or makes garbage of another kind.
    fn replaces(&self, demand: &Demand<'_>) -> bool {
        let separation = self.options.separation_bytes;
        let longest: Vec<(&[u8], usize)> = match demand {
            Demand::Ops(ops) => {
                let own = |op: &Op<'_>, it: &&[u8]| has_value_of_its_own(op.key(), it, separation);
                let put = ops.iter().filter_map(|op| {
                    let value = op.value().filter(|it| own(op, it))?;
                    Some((op.key(), record_bytes(op.key().len(), value.len())))
                });
                put.collect()
            }
            Demand::Update { key, bytes_max } => {
                vec![(*key, record_bytes(key.len(), *bytes_max as usize))]
            }
            Demand::Ingestion => return false,
        };
        let keys: Vec<&[u8]> = longest.iter().map(|(key, _)| *key).collect();
        let mut replaced = 0;
        let looked_up =
            self.reads.multi_get(&*self.index, &keys, At::Newest, &mut |number, value| {
                let Some(Ok(IndexValue::Handle(old))) = value.map(IndexValue::decode) else {
                    return;
                };
                let is_smaller =
                    longest.get(number).is_none_or(|(_, new)| *new > old.bytes as usize);
                let is_seen = self.host.sequence.is_seen(old.number, SeqNo::MAX);
                replaced += usize::from(!is_smaller && !is_seen);
            });
        looked_up.is_ok() && replaced == keys.len()
    }
}

impl crate::values::Values {
    /// Returns the bytes of the segments that records begin, at least.
    fn space_needed(&self, needs: &[(usize, Need)]) -> u64 {
        let segment_bytes = u64::from(self.geometry.segment_bytes);
        let of = |(_, need): &(usize, Need)| {
            let segments = segments_for(need.shared, segment_bytes, segment_bytes);
            need.long + segments.max(u64::from(need.shared > 0)) * segment_bytes
        };
        needs.iter().map(of).sum()
    }
}
