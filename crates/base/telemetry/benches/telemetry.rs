//! The cost of counting and recording on a path.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use thermocline_telemetry::{Registry, Unit};

fn telemetry(criterion: &mut Criterion) {
    let registry = Registry::default();
    let counter = registry.counter("events_total", "Events.");
    criterion.bench_function("counter/increment", |b| b.iter(|| counter.increment()));
    let histogram = registry.histogram("event_seconds", "Times.", Unit::Seconds);
    let mut value = 0_u64;
    criterion.bench_function("histogram/record", |b| {
        b.iter(|| {
            value = value.wrapping_mul(25).wrapping_add(77) & 0xff_ffff;
            histogram.record(black_box(value));
        });
    });
    criterion.bench_function("snapshot/two_metrics", |b| b.iter(|| registry.snapshot()));
}

criterion_group!(benches, telemetry);
criterion_main!(benches);
