//! How fast requests are parsed: a pipeline of small commands, and one with a large value.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};

fn pipeline(commands: usize, value_bytes: usize) -> Vec<u8> {
    let value = "x".repeat(value_bytes);
    (0..commands)
        .flat_map(|key| {
            let key = format!("key:{key:012}");
            format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${value_bytes}\r\n{value}\r\n", key.len())
                .into_bytes()
        })
        .collect()
}

fn parse(criterion: &mut Criterion) {
    for (name, commands, value_bytes) in [("32 of 3 B", 32, 3), ("1 of 1 MiB", 1, 1 << 20)] {
        let data = pipeline(commands, value_bytes);
        let mut group = criterion.benchmark_group("parse");
        group.throughput(Throughput::Elements(commands as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| thermocline_server::count_commands(std::hint::black_box(&data)));
        });
    }
}

criterion_group!(benches, parse);
criterion_main!(benches);
