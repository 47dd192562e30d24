//! The division of the memory between keyspaces, and between ranges.

use thermocline::Options;

/// Most keyspaces of a local cluster.
const KEYSPACES_MAX: usize = 16;
/// Bytes that the least memory of a range is.
const LEAST: u64 = Options::MEMORY_BYTES_MIN;

/// Returns the memory of a keyspace, if `before` were made earlier; none if too little is left.
/// Each keyspace gets half of the memory that is left, without the least memory of each later one.
/// It gets at least its own least memory.
pub(crate) fn of_keyspace(memory_bytes: u64, before: usize) -> Option<u64> {
    let mut left = memory_bytes;
    for position in 0..KEYSPACES_MAX {
        let kept = (KEYSPACES_MAX - position - 1) as u64 * LEAST;
        let own = (left.saturating_sub(kept) / 2).max(LEAST);
        left = left.checked_sub(own)?;
        if position == before {
            return Some(own);
        }
    }
    None
}

/// Returns the memory of a cluster whose first keyspace gets `bytes`, or the least memory of a
/// keyspace: the reverse of [`of_keyspace`].
pub(crate) fn with_first_keyspace(bytes: u64) -> u64 {
    let later = (KEYSPACES_MAX - 1) as u64 * LEAST;
    bytes.max(LEAST).saturating_mul(2).saturating_add(later)
}

/// Returns the memory of a range, if others have `taken`. It is an eighth of the rest, and at least
/// the least memory. Returns none if the rest is less.
pub(crate) fn of_range(memory_bytes: u64, taken: u64) -> Option<u64> {
    let left = memory_bytes.checked_sub(taken)?;
    (left >= LEAST).then(|| (left / 8).max(LEAST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_share_the_memory() {
        let (mut taken, mut count) = (0, 0);
        while let Some(memory) = of_range(256 << 20, taken) {
            assert!(memory >= LEAST);
            (taken, count) = (taken + memory, count + 1);
        }
        assert!(taken <= 256 << 20 && count >= 8, "{count} ranges have {taken} bytes");
        assert_eq!(of_range(LEAST, 1), None);
    }

    #[test]
    fn keyspaces_share_the_memory() {
        for memory_bytes in [8_u64, 12, 48, 100, 192, 768, 3 << 10].map(|mib| mib << 20) {
            let all: Vec<u64> = (0..20).map_while(|n| of_keyspace(memory_bytes, n)).collect();
            assert!(all.iter().sum::<u64>() <= memory_bytes, "{all:?}");
            assert!(all.iter().all(|bytes| *bytes >= LEAST), "{all:?}");
            assert!(all.windows(2).all(|pair| pair.first() >= pair.last()), "{all:?}");
            assert!(!all.is_empty() && all.len() <= KEYSPACES_MAX);
            if memory_bytes >= 192 << 20 {
                assert_eq!(all.len(), KEYSPACES_MAX);
            }
        }
        assert_eq!(of_keyspace(LEAST - 1, 0), None);
        for mib in [0_u64, 8, 9, 100, 4 << 10] {
            let (bytes, expected) = (mib << 20, mib.max(LEAST >> 20) << 20);
            assert_eq!(of_keyspace(with_first_keyspace(bytes), 0), Some(expected));
        }
    }
}
