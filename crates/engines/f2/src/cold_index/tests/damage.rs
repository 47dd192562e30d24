//! Chunks that differ from the chunks written.

use device::Mode;
use engine::Error;

use super::{Bench, TINY, at, position, put};
use crate::cold_index::CHUNKS;
use crate::cold_index::rebuild::rebuild;
use crate::hybrid_log::{Geometry, Segments};

const KEYS: u64 = 2_000;
/// Behind the first block of the file, where records are.
const OFFSET: u64 = 4096 + 700;

#[test]
fn a_damaged_chunk_is_reported_with_its_place() {
    let bench = Bench::new(TINY);
    bench.apply((0..KEYS).map(|key| put(key, at(key + 1))).collect());
    let end = bench.flush();
    let name = bench.log.segments.file_name(0);
    let file = bench.device.open(&name, Mode::Write).expect("it is there");
    file.write_at(OFFSET, &[0xff; 8]).expect("it is written");
    let damages =
        (0..KEYS).filter_map(|key| match bench.index.find(position(key), &mut Vec::new()) {
            Err(Error::Corruption(damage)) => Some(damage),
            other => {
                other.expect("no other error");
                None
            }
        });
    let damages: Vec<_> = damages.collect();
    assert!(!damages.is_empty() && damages.len() < 20, "{damages:?}");
    assert!(
        damages.iter().all(|damage| damage.file == name && damage.offset.abs_diff(OFFSET) < 700)
    );
    let mut items: Vec<_> = (0..KEYS).map(|key| (position(key), key)).collect();
    let visited = bench.index.visit(&mut items, &super::go_on(), &mut |_, _| Ok(()));
    assert!(matches!(visited, Err(Error::Corruption(_))));
    let geometry = Geometry::new(TINY.page_bytes, TINY.segment_bytes, Geometry::FRAMES_MIN, 0.5);
    let salts = environment::Environment::seeded(1).random("segments");
    let begin = bench.log.begin();
    let device = std::sync::Arc::clone(&bench.device);
    let segments = Segments::open(device, CHUNKS, geometry, begin, end, salts).expect("opens");
    assert!(matches!(rebuild(&segments, &geometry, begin, end), Err(Error::Corruption(_))));
}
