//! How equal the loads of slots are in a whole store, as put shares that are counted, and how much
//! less is written for it.

use std::sync::Arc;

use engine::{Engine, NoJournal, Op};

use super::stores::{Bench, small};
use crate::{Compression, Options};

const KEYS: u64 = 1_000_000;
const SLOTS: usize = 64;

/// Keys by how often they are written to.
struct Stream {
    /// How much is written to the keys below each key; none for equal parts.
    cumulated: Option<Vec<f64>>,
    at: u64,
}

impl Stream {
    fn uniform() -> Self {
        Self { cumulated: None, at: 0 }
    }

    /// Zipf's, the hottest keys first.
    fn zipf() -> Self {
        Self::zipf_of(KEYS)
    }

    fn zipf_of(keys: u64) -> Self {
        let mut sum = 0.0;
        let mut cumulated: Vec<f64> = (1..=keys)
            .map(|rank| {
                sum += (rank as f64).powf(-0.99);
                sum
            })
            .collect();
        cumulated.iter_mut().for_each(|part| *part /= sum);
        Self { cumulated: Some(cumulated), at: 0 }
    }

    fn key(&mut self) -> [u8; 8] {
        self.at += 1;
        let unit = codec::hash64(7, &self.at.to_le_bytes()) as f64 / u64::MAX as f64;
        let key = match &self.cumulated {
            None => (unit * KEYS as f64) as u64,
            Some(cumulated) => cumulated.partition_point(|part| *part <= unit) as u64,
        };
        key.min(KEYS - 1).to_be_bytes()
    }
}

/// 64 slots, little in each memtable, and no compaction, which these tests are not about.
fn options() -> Options {
    Options {
        slots_max: SLOTS,
        merging: true,
        memtable_bytes_max: 104 << 10,
        block_bytes: 4096,
        compression: vec![Compression::None],
        level0_tables: 1 << 20,
        level0_tables_slow: 1 << 20,
        ..small()
    }
}

fn written(options: Options, stream: &mut Stream, count: usize) -> Bench {
    let bench = Bench::with_options(device::memory(), Arc::new(NoJournal), 96 << 20, options);
    let bench = bench.expect("an empty device opens");
    for _ in 0..count {
        bench.apply(&[Op::Put { key: &stream.key(), value: &[7; 16] }]);
        bench.crank.run_one();
    }
    bench
}

/// Puts `count` pairs, with all work that the store does meanwhile, and counts them by the slots of
/// the memtables that they are found in. Returns the standard deviation of the slots' shares.
fn deviation(bench: &Bench, stream: &mut Stream, count: usize) -> f64 {
    let mut puts = vec![0_u64; SLOTS];
    for _ in 0..count {
        let seqno = bench.apply(&[Op::Put { key: &stream.key(), value: &[7; 16] }]);
        let state = bench.store.shared.state.load();
        assert_eq!(state.actives.len(), SLOTS);
        let slot = state.actives.iter().position(|active| active.newest() == seqno);
        puts[slot.expect("a put is in a memtable that is written to")] += 1;
        drop(state);
        bench.crank.run_one();
    }
    // One Drange with all slots would share out anything equally.
    assert!(bench.store.shared.state.load().dranges.all().len() > SLOTS / 2);
    let mean = 1.0 / SLOTS as f64;
    let square = |puts: &u64| (*puts as f64 / count as f64 - mean).powi(2);
    (puts.iter().map(square).sum::<f64>() / SLOTS as f64).sqrt()
}

/// Reorganisations, minor and major ones.
fn reorganisations(bench: &Bench) -> u64 {
    bench.detail("reorganisations_minor") + bench.detail("reorganisations_major")
}

/// Returns the store's own figure: as good as it should be, except for the effect of chance on the
/// puts that it has counted.
fn told(bench: &Bench, most: f64) -> f64 {
    let told = bench.detail("put_share_deviation_ppm") as f64 / 1e6;
    let counted = bench.store.shared.state.load().dranges.layout().writes() as f64;
    let chance = (1.0 / SLOTS as f64 / counted.max(1.0)).sqrt();
    assert!(told <= most + 3.0 * chance, "{told:.2e} of {counted} puts");
    told
}

#[test]
fn put_shares_of_uniform_writes_are_equal() {
    let mut stream = Stream::uniform();
    let bench = written(options(), &mut stream, 500_000);
    let told = told(&bench, 3e-4);
    let shares = deviation(&bench, &mut stream, 2_000_000);
    let times = reorganisations(&bench);
    println!(
        "uniform: {shares:.2e} of two million puts, {told:.2e} is told, {times} reorganisations"
    );
    assert!(shares <= 3e-4, "{shares:.2e}");
}

#[test]
fn put_shares_of_skewed_writes_are_equal() {
    let mut stream = Stream::zipf();
    let bench = written(options(), &mut stream, 500_000);
    let told = told(&bench, 2e-3);
    let shares = deviation(&bench, &mut stream, 2_000_000);
    let times = reorganisations(&bench);
    println!("zipf: {shares:.2e} of two million puts, {told:.2e} is told, {times} reorganisations");
    assert!(shares <= 2e-3, "{shares:.2e}");
}

/// Flushes, and the bytes that they write, of the same writes.
#[test]
fn merging_flushes_less_under_skew() {
    let flushed = |options: Options| {
        let bench = written(options, &mut Stream::zipf_of(10_000), 1_000_000);
        bench.store.flush().expect("memory takes it");
        (bench.detail("flushes"), bench.detail("flushed_bytes"), bench.detail("memtable_merges"))
    };
    let merged = flushed(options());
    let unmerged = flushed(Options { merging: false, ..options() });
    println!("flushes, bytes, merges: {merged:?}, and without merging {unmerged:?}");
    assert!(merged.2 > 0 && unmerged.2 == 0);
    assert!(merged.1 * 2 <= unmerged.1, "{} of {} bytes", merged.1, unmerged.1);
    assert!(merged.0 * 2 <= unmerged.0, "{} of {}", merged.0, unmerged.0);
}
