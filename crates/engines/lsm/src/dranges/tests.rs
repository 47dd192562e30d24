//! Dranges over streams of writes: that they cover all keys, follow the load, and how equal the
//! loads of 64 slots become, weighed against the known distribution as the paper does (its section
//! 8.2.1).

use proptest::prelude::*;

use super::construct::{Wanted, Weighed, construct};
use super::plan_reorganisation::{Plan, WINDOW, are_enough, have_moved, plan, weigh};
use super::*;

const SLOTS: usize = 64;
const WANTED: Wanted = Wanted { slots: SLOTS, tranges: 10, duplicates: true };
/// Writes that memtables hold, to be sampled.
const SAMPLE: usize = 40_000;
const KEYS: u64 = 1_000_000;

/// Numbers of a seed.
struct Numbers(u64);

impl Numbers {
    fn unit(&mut self) -> f64 {
        self.0 += 1;
        codec::hash64(7, &self.0.to_le_bytes()) as f64 / u64::MAX as f64
    }
}

/// The weight of writes to each key, added up: `cumulated[k]` of all below `k`.
struct Distribution {
    cumulated: Vec<f64>,
}

impl Distribution {
    fn uniform() -> Self {
        Self { cumulated: (0..=KEYS).map(|key| key as f64 / KEYS as f64).collect() }
    }

    fn zipf(theta: f64) -> Self {
        let mut sum = 0.0;
        let mut cumulated = vec![0.0];
        cumulated.extend((1..=KEYS).map(|rank| {
            sum += (rank as f64).powf(-theta);
            sum
        }));
        cumulated.iter_mut().for_each(|part| *part /= sum);
        Self { cumulated }
    }

    fn key(&self, unit: f64) -> u64 {
        (self.cumulated.partition_point(|part| *part <= unit) as u64).clamp(1, KEYS) - 1
    }

    /// The standard deviation of the slots' shares.
    fn imbalance(&self, dranges: &Dranges) -> f64 {
        let below = |key: &[u8]| {
            let mut bytes = [0; 8];
            bytes[..key.len().min(8)].copy_from_slice(&key[..key.len().min(8)]);
            let behind = u64::from(key.len() > 8);
            self.cumulated[((u64::from_be_bytes(bytes) + behind) as usize).min(KEYS as usize)]
        };
        let shares: Vec<f64> = dranges
            .all()
            .iter()
            .flat_map(|drange| {
                let end = drange.bounds.end.as_deref().map_or(1.0, below);
                let slots = drange.slots.len();
                vec![(end - below(&drange.bounds.start)) / slots as f64; slots]
            })
            .collect();
        let mean = 1.0 / shares.len() as f64;
        let squares = shares.iter().map(|share| (share - mean).powi(2)).sum::<f64>();
        (squares / shares.len() as f64).sqrt()
    }
}

/// Writes and reorganisations, without memtables.
struct Stream {
    dranges: Dranges,
    next_id: u64,
    numbers: Numbers,
    /// The newest writes.
    recent: Vec<u64>,
    written: usize,
    minors: u32,
    majors: u32,
}

impl Stream {
    fn new() -> Self {
        Self {
            dranges: Dranges::one(1),
            next_id: 1,
            numbers: Numbers(0),
            recent: Vec::new(),
            written: 0,
            minors: 0,
            majors: 0,
        }
    }

    fn write(&mut self, distribution: &Distribution, shift: u64, count: usize) {
        for _ in 0..count {
            let key = (distribution.key(self.numbers.unit()) + shift) % KEYS;
            self.dranges.count(self.dranges.route(&key.to_be_bytes(), 0).1);
            let at = self.written % SAMPLE;
            match self.recent.get_mut(at) {
                Some(old) => *old = key,
                None => self.recent.push(key),
            }
            self.written += 1;
            if self.written.is_multiple_of(16_000) {
                self.reorganise();
            }
        }
    }

    fn reorganise(&mut self) {
        let now = self.dranges.layout();
        let layout = match plan(&now, SLOTS) {
            Plan::Nothing => None,
            Plan::Minor(layout) => {
                self.minors += 1;
                Some(layout)
            }
            Plan::Major => {
                let mut sample: Vec<_> =
                    self.recent.iter().map(|key| key.to_be_bytes().to_vec()).collect();
                sample.sort();
                let layout = construct(&weigh(&now, sample), WANTED);
                let is_better =
                    layout.slots() > now.slots() || layout.imbalance() < 0.8 * now.imbalance();
                is_better.then(|| {
                    self.majors += 1;
                    layout.forgetting()
                })
            }
        };
        if let Some(layout) = layout {
            self.dranges = self.dranges.after(layout, &mut self.next_id);
        }
        if self.dranges.layout().writes() >= WINDOW {
            self.dranges.decay();
        }
    }
}

#[test]
fn uniform_writes_are_shared_out_equally() {
    let uniform = Distribution::uniform();
    let mut stream = Stream::new();
    stream.write(&uniform, 0, 2_000_000);
    assert_eq!(stream.dranges.slots(), SLOTS);
    let imbalance = uniform.imbalance(&stream.dranges);
    println!("uniform: {imbalance:.2e}, {} majors, {} minors", stream.majors, stream.minors);
    assert!(imbalance <= 3e-4, "{imbalance:.2e}");
    assert!(stream.majors <= 8, "{}", stream.majors);
}

#[test]
fn skewed_writes_are_shared_out_equally() {
    let zipf = Distribution::zipf(0.99);
    let mut stream = Stream::new();
    stream.write(&zipf, 0, 2_000_000);
    let duplicated = stream.dranges.all().iter().filter(|drange| drange.slots.len() > 1).count();
    let imbalance = zipf.imbalance(&stream.dranges);
    let (majors, minors) = (stream.majors, stream.minors);
    println!("zipf: {imbalance:.2e}, {majors} majors, {minors} minors, {duplicated} duplicated");
    assert!(imbalance <= 2e-3, "{imbalance:.2e}");
    assert!(duplicated >= 2, "the hottest keys have several slots");
    assert_eq!(stream.dranges.slots(), SLOTS);
}

/// A key that was hot long ago loses its weight.
#[test]
fn dranges_follow_a_hot_spot_that_moves() {
    let zipf = Distribution::zipf(0.99);
    let mut stream = Stream::new();
    stream.write(&zipf, 0, 500_000);
    stream.write(&zipf, KEYS / 2, 3_000_000);
    // The same distribution, from its new first key on.
    let mut moved = zipf.cumulated.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>();
    moved.rotate_right((KEYS / 2) as usize);
    let mut sum = 0.0;
    let mut cumulated = vec![0.0];
    cumulated.extend(moved.iter().map(|part| {
        sum += part;
        sum
    }));
    let imbalance = Distribution { cumulated }.imbalance(&stream.dranges);
    assert!(imbalance <= 3e-3, "{imbalance:.2e}");
}

/// Or each key of a sample would have a memtable of its own.
#[test]
fn where_no_write_was_counted_no_key_is_hot() {
    let sample: Vec<Weighed> = (0..100).map(|key| (vec![key], 0.0)).collect();
    let layout = construct(&sample, Wanted { slots: 4, ..WANTED });
    assert!(layout.slots() <= 4, "{}", layout.slots());
}

#[test]
fn what_was_counted_weighs_half_after_a_while() {
    let dranges = Dranges::one(1);
    (0..10).for_each(|_| dranges.count(0));
    dranges.decay();
    dranges.count(0);
    assert_eq!(dranges.layout().writes(), 6);
}

#[test]
fn a_minor_reorganisation_gives_edges_to_neighbours() {
    let part = |start: u8, writes: &[u64]| construct::Part {
        tranges: (start..).zip(writes).map(|(start, writes)| (vec![start], *writes)).collect(),
        slots: 1,
        is_point: false,
    };
    let mut parts: Vec<_> = (0..8).map(|at| part(10 * at, &[10_000; 10])).collect();
    parts[0].tranges[0].0.clear();
    parts[3].tranges.iter_mut().for_each(|(_, writes)| *writes = 15_000);
    // Too few writes since the boundaries were made to make better ones.
    let now = Layout { parts, basis: u64::MAX };
    let Plan::Minor(then) = plan(&now, 8) else { panic!("one has more than its share") };
    assert_eq!((then.writes(), then.slots()), (now.writes(), 8));
    assert!(then.imbalance() < now.imbalance() / 2.0, "{}", then.imbalance());
    let counts: Vec<_> = then.parts.iter().map(|part| part.tranges.len()).collect();
    assert!(counts[3] < 10 && counts[2] > 10 && counts[4] > 10, "{counts:?}");
    assert_eq!(plan(&then, 8), Plan::Nothing);
}

/// Windows of writes by one distribution, over boundaries that were made from few or many of them.
#[test]
fn writes_that_have_not_moved_are_not_taken_for_moved() {
    for distribution in [Distribution::uniform(), Distribution::zipf(0.99)] {
        let mut numbers = Numbers(0);
        let mut draw = || distribution.key(numbers.unit());
        for basis in [500, 2_000, 8_000, 32_000] {
            let mut sample: Vec<_> = (0..basis).map(|_| draw().to_be_bytes().to_vec()).collect();
            sample.sort();
            let layout = construct(&weigh(&Dranges::one(1).layout(), sample), WANTED);
            let dranges = Dranges::one(1).after(layout.forgetting(), &mut 1);
            for _ in 0..20 {
                let before = dranges.layout();
                for _ in 0..256 * SLOTS {
                    dranges.count(dranges.route(&draw().to_be_bytes(), 0).1);
                }
                let newest = dranges.layout().since(&before);
                assert!(are_enough(&newest));
                assert!(!have_moved(&newest), "made from {basis} writes");
            }
        }
    }
}

#[test]
fn writes_of_which_one_drange_has_three_times_its_share_have_moved() {
    let uniform = Distribution::uniform();
    let mut numbers = Numbers(0);
    let mut sample: Vec<_> =
        (0..SAMPLE).map(|_| uniform.key(numbers.unit()).to_be_bytes().to_vec()).collect();
    sample.sort();
    let layout = construct(&weigh(&Dranges::one(1).layout(), sample), WANTED);
    let dranges = Dranges::one(1).after(layout, &mut 1);
    // The writes counted before are far more than the writes that follow.
    assert!(dranges.layout().writes() > 2 * SLOTS as u64 * 256);
    let before = dranges.layout();
    for _ in 0..256 * SLOTS {
        let unit = numbers.unit();
        let key = if numbers.unit() < 0.03 { 700_000 } else { uniform.key(unit) };
        dranges.count(dranges.route(&key.to_be_bytes(), 0).1);
    }
    let newest = dranges.layout().since(&before);
    assert!(are_enough(&newest) && have_moved(&newest));
    assert!(!have_moved(&dranges.layout()), "all of them together would not tell it yet");
}

#[test]
fn a_drange_that_stays_as_it_was_keeps_its_id() {
    let sample: Vec<Weighed> = (0..100).map(|key| (vec![key], 1.0)).collect();
    let layout = construct(&sample, Wanted { slots: 4, ..WANTED });
    let mut next_id = 1;
    let one = Dranges::one(1).after(layout.clone(), &mut next_id);
    assert_eq!(one.all().iter().map(|drange| drange.id).collect::<Vec<_>>(), [1, 2, 3, 4]);
    let mut moved = layout;
    let trange = moved.parts[0].tranges.pop().expect("it has ten");
    moved.parts[1].tranges.insert(0, trange);
    let other = one.after(moved, &mut next_id);
    assert_eq!(other.all().iter().map(|drange| drange.id).collect::<Vec<_>>(), [5, 6, 3, 4]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// D1, and that each hot key has a Drange of its own.
    #[test]
    fn every_key_lies_in_one_drange(
        sample in prop::collection::btree_map(prop::collection::vec(0..4_u8, 0..4), 1..50_u32, 1..60),
        hot in 0..5_000_u32,
        slots in 1..20_usize,
        keys in prop::collection::vec(prop::collection::vec(0..4_u8, 0..5), 20),
    ) {
        let mut sample: Vec<Weighed> =
            sample.into_iter().map(|(key, weight)| (key, f64::from(weight))).collect();
        let at = hot as usize % sample.len();
        sample[at].1 += f64::from(hot);
        let layout = construct(&sample, Wanted { slots, ..WANTED });
        prop_assert!(layout.slots() <= slots.max(1));
        prop_assert_eq!(layout.parts[0].start(), b"");
        let dranges = Dranges::one(1).after(layout, &mut 1);
        let all = dranges.all();
        let is_range =
            |bounds: &Bounds| bounds.end.as_ref().is_none_or(|end| bounds.start < *end);
        prop_assert!(all.iter().all(|drange| is_range(&drange.bounds)));
        for key in keys.iter().chain(sample.iter().map(|(key, _)| key)) {
            let covering: Vec<_> =
                all.iter().filter(|drange| drange.bounds.covers(key)).map(|drange| drange.id).collect();
            let found = dranges.of_key(key).expect("D1");
            prop_assert_eq!(covering, [found.id]);
            prop_assert!(found.slots.contains(&dranges.route(key, 12345).0));
        }
    }
}
