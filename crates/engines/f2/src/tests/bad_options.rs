//! Options that make no sense are refused by name, before there is a file.

use std::sync::Arc;

use device::Device;
use engine::{Engine, Error, Host, NoJournal, Sequence};
use environment::Environment;
use memory_budget::MemoryBudget;
use telemetry::Registry;
use workers::Pool;

use crate::{Options, Store};

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    let bad = [
        ("mutable_share", Options { mutable_share: f64::NAN, ..usual() }),
        ("mutable_share", Options { mutable_share: 1.5, ..usual() }),
        ("page_bytes", Options { page_bytes: Some(5000), ..usual() }),
        ("page_bytes", Options { page_bytes: Some(2048), ..usual() }),
        ("page_bytes", Options { page_bytes: Some(1 << 31), ..usual() }),
        ("segment_bytes", Options { segment_bytes: 1000, ..usual() }),
        ("segment_bytes", Options { segment_bytes: 1 << 41, ..usual() }),
        ("chunk_bytes", Options { chunk_bytes: 32, ..usual() }),
        ("chunk_bytes", Options { chunk_bytes: 8192, ..usual() }),
        ("compaction_threads", Options { compaction_threads: 0, ..usual() }),
        ("index_bits", Options { index_bits: Some(31), ..usual() }),
    ];
    for (named, options) in bad {
        let device = device::memory();
        let refused = open(&device, options).map(drop).expect_err(named);
        let Error::BadOption { engine: "f2", option, .. } = refused else {
            panic!("{named}: {refused}");
        };
        assert_eq!(option, named);
        assert!(device.list("").expect("lists").is_empty(), "a file was made");
    }
}

#[test]
fn the_bounds_themselves_are_allowed() {
    let bounds = [
        Options { mutable_share: 0.0, chunk_bytes: 64, compaction_threads: 64, ..usual() },
        Options { mutable_share: 1.0, chunk_bytes: 4096, index_bits: Some(1), ..usual() },
        Options { page_bytes: Some(4096), segment_bytes: 4096, ..usual() },
        Options { segment_bytes: 1 << 40, ..usual() },
    ];
    for options in bounds {
        open(&device::memory(), options).expect("opens").close().expect("closes");
    }
}

fn usual() -> Options {
    Options { log_memory_bytes: Some(1 << 20), ..Options::default() }
}

fn open(device: &Arc<dyn Device>, options: Options) -> engine::Result<Store> {
    let environment = Environment::seeded(3);
    let telemetry = Registry::default();
    let host = Host {
        device: Arc::clone(device),
        workers: Pool::start(&environment, 1, &telemetry).expect("threads start"),
        telemetry,
        environment,
        sequence: Arc::new(Sequence::new()),
        barrier: Arc::new(NoJournal),
        memory: Arc::new(MemoryBudget::new(u64::MAX)),
    };
    Store::open(host, options)
}
