//! The updates that one step of a commit takes from its memtables.

use crate::memtable::{BatchWalker, Update};
use crate::options::Options;

/// Returns the next updates before `bound`, and whether these are all of them, or only the number
/// that is planned in one step.
pub(super) fn take_updates(
    walker: &mut BatchWalker<'_>,
    bound: Option<&[u8]>,
    options: &Options,
) -> (Vec<Update>, bool) {
    let (updates_max, bytes_max) = (options.round_updates_max, options.round_bytes_max);
    let mut updates = Vec::new();
    let mut bytes = 0;
    while let Some(next) = walker.here().filter(|it| bound.is_none_or(|bound| it.key < bound)) {
        if !updates.is_empty() && (updates.len() >= updates_max || bytes >= bytes_max) {
            return (updates, false);
        }
        bytes += next.key.len() + next.value_bytes;
        updates.extend(walker.take());
    }
    (updates, true)
}
