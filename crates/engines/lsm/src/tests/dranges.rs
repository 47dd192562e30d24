//! Dranges in a whole store: whatever is reorganised, merged and flushed, everything is found.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::{BlockingWrites, Direction, Engine, KeyRange, NoJournal, Op};
use environment::Environment;

use super::stores::{Bench, key, scan, small};
use crate::Options;
use crate::background::flush::Wanted;
use crate::dranges::construct::{Layout, Part};
use crate::dranges::plan_reorganisation::WINDOW;
use crate::options::Routing;
use lsm_tree::entry::Entry;

fn options() -> Options {
    Options { slots_max: 16, merging: true, ..small() }
}

fn bench(options: Options) -> Bench {
    Bench::with_options(device::memory(), Arc::new(NoJournal), 1 << 20, options).expect("opens")
}

/// Returns a layout whose Dranges begin at these keys, each with the given number of slots.
fn layout(parts: &[(&[u8], usize)]) -> Layout {
    let part = |(start, slots): &(&[u8], usize)| Part {
        tranges: vec![(start.to_vec(), 0)],
        slots: *slots,
        is_point: false,
    };
    Layout { parts: parts.iter().map(part).collect(), basis: 0 }
}

pub(super) fn install(bench: &Bench, parts: &[(&[u8], usize)]) {
    bench.store.shared.install_layout(layout(parts));
}

/// Writes of a hot key and of others, and what must be there then.
struct Mixed {
    bench: Bench,
    expected: BTreeMap<Vec<u8>, Vec<u8>>,
    seed: u64,
}

impl Mixed {
    fn new(options: Options) -> Self {
        Self { bench: bench(options), expected: BTreeMap::new(), seed: 0 }
    }

    fn number(&mut self) -> u64 {
        self.seed += 1;
        codec::hash64(3, &self.seed.to_le_bytes())
    }

    fn write(&mut self, count: u64) {
        for _ in 0..count {
            let number = self.number();
            let hot = number % 10 < 4;
            let key = if hot { key(500) } else { key((number >> 8) % 1000) };
            if number.is_multiple_of(7) && !hot {
                self.bench.delete(&key);
                self.expected.remove(&key);
            } else {
                let value = number.to_le_bytes().repeat(5);
                self.bench.put(&key, &value);
                self.expected.insert(key, value);
            }
            if number.is_multiple_of(50) {
                self.bench.crank.run_one();
            }
        }
    }

    fn verify(&self) {
        let expected: Vec<_> = self.expected.clone().into_iter().collect();
        let view = self.bench.view();
        assert_eq!(scan(&view, KeyRange::all(), Direction::Forward), expected);
        let mut backward = scan(&view, KeyRange::all(), Direction::Backward);
        backward.reverse();
        assert_eq!(backward, expected);
        for number in 0..1000 {
            assert_eq!(self.bench.get(&key(number)), self.expected.get(&key(number)).cloned());
        }
        for (from, to) in [(100, 130), (499, 502), (0, 1)] {
            let range = || KeyRange::of(key(from)..key(to));
            let within: Vec<_> = expected
                .iter()
                .filter(|(found, _)| (key(from)..key(to)).contains(found))
                .cloned()
                .collect();
            assert_eq!(scan(&view, range(), Direction::Forward), within);
            let mut backward = scan(&view, range(), Direction::Backward);
            backward.reverse();
            assert_eq!(backward, within);
        }
    }
}

#[test]
fn everything_is_found_however_it_is_kept() {
    let variants = [
        options(),
        Options { duplicates: false, ..options() },
        Options { merging: false, ..options() },
        Options { range_index: false, ..options() },
        Options { lookup_index_bytes_max: 0, ..options() },
        Options { routing: Routing::Random, ..options() },
        Options { routing: Routing::One, ..options() },
    ];
    for variant in variants {
        let routing = variant.routing;
        let mut mixed = Mixed::new(variant);
        for round in 0..12 {
            mixed.write(2000);
            mixed.verify();
            if round % 4 == 3 {
                mixed.bench.store.flush().expect("memory takes it");
                mixed.verify();
            }
        }
        let majors = mixed.bench.detail("reorganisations_major");
        assert_eq!(majors > 0, routing == Routing::Dranges, "{majors}");
        assert_eq!(mixed.bench.detail("drange_slots") > 1, routing != Routing::One);
        mixed.bench.store.flush().expect("memory takes it");
        assert_eq!(mixed.bench.store.persisted(), mixed.bench.sequence.visible());
        let report = crate::check(&mixed.bench.device).expect("memory reads");
        assert!(report.is_sound(), "{report:?}");
        let bench = Bench::on(mixed.bench.device.clone()).expect("opens");
        assert_eq!(bench.pairs(), mixed.expected.clone().into_iter().collect::<Vec<_>>());
    }
}

/// The slots of a Drange take turns: the newest version of a key may be in the older memtable.
#[test]
fn versions_in_several_slots_are_told_apart() {
    let bench = bench(options());
    install(&bench, &[(b"", 1), (b"h", 3), (b"i", 1)]);
    let mut value = 0_u64;
    let mut write = |count: u64| {
        for _ in 0..count {
            value += 1;
            bench.put(b"hot", &value.to_le_bytes().repeat(8));
            assert_eq!(bench.get(b"hot"), Some(value.to_le_bytes().repeat(8)), "{value}");
            assert_eq!(bench.pairs().len(), 1, "{value}");
        }
        value
    };
    let view = {
        write(5);
        bench.view()
    };
    write(300);
    bench.crank.run_all();
    assert!(bench.detail("memtable_merges") > 0);
    assert_eq!(bench.detail("flushed_bytes"), 0);
    write(10);
    // Into tables, with the slots at different places.
    bench.store.flush().expect("memory takes it");
    write(4);
    bench.store.flush().expect("memory takes it");
    let last = write(1);
    install(&bench, &[(b"", 1)]);
    assert_eq!(bench.get(b"hot"), Some(last.to_le_bytes().repeat(8)));
    bench.run_background();
    assert_eq!(bench.get(b"hot"), Some(last.to_le_bytes().repeat(8)));
    let mut seen = Vec::new();
    assert!(view.get(b"hot", &mut seen).expect("the store is open"));
    assert_eq!(seen, 5_u64.to_le_bytes().repeat(8));
}

/// A writer finds one slot full, and seals it alone, while a flush waits for writers of the other
/// one: entries of the new memtable of that slot must not stay behind younger ones.
#[test]
fn slots_are_flushed_together_when_any_thread_seals_one_of_them() {
    for newest in [Some(&b"newest"[..]), None] {
        let bench = bench(Options { merging: false, ..options() });
        let shared = &bench.store.shared;
        install(&bench, &[(b"", 2)]);
        let state = shared.state.load_full();
        let entered = state.actives[0].enter().expect("it is not sealed");
        let environment = Environment::real();
        let (sealing, first) = (Arc::clone(shared), vec![Arc::clone(&state.actives[0])]);
        let seal = environment.spawn("seal", move || sealing.seal(&first)).expect("a thread");
        let is_sealed = || shared.state.load().actives[0].id() != state.actives[0].id();
        while !is_sealed() {
            std::thread::yield_now();
        }
        let waiting = || shared.state.load().sealed.len();
        let flushing = Arc::clone(shared);
        let flush = environment.spawn("flush", move || flushing.flush_sealed(Wanted::Everything));
        let flush = flush.expect("a thread");
        // The memtable of the layout before is flushed without a wait; for the next one the flush
        // waits.
        while waiting() > 1 {
            std::thread::yield_now();
        }
        for _ in 0..10_000 {
            std::thread::yield_now();
        }
        shared.seal(&[Arc::clone(&state.actives[1])]);
        let write_to = |slot: usize, value: Option<&[u8]>| {
            let op = value.map_or(Op::Delete { key: b"k" }, |value| Op::Put { key: b"k", value });
            loop {
                let ticket = bench.sequence.begin();
                let now = shared.state.load_full();
                let (active, _) = now.active(b"k", ticket.seqno()).expect("the store is open");
                if active.id() == now.actives[slot].id() {
                    let ops = [op];
                    bench.store.write(&ops, ticket.seqno()).expect("the write is taken");
                    return;
                }
            }
        };
        write_to(1, Some(b"older"));
        write_to(0, newest);
        drop(entered);
        seal.join().expect("it does not panic");
        flush.join().expect("it does not panic").expect("memory takes it");
        let expected: Vec<_> =
            newest.map(|value| (b"k".to_vec(), value.to_vec())).into_iter().collect();
        for _ in 0..2 {
            assert_eq!(bench.get(b"k").as_deref(), newest);
            assert_eq!(bench.pairs(), expected);
            bench.run_background();
        }
    }
}

/// Writers look for room after each task, so none of them may be long.
#[test]
fn a_flush_task_flushes_one_drange() {
    let bench = bench(Options { merging: false, ..options() });
    // The opening's plan of compactions.
    bench.crank.run_all();
    let shared = &bench.store.shared;
    install(&bench, &[(b"", 1), (b"m", 1)]);
    bench.put(b"c", b"1");
    bench.put(b"p", b"1");
    shared.seal(&shared.state.load_full().actives);
    let due = || shared.state.load().due();
    assert_eq!(due(), 3, "one is of before");
    for left in [2, 1, 0] {
        assert!(bench.crank.run_one().is_some());
        assert_eq!(due(), left);
    }
}

/// Or a hot spot that moves would be followed the later the longer the store was open.
#[test]
fn what_a_store_has_counted_weighs_half_after_a_while() {
    let bench = bench(options());
    let shared = &bench.store.shared;
    let dranges = Arc::clone(&shared.state.load().dranges);
    let counted = || shared.state.load().dranges.layout().writes();
    (1..WINDOW).for_each(|_| dranges.count(0));
    shared.reorganise();
    assert_eq!(counted(), WINDOW - 1);
    dranges.count(0);
    shared.reorganise();
    assert_eq!(counted(), WINDOW / 2);
}

/// Large values are not all copied to find out that they are too large to be merged.
#[test]
fn a_merge_ends_where_it_is_too_much() {
    let bench = bench(Options { routing: Routing::One, ..options() });
    let shared = &bench.store.shared;
    for number in 0..40 {
        bench.put(&key(number), &[1; 100]);
    }
    shared.seal(&shared.state.load_full().actives);
    let sealed = shared.state.load_full().sealed.clone();
    let mut visited = 0;
    let mut visit = |_: &Entry<'_>| {
        visited += 1;
        visited < 3
    };
    let is_all = shared.visit_kept(&sealed, &mut visit).expect("memory reads");
    assert_eq!((is_all, visited), (false, 3));
    let is_all = shared.visit_kept(&sealed, &mut |_| true).expect("memory reads");
    assert!(is_all);
    let before = shared.memtables.memory().bytes();
    assert!(!shared.merge_memtables(&sealed).expect("memory reads"));
    assert_eq!(shared.memtables.memory().bytes(), before, "what was copied is gone");
    assert_eq!(bench.pairs().len(), 40);
}

/// Large keys: a sample of them is no copy of all.
#[test]
fn a_sample_takes_as_much_as_a_job() {
    let bench = bench(options());
    let shared = &bench.store.shared;
    for number in 0..40 {
        bench.put(&[key(number), vec![b'k'; 2000]].concat(), b"value");
    }
    let before = bench.budget.used();
    let (sample, charge) = shared.sample();
    let bytes: usize = sample.iter().map(Vec::len).sum();
    assert!(bytes as u64 <= 2 * shared.memory_split().job_bytes, "{bytes}");
    assert!(sample.len() > 5 && sample.is_sorted());
    assert!(bench.budget.used() >= before + bytes as u64);
    drop((sample, charge));
    assert_eq!(bench.budget.used(), before);
}

/// Merged entries stay in memory, and the journal keeps them, whatever else is flushed.
#[test]
fn few_keys_are_merged_and_not_persisted() {
    let bench = bench(Options { routing: Routing::One, ..options() });
    bench.put(b"first", b"1");
    bench.store.flush().expect("memory takes it");
    install(&bench, &[(b"", 1), (b"z", 1)]);
    let (flushed, before) = (bench.detail("flushed_bytes"), bench.sequence.visible());
    for round in 0..2000_u64 {
        bench.put(&key(round % 4), &round.to_le_bytes().repeat(8));
        bench.crank.run_all();
    }
    bench.delete(b"first");
    assert!(bench.detail("memtable_merges") > 5);
    assert_eq!(bench.detail("flushed_bytes"), flushed);
    assert!(bench.detail("memtable_entries") < 100, "{}", bench.detail("memtable_entries"));
    assert_eq!(bench.get(b"first"), None);
    for number in 0..500 {
        bench.put(&[b"z", &key(number)[..]].concat(), &[9; 60]);
        bench.crank.run_all();
    }
    assert!(bench.detail("flushed_bytes") > flushed);
    assert_eq!(bench.store.persisted(), before, "what came first is in no table");
    let pairs = bench.pairs();
    assert_eq!(pairs.len(), 504);
    bench.store.flush().expect("memory takes it");
    assert_eq!(bench.store.persisted(), bench.sequence.visible());
    assert_eq!(bench.reopen().pairs(), pairs);
}

/// A memtable of an older generation goes to Level 0 before a younger one that may share a key.
#[test]
fn older_generations_are_flushed_first() {
    let bench = bench(Options { merging: false, ..options() });
    let shared = &bench.store.shared;
    install(&bench, &[(b"", 1), (b"m", 1)]);
    bench.put(b"c", b"old");
    bench.put(b"p", b"old");
    install(&bench, &[(b"", 1), (b"b", 1), (b"q", 1)]);
    for name in [b"c", b"p"] {
        bench.put(name, b"new");
    }
    shared.seal(&shared.state.load_full().actives);
    let mut flushes = 0;
    while shared.flush_next(0).expect("memory takes it") {
        flushes += 1;
        for name in [b"c", b"p"] {
            assert_eq!(bench.get(name).as_deref(), Some(&b"new"[..]), "after {flushes}");
            assert_eq!(bench.pairs().len(), 2);
        }
    }
    assert!(flushes >= 3, "{flushes}");
    assert!(shared.state.load().sealed.is_empty(), "all are flushed");
}

/// The present number of memtables would take more than their share, however equal their loads are.
#[test]
fn with_less_memory_there_are_fewer_slots() {
    let mut mixed = Mixed::new(options());
    mixed.write(6000);
    let before = mixed.bench.detail("drange_slots");
    mixed.bench.budget.set_limit(128 << 10);
    let slots = mixed.bench.store.shared.memory_split().slots as u64;
    assert!(before > 4 * slots, "{before} before, {slots} now");
    for _ in 0..20 {
        mixed.write(500);
    }
    let after = mixed.bench.detail("drange_slots");
    assert!(after <= 2 * slots, "{after} where {slots} should be");
    mixed.verify();
}

/// The lookup index leads gets to the one memtable or table that has the key.
#[test]
fn gets_are_led() {
    let mut mixed = Mixed::new(options());
    mixed.write(3000);
    mixed.verify();
    let led = |mixed: &Mixed| {
        (mixed.bench.detail("led_to_memtables"), mixed.bench.detail("led_to_tables"))
    };
    let before = led(&mixed);
    assert!(before.0 > 0 && before.1 > 0, "{before:?}");
    mixed.bench.store.flush().expect("memory takes it");
    let before = led(&mixed);
    mixed.verify();
    let after = led(&mixed);
    assert_eq!(after.0, before.0, "memtables are empty");
    assert!(after.1 > before.1);
    let bytes = mixed.bench.detail("lookup_index_bytes");
    assert!(bytes > 0 && bytes <= (1 << 20) / 64, "{bytes}");
    mixed.bench.budget.set_limit(64 << 10);
    mixed.bench.store.shared.fit_lookup_index();
    assert!(mixed.bench.detail("lookup_index_bytes") <= 1 << 10);
    mixed.verify();
}
