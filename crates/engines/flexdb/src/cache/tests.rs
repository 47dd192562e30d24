//! The memory that the cache keeps resident.

use super::*;
use crate::index::Lie;

/// Blocks that are held are in all slabs, among others that are evicted (B2).
#[test]
fn what_lies_between_blocks_goes_back_to_the_system() {
    let budget = Arc::new(MemoryBudget::new(16 << 20));
    let cache = Cache::new(&budget, false);
    let account = Arc::new(Account::new(&budget));
    let (mut heads, mut held) = (Vec::new(), Vec::new());
    for number in 0..2000_u32 {
        let bound = number.to_be_bytes();
        let head = Head::new(&bound, &bound, Lie::default(), &account);
        let block = Arc::new(Block::of_image(&[7; 4000], &[4000], true, &cache.memory));
        cache.insert(&head, &block, 10 << 20);
        if number % 20 == 0 {
            held.push(block);
        }
        heads.push(head);
    }
    assert!(cache.memory.resident() > 7 << 20, "{} bytes", cache.memory.resident());
    let share = 1 << 20;
    cache.shrink(share);
    assert!(cache.bytes() <= share, "{} bytes", cache.bytes());
    let (resident, most) = (cache.memory.resident(), share + cache.memory.loss_max());
    assert!(resident <= most, "{resident} bytes of {most}");
    assert!(held.iter().all(|block| block.pairs() == [7; 4000]));
}
