//! Searches of one block.

use std::sync::Arc;

use proptest::prelude::*;

use super::{Versioned, entries, places};
use crate::entry::Target;
use crate::table::block::{Block, BlockBuilder, BlockCursor, Hit};
use crate::testing::entry_of;

fn block_of(entries: &[Versioned], restart_interval: usize) -> Arc<Block> {
    let mut builder = BlockBuilder::new(restart_interval);
    entries.iter().for_each(|entry| builder.push(&entry_of(entry)));
    Arc::new(Block::decode(builder.finish()).expect("it was just built"))
}

proptest! {
    /// A search finds the entry that a cursor goes to.
    #[test]
    fn a_search_finds_what_a_cursor_finds(
        entries in entries(),
        places in places(),
        restart_interval in 1..20_usize,
    ) {
        let block = block_of(&entries, restart_interval);
        let all = places.iter().map(|(key, seqno)| (key, *seqno));
        let own = entries.iter().map(|(key, seqno, _)| (key, *seqno));
        for (key, seqno) in all.chain(own) {
            let to = Target { key, seqno: codec::SeqNo::new(seqno) };
            let mut cursor = BlockCursor::new(Arc::clone(&block));
            cursor.seek(to).expect("it is whole");
            let expected = cursor.entry().map(|entry| {
                Hit { has_key: entry.key == key, seqno: entry.seqno, value: entry.value }
            });
            prop_assert_eq!(block.find(to).expect("it is whole"), expected);
        }
    }

    /// In a damaged block both find the same, or both find the damage.
    #[test]
    fn a_search_of_any_bytes_ends(
        entries in entries(),
        places in places(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..9),
    ) {
        let mut builder = BlockBuilder::new(4);
        entries.iter().for_each(|entry| builder.push(&entry_of(entry)));
        let mut bytes = builder.finish();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let Ok(block) = Block::decode(bytes).map(Arc::new) else { return Ok(()) };
        for (key, seqno) in &places {
            let to = Target { key, seqno: codec::SeqNo::new(*seqno) };
            let mut cursor = BlockCursor::new(Arc::clone(&block));
            let expected = cursor.seek(to).map(|_| {
                cursor.entry().map(|entry| {
                    Hit { has_key: entry.key == key, seqno: entry.seqno, value: entry.value }
                })
            });
            prop_assert_eq!(block.find(to), expected);
        }
    }
}
