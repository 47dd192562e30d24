//! Compares the io_uring device with `fio` on the same file, in interleaved rounds.
//!
//! ```text
//! cargo run --release -p thermocline-device --example io_bench -- DIR [GIB] [ROUNDS] [SECONDS]
//! ```
//!
//! In each round every workload runs once on the device and once under `fio`, for SECONDS each,
//! with the same block size, depth and direct I/O. The one that runs first changes from round to
//! round. The table gives medians, the least and the most over the rounds, and the median of the
//! rounds' ratios. It also gives figures that a busy machine disturbs less: microseconds of
//! processor time per operation and, at a depth of one, the median latency. `fio` has to be
//! installed (`apt install fio`).
#![expect(clippy::unwrap_used, reason = "a measurement that goes wrong stops")]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use environment::{Environment, Random};
use rand::Rng;
use thermocline_device::{
    Buffer, Completion, Device, File, Io, Mode, Options, Queue, Request, Work, open,
};

const FILE: &str = "io_bench.data";
const READ_BYTES: usize = 4096;
const WRITE_BYTES: usize = 1 << 20;

/// The measured workload.
#[derive(Clone, Copy)]
enum Workload {
    /// Random reads of 4 KiB on a queue of this depth.
    Reads { depth: usize },
    /// The same by blocking calls of the file, one by one.
    BlockingReads,
    /// Sequential writes of 1 MiB on a queue of this depth.
    Writes { depth: usize },
}

const WORKLOADS: [Workload; 6] = [
    Workload::BlockingReads,
    Workload::Reads { depth: 1 },
    Workload::Reads { depth: 32 },
    Workload::Reads { depth: 128 },
    Workload::Writes { depth: 1 },
    Workload::Writes { depth: 4 },
];

impl Workload {
    fn name(self) -> String {
        match self {
            Self::Reads { depth } => format!("4 KiB random reads, queue of {depth}"),
            Self::BlockingReads => "4 KiB random reads, blocking".to_owned(),
            Self::Writes { depth } => format!("1 MiB sequential writes, queue of {depth}"),
        }
    }

    fn depth(self) -> usize {
        match self {
            Self::Reads { depth } | Self::Writes { depth } => depth,
            Self::BlockingReads => 1,
        }
    }

    /// How `fio` calls the same.
    fn fio(self) -> (&'static str, usize) {
        match self {
            Self::Reads { .. } | Self::BlockingReads => ("randread", READ_BYTES),
            Self::Writes { .. } => ("write", WRITE_BYTES),
        }
    }
}

/// The result of a run of one workload.
#[derive(Clone, Copy)]
struct Run {
    per_second: f64,
    cpu_us: f64,
    /// The median latency, if one operation at a time was under way.
    latency_us: f64,
}

/// Processor time that this process took so far.
fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

struct Bench {
    env: Environment,
    device: Arc<dyn Device>,
    file: Arc<dyn File>,
    file_bytes: u64,
    duration: Duration,
}

/// Offsets of one run.
struct Offsets {
    random: Option<Random>,
    block: u64,
    blocks: u64,
    next: u64,
}

impl Offsets {
    fn next(&mut self) -> u64 {
        let number = match &mut self.random {
            Some(random) => random.next_u64() % self.blocks,
            None => self.next % self.blocks,
        };
        self.next += 1;
        number * self.block
    }
}

impl Bench {
    fn offsets(&self, workload: Workload, round: u64) -> Offsets {
        let (random, block) = match workload {
            Workload::Writes { .. } => (None, WRITE_BYTES as u64),
            _ => (Some(Environment::seeded(round).random("offsets")), READ_BYTES as u64),
        };
        Offsets { random, block, blocks: self.file_bytes / block, next: 0 }
    }

    /// One run on the device.
    fn ours(&self, workload: Workload, round: u64) -> Run {
        let mut offsets = self.offsets(workload, round);
        let (start, cpu) = (self.env.now(), cpu_seconds());
        let mut latencies = Vec::new();
        let done = match workload {
            Workload::BlockingReads => self.blocking(&mut offsets, &mut latencies),
            _ => self.queued(workload, &mut offsets, &mut latencies),
        };
        let (done, seconds) = (done as f64, (self.env.now() - start).as_secs_f64());
        let cpu_us = (cpu_seconds() - cpu) * 1e6 / done;
        Run { per_second: done / seconds, cpu_us, latency_us: median(latencies.into_iter()) }
    }

    fn blocking(&self, offsets: &mut Offsets, latencies: &mut Vec<f64>) -> u64 {
        let start = self.env.now();
        let mut buffer = Buffer::zeroed(READ_BYTES);
        let mut done = 0;
        while self.env.now() - start < self.duration {
            let submitted = self.env.now();
            self.file.read_at(offsets.next(), &mut buffer).unwrap();
            latencies.push((self.env.now() - submitted).as_secs_f64() * 1e6);
            done += 1;
        }
        done
    }

    fn queued(&self, workload: Workload, offsets: &mut Offsets, latencies: &mut Vec<f64>) -> u64 {
        let start = self.env.now();
        let (_, bytes) = workload.fio();
        let mut queue = self.device.queue(workload.depth()).unwrap();
        let buffer = || Buffer::copy_of(&vec![0xa5; bytes]);
        let mut idle: Vec<Buffer> = (0..workload.depth()).map(|_| buffer()).collect();
        let (mut done, mut completions) = (0, Vec::new());
        while self.env.now() - start < self.duration {
            let submitted = self.env.now();
            self.fill(&mut *queue, &mut idle, workload, offsets);
            done += queue.wait(1, &mut completions).unwrap() as u64;
            if workload.depth() == 1 {
                latencies.push((self.env.now() - submitted).as_secs_f64() * 1e6);
            }
            take_back(&mut completions, &mut idle);
        }
        done += queue.wait(usize::MAX, &mut completions).unwrap() as u64;
        take_back(&mut completions, &mut idle);
        done
    }

    fn fill(
        &self,
        queue: &mut dyn Queue,
        idle: &mut Vec<Buffer>,
        workload: Workload,
        offsets: &mut Offsets,
    ) {
        while let Some(buffer) = idle.pop() {
            let offset = offsets.next();
            let work = match workload {
                Workload::Writes { .. } => Work::Write { offset, buffer },
                _ => Work::Read { offset, buffer },
            };
            queue.submit(Request { tag: 0, file: self.file.clone(), work }).unwrap();
        }
    }

    /// One run under `fio`.
    fn fio(&self, workload: Workload, dir: &Path) -> Run {
        let (rw, bytes) = workload.fio();
        let output = Command::new("fio")
            .args(["--name=io_bench", "--ioengine=io_uring", "--direct=1", "--time_based"])
            .args(["--norandommap", "--output-format=json", "--fallocate=none"])
            .args(["--percentile_list=50", "--lat_percentiles=1", "--clat_percentiles=0"])
            .arg(format!("--filename={}", dir.join(FILE).display()))
            .arg(format!("--size={}", self.file_bytes))
            .arg(format!("--rw={rw}"))
            .arg(format!("--bs={bytes}"))
            .arg(format!("--iodepth={}", workload.depth()))
            .arg(format!("--runtime={}", self.duration.as_secs()))
            .output()
            .expect("fio is installed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let way = if rw == "write" { "write" } else { "read" };
        let job = &report["jobs"][0];
        let number = |value: &serde_json::Value| value.as_f64().unwrap();
        let per_second = number(&job[way]["iops"]);
        let cpu_percent = number(&job["usr_cpu"]) + number(&job["sys_cpu"]);
        let latency_us = match workload.depth() {
            1 => number(&job[way]["lat_ns"]["percentile"]["50.000000"]) / 1e3,
            _ => f64::NAN,
        };
        Run { per_second, cpu_us: cpu_percent * 1e4 / per_second, latency_us }
    }
}

fn take_back(completions: &mut Vec<Completion>, idle: &mut Vec<Buffer>) {
    for completion in completions.drain(..) {
        completion.result.unwrap();
        idle.extend(completion.buffer);
    }
}

/// The median; none is not a number.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

fn spread(runs: &[Run]) -> String {
    let rates = || runs.iter().map(|run| run.per_second);
    let least = rates().fold(f64::INFINITY, f64::min);
    let most = rates().fold(0.0, f64::max);
    let cpu = median(runs.iter().map(|run| run.cpu_us));
    let latency = match median(runs.iter().map(|run| run.latency_us)) {
        none if none.is_nan() => "-".to_owned(),
        latency => format!("{latency:.1}"),
    };
    format!("{:>7.0} [{least:>6.0} {most:>6.0}] {cpu:>6.2} {latency:>6}", median(rates()))
}

/// The file, written through so that every block of it is on the medium.
fn prepare(device: &dyn Device, bytes: u64) -> Arc<dyn File> {
    let file = device.open(FILE, Mode::Create).unwrap();
    let mut chunk = Buffer::zeroed(WRITE_BYTES);
    let mut random = Environment::seeded(1).random("content");
    let mut at = file.len().unwrap() / WRITE_BYTES as u64 * WRITE_BYTES as u64;
    while at < bytes {
        random.fill_bytes(&mut chunk);
        file.write_at(at, &chunk).unwrap();
        at += WRITE_BYTES as u64;
    }
    file
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let dir = arguments.first().expect("usage: io_bench DIR [GIB] [ROUNDS] [SECONDS]").clone();
    let number = |at: usize, default: u64| {
        arguments.get(at).map_or(default, |text| text.parse().expect("a number"))
    };
    let (gib, rounds, seconds) = (number(1, 4), number(2, 7), number(3, 3));

    let device = open(&dir, Options { io: Io::Direct, ..Options::default() }).unwrap();
    let file_bytes = gib << 30;
    let file = prepare(&*device, file_bytes);
    let duration = Duration::from_secs(seconds);
    let env = Environment::real();
    println!("{} beside fio, {gib} GiB, {rounds} rounds of {seconds} s", device.kind());
    let bench = Bench { env, device, file, file_bytes, duration };

    let mut results = vec![(Vec::new(), Vec::new()); WORKLOADS.len()];
    for round in 0..rounds {
        for (workload, (ours, fio)) in WORKLOADS.into_iter().zip(&mut results) {
            if round % 2 == 0 {
                ours.push(bench.ours(workload, round));
                fio.push(bench.fio(workload, Path::new(&dir)));
            } else {
                fio.push(bench.fio(workload, Path::new(&dir)));
                ours.push(bench.ours(workload, round));
            }
        }
        eprintln!("round {} of {rounds}", round + 1);
    }

    let head = "per s [least most] cpu us p50 us";
    println!("{:<36} {:>37} {:>37}  ratio", "", format!("ours {head}"), format!("fio {head}"));
    for (workload, (ours, fio)) in WORKLOADS.into_iter().zip(&results) {
        let ratio = median(ours.iter().zip(fio).map(|(o, f)| o.per_second / f.per_second));
        let name = workload.name();
        println!("{name:<36} {} {}  {ratio:.3}", spread(ours), spread(fio));
    }
    bench.device.remove(FILE).unwrap();
}
