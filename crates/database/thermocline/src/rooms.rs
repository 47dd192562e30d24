//! Room in the engines for the steps of a write.
//!
//! A write reserves room before it locks its keys (I4 and I5 of [`crate::write`]). The steps are
//! grouped by their engines, in the order of the engines' ids, and each group has one reservation.

use engine::{Demand, Op, Reservation};

use crate::error::Result;
use crate::keyspace_entry::KeyspaceInstance;
use crate::write::Part;

/// A value in place of one that is not known yet. Its length is that of most values.
pub(crate) const USUAL_VALUE: [u8; engine::VALUE_BYTES_GUESSED as usize] =
    [0; engine::VALUE_BYTES_GUESSED as usize];

/// The steps of a write that go to one engine.
pub(crate) struct Group<'g, 'o> {
    pub(crate) instance: &'g KeyspaceInstance,
    pub(crate) ops: &'o [Op<'o>],
}

/// Hands steps over several engines to `with`, one group for each engine, in the order of their
/// ids.
pub(crate) fn in_groups<'g, T>(
    mut steps: Vec<(&'g KeyspaceInstance, Op<'_>)>,
    with: impl FnOnce(&[Group<'g, '_>]) -> T,
) -> T {
    // Stable, so that of two steps on one key the later one stays later.
    steps.sort_by_key(|(instance, _)| instance.id);
    let ops: Vec<Op<'_>> = steps.iter().map(|(_, op)| *op).collect();
    let mut groups = Vec::new();
    let mut begin = 0;
    for run in steps.chunk_by(|(one, _), (other, _)| one.id == other.id) {
        let end = begin + run.len();
        groups.push(Group { instance: run[0].0, ops: &ops[begin..end] });
        begin = end;
    }
    with(&groups)
}

/// The reservations of one write.
#[derive(Default)]
pub(crate) struct Rooms<'g>(Vec<Granted<'g>>);

/// A reservation in one engine, and the size of the write for which it was made.
pub(crate) struct Granted<'g> {
    id: u32,
    pub(crate) room: Reservation<'g>,
    steps: usize,
    bytes: usize,
}

impl<'g> Granted<'g> {
    /// Reserves room for a write to one engine. Waits for it.
    pub(crate) fn reserve(instance: &'g KeyspaceInstance, ops: &[Op<'_>]) -> Result<Self> {
        let room = instance.reserve(&Demand::Ops(ops))?;
        Ok(Self { id: instance.id, room, steps: ops.len(), bytes: bytes_of(ops) })
    }

    /// Reserves room for a value of `key` of up to `bytes_max` bytes. Waits for it.
    pub(crate) fn reserve_for_value(
        instance: &'g KeyspaceInstance,
        key: &[u8],
        bytes_max: u64,
    ) -> Result<Self> {
        let room = instance.reserve(&Demand::Update { key, bytes_max })?;
        Ok(Self { id: instance.id, room, steps: 1, bytes: key.len() + bytes_max as usize })
    }

    /// Returns the room for `ops`: this one if it suffices, and otherwise more, if there is some
    /// without a wait.
    pub(crate) fn or_more(
        granted: Option<Self>,
        instance: &'g KeyspaceInstance,
        ops: &[Op<'_>],
    ) -> Result<Option<Reservation<'g>>> {
        match granted {
            Some(granted) if granted.covers(ops) => Ok(Some(granted.room)),
            less => {
                // Otherwise the engine has less room for the larger one.
                drop(less);
                instance.try_reserve(&Demand::Ops(ops))
            }
        }
    }

    fn covers(&self, ops: &[Op<'_>]) -> bool {
        ops.len() <= self.steps && bytes_of(ops) <= self.bytes
    }
}

impl<'g> Rooms<'g> {
    /// Reserves room for each group. Waits for it. The groups are in the order of their engines'
    /// ids, so that two writes never wait for each other's reservations.
    pub(crate) fn reserve(groups: &[Group<'g, '_>]) -> Result<Self> {
        let each = groups.iter().map(|group| Granted::reserve(group.instance, group.ops));
        each.collect::<Result<_>>().map(Self)
    }

    /// Returns the groups with their room, or none if one has too little and its engine has no more
    /// without a wait.
    pub(crate) fn of_parts<'a>(mut self, groups: &[Group<'a, 'a>]) -> Result<Option<Vec<Part<'a>>>>
    where
        'g: 'a,
    {
        let mut parts = Vec::with_capacity(groups.len());
        for Group { instance, ops } in groups {
            let at = self.0.iter().position(|granted| granted.id == instance.id);
            let granted = at.map(|at| self.0.swap_remove(at));
            let Some(room) = Granted::or_more(granted, instance, ops)? else { return Ok(None) };
            parts.push(Part { instance, ops, room });
        }
        Ok(Some(parts))
    }
}

/// Returns the bytes of the keys and values of some steps.
pub(crate) fn bytes_of(ops: &[Op<'_>]) -> usize {
    ops.iter().map(Op::bytes).sum()
}
