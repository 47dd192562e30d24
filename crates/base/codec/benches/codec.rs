//! The cost of a varint and of a checksum.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use thermocline_codec::{Place, Reader, Writer, chain, crc32c, hash64};

fn varints(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("varint");
    for (name, shift) in [("one_byte", 57), ("five_bytes", 29), ("mixed", 0)] {
        let values: Vec<u64> = (0..1000_u64)
            .map(|index| {
                let value = index.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                if shift > 0 { value >> shift } else { value >> (index % 64) }
            })
            .collect();
        let mut bytes = Vec::new();
        values.iter().for_each(|value| Writer::new(&mut bytes).put_varint(*value));
        group.throughput(Throughput::Elements(values.len() as u64));
        group.bench_function(format!("put/{name}"), |bencher| {
            let mut out = Vec::with_capacity(bytes.len());
            bencher.iter(|| {
                out.clear();
                let mut writer = Writer::new(&mut out);
                black_box(&values).iter().for_each(|value| writer.put_varint(*value));
                out.len()
            });
        });
        group.bench_function(format!("take/{name}"), |bencher| {
            bencher.iter(|| {
                let mut from = Reader::new(black_box(&bytes));
                let mut sum = 0_u64;
                while let Ok(value) = from.take_varint_u64() {
                    sum = sum.wrapping_add(value);
                }
                sum
            });
        });
    }
    group.finish();
}

fn checksums(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("checksum");
    for len in [100, 4096, 1 << 20] {
        let bytes = vec![0x5a_u8; len];
        let place = Place { file: 1, offset: 4096, generation: 2 };
        group.throughput(Throughput::Bytes(len as u64));
        group.bench_function(format!("crc32c/{len}"), |b| b.iter(|| crc32c(black_box(&bytes))));
        group.bench_function(format!("place/{len}"), |b| {
            b.iter(|| place.crc32c(black_box(&bytes)));
        });
        group.bench_function(format!("chain/{len}"), |b| b.iter(|| chain(9, black_box(&bytes))));
        group.bench_function(format!("hash64/{len}"), |b| b.iter(|| hash64(9, black_box(&bytes))));
    }
    group.finish();
}

criterion_group!(benches, varints, checksums);
criterion_main!(benches);
