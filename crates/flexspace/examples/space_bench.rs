//! Measures a FlexSpace: 4 KiB writes in order, and inserted at random, each with one sync at the
//! end, and how many bytes that writes to the device. In order before and after, as runs are not alike.
//!
//! `cargo run --release -p thermocline-flexspace --example space_bench -- DIR [MIB] [SYNCED]`: makes a space of
//! MIB (1024) in folders of DIR that must not exist yet, and SYNCED (200) inserts with a sync after each.

use std::error::Error;
use std::time::Duration;

use environment::Environment;
use flexspace::space::{FlexSpace, Options};
use rand::RngExt;

const WRITE_BYTES: usize = 4096;

struct Bench {
    environment: Environment,
    root: std::sync::Arc<dyn device::Device>,
    writes: u64,
}

impl Bench {
    /// Makes a space in a folder of its own, writes, and says how long that took, with a sync.
    fn run(
        &self,
        name: &str,
        writes: u64,
        mut write: impl FnMut(&FlexSpace, u64) -> Result<(), flexspace::space::Error>,
    ) -> Result<FlexSpace, Box<dyn Error>> {
        let device = self.root.subdevice(name)?;
        let space = FlexSpace::create(device, Options::default())?;
        let before = self.root.accounting().counts();
        let began = self.environment.now();
        for number in 0..writes {
            write(&space, number)?;
        }
        space.sync()?;
        let took = self.environment.now() - began;
        let after = self.root.accounting().counts();
        let bytes = writes * WRITE_BYTES as u64;
        let written = after.write_bytes - before.write_bytes;
        println!(
            "{name:18} {:8.1} MB/s  {:7.3} s  write amplification {:.4}  syncs {}",
            rate(bytes, took),
            took.as_secs_f64(),
            written as f64 / bytes as f64,
            after.syncs - before.syncs,
        );
        Ok(space)
    }

    fn reads(&self, name: &str, space: &FlexSpace, is_random: bool) -> Result<(), Box<dyn Error>> {
        let mut random = self.environment.random(name);
        let snapshot = space.snapshot()?;
        let mut buffer = vec![0; WRITE_BYTES];
        let began = self.environment.now();
        for number in 0..self.writes {
            let number = if is_random { random.random_range(0..self.writes) } else { number };
            snapshot.pread(number * WRITE_BYTES as u64, &mut buffer)?;
        }
        let took = self.environment.now() - began;
        let bytes = self.writes * WRITE_BYTES as u64;
        println!("{name:18} {:8.1} MB/s  {:7.3} s", rate(bytes, took), took.as_secs_f64());
        Ok(())
    }
}

fn rate(bytes: u64, took: Duration) -> f64 {
    bytes as f64 / 1e6 / took.as_secs_f64()
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().ok_or("say in which directory")?;
    let mib: u64 = arguments.next().map_or(Ok(1024), |mib| mib.parse())?;
    let synced: u64 = arguments.next().map_or(Ok(200), |synced| synced.parse())?;
    let root = device::open(dir, device::Options::default())?;
    let environment = Environment::seeded(1);
    let bench = Bench { environment, root, writes: (mib << 20) / WRITE_BYTES as u64 };
    let mut data = vec![0; WRITE_BYTES];
    bench.environment.random("data").fill(&mut data[..]);

    let space = bench.run("sequential-write", bench.writes, |space, _| space.append(&data))?;
    bench.reads("sequential-read", &space, false)?;
    space.close()?;
    let mut random = bench.environment.random("offsets");
    let space = bench.run("random-insert", bench.writes, |space, number| {
        space.insert(random.random_range(0..=number) * WRITE_BYTES as u64, &data)
    })?;
    let began = bench.environment.now();
    space.checkpoint()?;
    println!("checkpoint         {:.3} s", (bench.environment.now() - began).as_secs_f64());
    bench.reads("in-order-read", &space, false)?;
    bench.reads("random-read", &space, true)?;
    space.close()?;
    drop(space);
    let began = bench.environment.now();
    let device = bench.root.subdevice("random-insert")?;
    let space = FlexSpace::open(device, Options::default())?;
    println!("open               {:.3} s", (bench.environment.now() - began).as_secs_f64());
    space.close()?;
    // What was written before may slow down what is written next.
    bench.run("sequential-again", bench.writes, |space, _| space.append(&data))?.close()?;
    let space = bench.run("insert-and-sync", synced, |space, number| {
        space.insert(random.random_range(0..=number) * WRITE_BYTES as u64, &data)?;
        space.sync()
    })?;
    space.close()?;
    Ok(())
}
