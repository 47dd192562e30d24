//! Fuzzes the trace file that a benchmark replays.
#![no_main]

use bench::workload::Trace;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(trace) = Trace::read(bytes) else { return };
    let keys = trace.keys().len() as u64;
    assert!(!trace.operations().is_empty() && keys > 0);
    assert!(trace.operations().iter().all(|operation| operation.number < keys));
    assert!(trace.loads().iter().all(|(number, _)| *number < keys));
});
