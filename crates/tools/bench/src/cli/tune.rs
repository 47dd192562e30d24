//! `thermocline tune`: measures from which size on values of `hashkv` are separated.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use clap::Args;
use environment::Environment;
use signal_hook::consts::{SIGINT, SIGTERM};

use super::BenchError;
use crate::measure::free_disk_bytes;
use crate::memory::{Budget, parse_bytes};
use crate::report::{read_reports, write_separation_page, write_whole};
use crate::run::RunError;
use crate::tune::{KEY_BYTES, Point, Way, search, threshold};

/// Bytes on disk for each byte of data while a store is updated.
const DISK_FACTOR: u64 = 4;
/// Time between two looks at a run.
const SLICE: Duration = Duration::from_millis(100);
/// Keys of a run, at most: so a run of small pairs takes little longer than one of large ones.
const KEYS_MAX: u64 = 2_000_000;

/// A search for the best `separation-bytes` of `hashkv` on this machine.
#[derive(Args, Clone, Debug)]
pub struct TuneArgs {
    /// Directory for the data, on the device that the database will use [default: the system's
    /// scratch directory]
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Bytes of data of each store, as 256MiB; a store has two million pairs at most
    #[arg(long, default_value = "256MiB", value_parser = parse_bytes)]
    pub data: u64,
    /// The store's whole memory: a share of the data as 10%, or a size as 64MiB; 8 MiB at least
    #[arg(long, default_value = "10%")]
    pub memory: Budget,
    /// Threads that update
    #[arg(long, default_value_t = 2)]
    pub threads: usize,
    /// Minutes after which no further run begins
    #[arg(long, default_value_t = 30)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub minutes: u64,
    /// Write a page with a plot here
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Write the setting to this file, a new one, which `--config` takes
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,
}

/// Searches, and prints what it has found also if it is interrupted.
///
/// # Errors
/// The directory has too little room, a run fails, or a file cannot be written.
pub fn tune(args: &TuneArgs, env: &Environment) -> Result<ExitCode, BenchError> {
    if let Some(file) = args.write.as_ref().filter(|file| file.exists()) {
        let what = format!("--write {}: the file exists", file.display());
        return Err(BenchError::Usage(what));
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let registered = signal_hook::flag::register(signal, Arc::clone(&stop));
        registered.map_err(|error| BenchError::Io("signals".to_owned(), error))?;
    }
    let scratch = Scratch::new(args.dir.as_deref())?;
    let (needed, free) = (args.data.saturating_mul(DISK_FACTOR), free_disk_bytes(&scratch.0));
    let free = free.map_err(|error| BenchError::Io(scratch.0.display().to_string(), error))?;
    if free < needed {
        let dir = scratch.0.clone();
        return Err(RunError::NoRoom { dir, needed, free }.into());
    }
    let begun = env.now();
    let mut points: Vec<Point> = Vec::new();
    let mut measure = |pair_bytes: u32, way: Way| {
        let is_over = env.now() - begun >= Duration::from_secs(args.minutes * 60);
        if is_over || stop.load(Relaxed) {
            return Ok(None);
        }
        eprintln!("pairs of {pair_bytes} bytes, {way}");
        run(args, &scratch.0, (pair_bytes, way), (env, &stop))
    };
    let mut done = |found: &[Point]| {
        for point in found.iter().filter(|point| !points.contains(point)) {
            eprintln!("{}", line(point));
        }
        points = found.to_vec();
    };
    let searched = search(&mut measure, &mut done);
    drop(scratch);
    print!("{}", table(&points));
    if let Some(bytes) = threshold(&points) {
        let setting = format!("hashkv:separation-bytes={bytes}");
        println!("--engine-settings {setting}");
        write_results(args, &points, &setting)?;
    }
    searched?;
    Ok(if points.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn write_results(args: &TuneArgs, points: &[Point], setting: &str) -> Result<(), BenchError> {
    let io = |path: &Path| {
        let path = path.display().to_string();
        move |error| BenchError::Io(path, error)
    };
    if let Some(path) = &args.plot {
        write_separation_page(path, points).map_err(io(path))?;
    }
    if let Some(path) = &args.write {
        let text = format!("engine-settings = \"{setting}\"\n");
        write_whole(path, text.as_bytes()).map_err(io(path))?;
    }
    Ok(())
}

/// Returns a line for each size.
fn table(points: &[Point]) -> String {
    let mut text = format!("{:>8} {:>12} {:>12}\n", "bytes", "separated/s", "in index/s");
    for point in points {
        text += &line(point);
        text.push('\n');
    }
    text
}

fn line(point: &Point) -> String {
    let Point { pair_bytes, separated, inline } = point;
    format!("{pair_bytes:>8} {separated:>12.0} {inline:>12.0}")
}

/// Measures one size in a process of its own. Returns none if it is interrupted.
fn run(
    args: &TuneArgs,
    scratch: &Path,
    (pair_bytes, way): (u32, Way),
    (env, stop): (&Environment, &AtomicBool),
) -> Result<Option<f64>, BenchError> {
    let program = std::env::current_exe();
    let program = program.map_err(|error| BenchError::Io("this program".to_owned(), error))?;
    let failed = |error| BenchError::Io("bench run".to_owned(), error);
    let report = scratch.join("report.json");
    let keys = (args.data / u64::from(pair_bytes)).clamp(1, KEYS_MAX);
    let memory = args.memory.bytes((keys * u64::from(pair_bytes)) as f64);
    let mut child = Command::new(program)
        .args(["bench", "run", "--workload=hashkv-p3"])
        .arg(format!("--engine=hashkv:separation-bytes={}", way.separation_bytes()))
        .arg(format!("--shape={KEY_BYTES}+{}", pair_bytes.saturating_sub(KEY_BYTES)))
        .arg(format!("--keys={keys}"))
        .arg(format!("--memory={memory}"))
        .arg(format!("--threads={}", args.threads))
        .arg(format!("--dir={}", scratch.display()))
        .arg(format!("--json={}", report.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .map_err(failed)?;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            break status;
        }
        if stop.load(Relaxed) {
            end(&mut child);
            return Ok(None);
        }
        env.sleep(SLICE);
    };
    if stop.load(Relaxed) {
        return Ok(None);
    }
    if !status.success() {
        return Err(RunError::Store(format!("its run ended with {status}").into()).into());
    }
    let reports = read_reports(&report);
    let reports = reports.map_err(|error| BenchError::Io(report.display().to_string(), error))?;
    Ok(reports.first().map(|report| report.ops_per_s))
}

fn end(child: &mut Child) {
    // It may have ended just now.
    let _ = child.kill();
    let _ = child.wait();
}

/// The directory of the search, removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn new(parent: Option<&Path>) -> Result<Self, BenchError> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_owned);
        let dir = parent.join(format!("thermocline-tune-{}", std::process::id()));
        let made = std::fs::create_dir_all(&dir);
        made.map_err(|error| BenchError::Io(dir.display().to_string(), error))?;
        Ok(Self(dir))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A disk that fails keeps it.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
