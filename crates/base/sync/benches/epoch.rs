//! The cost of protection on a path, and the cost of a bump.

use criterion::{Criterion, criterion_group, criterion_main};
use thermocline_sync::epoch::Epochs;

fn protection(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("epoch");
    let epochs = Epochs::new();
    let participant = epochs.join();
    group.bench_function("protect_release/participant", |b| b.iter(|| drop(participant.protect())));
    group.bench_function("protect_release/no_participant", |b| b.iter(|| drop(epochs.protect())));
    {
        let mut guard = participant.protect();
        group.bench_function("refresh/same_epoch", |b| b.iter(|| guard.refresh()));
        group.bench_function("refresh/bump_each_time", |b| {
            b.iter(|| {
                epochs.bump_with(|| {});
                guard.refresh();
            });
        });
        group.bench_function("protect_release/nested", |b| b.iter(|| drop(participant.protect())));
    }
    group.bench_function("bump_with/nobody_protected", |b| b.iter(|| epochs.bump_with(|| {})));
    group.finish();
}

criterion_group!(benches, protection);
criterion_main!(benches);
