//! Pages that the system makes for puts of values of a page each, once memtables come and go.
//! One test, in a process of its own.

use std::sync::Arc;

use engine::{BlockingWrites, Demand, Engine, Host, NoJournal, Op, Sequence, Wait};
use environment::Environment;
use memory_budget::MemoryBudget;
use thermocline_lsm::{Options, Store};

const PUTS: u64 = 6_000;
const VALUE_BYTES: usize = 4096;

/// Page faults of the calling thread so far that no device was needed for.
fn page_faults() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a figure of the system about this thread")]
    let read = std::fs::read("/proc/thread-self/stat").expect("the system tells");
    let text = String::from_utf8(read).expect("text");
    // Behind the name, which ends with the last bracket: the state, and six numbers before.
    let (_, figures) = text.rsplit_once(')').expect("a name in brackets");
    let faults = figures.split_whitespace().nth(7).and_then(|faults| faults.parse().ok());
    faults.expect("the tenth figure of all is that of minor faults")
}

#[test]
fn memtables_are_filled_in_memory_that_others_have_left() {
    let directory = tempfile::tempdir().expect("a directory");
    let (environment, telemetry) = (Environment::real(), telemetry::Registry::default());
    let budget = Arc::new(MemoryBudget::new(16 << 20));
    let host = Host {
        device: device::open(directory.path(), device::Options::default()).expect("it opens"),
        workers: workers::Pool::start(&environment, 2, &telemetry).expect("threads"),
        environment,
        telemetry,
        sequence: Arc::new(Sequence::new()),
        barrier: Arc::new(NoJournal),
        memory: Arc::clone(&budget),
    };
    let sequence = Arc::clone(&host.sequence);
    let store = Store::open(host, Options::default()).expect("an empty directory opens");
    let put = |from: u64| {
        let before = page_faults();
        for number in from..from + PUTS {
            let key = codec::hash64(7, &number.to_le_bytes()).to_be_bytes();
            let ops = [Op::Put { key: &key, value: &[number as u8; VALUE_BYTES] }];
            store.reserve(&Demand::Ops(&ops), Wait::Yes).map(drop).expect("it is admitted");
            store.write_next(&ops, &sequence).expect("it is taken");
        }
        page_faults() - before
    };
    let (first, then) = (put(0), put(PUTS));
    println!("{first} page faults for {PUTS} puts of a page, then {then}");
    assert!(then < PUTS / 2, "{then} page faults for {PUTS} puts");
    assert!(budget.used() <= budget.limit());
    store.close().expect("it closes");
}
