//! Table 2: a space written in 4 KiB pieces, and a file of the file system next to it.

use std::path::Path;

use flexspace::space::{Error as SpaceError, FlexSpace, Options};
use rand::RngExt;
use rand::seq::SliceRandom;
use rustix::fs::{self, FallocateFlags, Mode, OFlags};
use rustix::io;

use crate::{Outcome, Plan, median, say};

const WRITE_BYTES: usize = 4096;
/// Inserts with a sync after each.
const SYNCED: u64 = 200;

/// How something is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    RandomInsert,
    RandomWrite,
    SequentialWrite,
    InsertAndSync,
}

/// One pattern, in MB/s with the final sync.
pub(crate) struct Row {
    pub(crate) pattern: Pattern,
    pub(crate) is_space: bool,
    pub(crate) mib: u64,
    pub(crate) write: f64,
    /// Bytes written to the device for each byte; unknown for a file.
    pub(crate) amplification: Option<f64>,
    /// In the order of the offsets, and at random, from the page cache.
    pub(crate) reads: Option<(f64, f64)>,
}

const SPACE_PATTERNS: [Pattern; 4] =
    [Pattern::SequentialWrite, Pattern::RandomInsert, Pattern::RandomWrite, Pattern::InsertAndSync];
const FILE_PATTERNS: [Pattern; 2] = [Pattern::SequentialWrite, Pattern::RandomWrite];

pub(crate) fn measure(plan: &Plan) -> Outcome<Vec<Row>> {
    let mut rounds: Vec<Vec<Row>> = Vec::new();
    for round in 1..=plan.rounds {
        say(&format!("round {round} of {}", plan.rounds));
        let mut rows = Vec::new();
        for pattern in SPACE_PATTERNS {
            rows.push(space(plan, pattern)?);
        }
        for pattern in FILE_PATTERNS {
            rows.push(file(plan, pattern, plan.mib)?);
        }
        rounds.push(rows);
    }
    let count = rounds[0].len();
    let middle = |index: usize| {
        let of = |what: fn(&Row) -> f64| median(rounds.iter().map(|r| what(&r[index])).collect());
        let first = &rounds[0][index];
        let reads = first.reads.is_some().then(|| {
            let read = |what: fn(&(f64, f64)) -> f64| {
                median(rounds.iter().filter_map(|r| r[index].reads.as_ref().map(what)).collect())
            };
            (read(|reads| reads.0), read(|reads| reads.1))
        });
        let (pattern, is_space, mib) = (first.pattern, first.is_space, first.mib);
        let (write, amplification) = (of(|row| row.write), first.amplification);
        Row { pattern, is_space, mib, write, amplification, reads }
    };
    let mut rows: Vec<Row> = (0..count).map(middle).collect();
    say("inserts into a file, which shift all behind them");
    rows.push(file(plan, Pattern::RandomInsert, plan.file_mib)?);
    Ok(rows)
}

/// Which piece is written where: the number of the piece that it begins at.
fn places(plan: &Plan, pattern: Pattern, count: u64) -> Vec<u64> {
    let mut random = plan.environment.random("places");
    match pattern {
        Pattern::SequentialWrite => (0..count).collect(),
        Pattern::RandomWrite => {
            let mut places: Vec<u64> = (0..count).collect();
            places.shuffle(&mut random);
            places
        }
        Pattern::RandomInsert | Pattern::InsertAndSync => {
            (0..count).map(|number| random.random_range(0..=number)).collect()
        }
    }
}

fn piece(plan: &Plan) -> Vec<u8> {
    let mut data = vec![0; WRITE_BYTES];
    plan.environment.random("data").fill(&mut data[..]);
    data
}

fn megabytes(bytes: u64, seconds: f64) -> f64 {
    bytes as f64 / 1e6 / seconds
}

fn space(plan: &Plan, pattern: Pattern) -> Outcome<Row> {
    let is_synced = pattern == Pattern::InsertAndSync;
    let count = if is_synced { SYNCED } else { (plan.mib << 20) / WRITE_BYTES as u64 };
    let bytes = count * WRITE_BYTES as u64;
    let (places, data) = (places(plan, pattern, count), piece(plan));
    let dir = plan.dir.join("space");
    let device = device::open(&dir, device::Options::default())?;
    let space = FlexSpace::create(device.clone(), Options::default())?;
    if pattern == Pattern::RandomWrite {
        space.splice_hole(0, 0, bytes)?;
    }
    let before = device.accounting().counts().write_bytes;
    let (took, ()) = plan.seconds(|| {
        for place in &places {
            let offset = place * WRITE_BYTES as u64;
            match pattern {
                Pattern::RandomWrite | Pattern::SequentialWrite => space.pwrite(offset, &data)?,
                Pattern::RandomInsert | Pattern::InsertAndSync => space.insert(offset, &data)?,
            }
            if is_synced {
                space.sync()?;
            }
        }
        Ok(space.sync()?)
    })?;
    let written = device.accounting().counts().write_bytes - before;
    let reads =
        if is_synced { None } else { Some(reads(plan, count, |at, into| space.pread(at, into))?) };
    space.close()?;
    drop((space, device));
    std::fs::remove_dir_all(dir)?;
    let (write, amplification) = (megabytes(bytes, took), Some(written as f64 / bytes as f64));
    Ok(Row { pattern, is_space: true, mib: bytes >> 20, write, amplification, reads })
}

fn reads<E: std::error::Error + 'static>(
    plan: &Plan,
    count: u64,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
) -> Outcome<(f64, f64)> {
    let mut into = vec![0; WRITE_BYTES];
    let mut random = plan.environment.random("reads");
    let (in_order, ()) = plan.seconds(|| {
        for number in 0..count {
            read(number * WRITE_BYTES as u64, &mut into)?;
        }
        Ok(())
    })?;
    let (at_random, ()) = plan.seconds(|| {
        for _ in 0..count {
            read(random.random_range(0..count) * WRITE_BYTES as u64, &mut into)?;
        }
        Ok(())
    })?;
    let bytes = count * WRITE_BYTES as u64;
    Ok((megabytes(bytes, in_order), megabytes(bytes, at_random)))
}

fn file(plan: &Plan, pattern: Pattern, mib: u64) -> Outcome<Row> {
    let bytes = mib << 20;
    let count = bytes / WRITE_BYTES as u64;
    let (places, data) = (places(plan, pattern, count), piece(plan));
    let path = plan.dir.join("file");
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
    let file = fs::open(&path, flags, Mode::RUSR | Mode::WUSR)?;
    let (took, ()) = plan.seconds(|| {
        for (number, place) in places.iter().enumerate() {
            let offset = place * WRITE_BYTES as u64;
            if pattern == Pattern::RandomInsert && *place < number as u64 {
                let insert = FallocateFlags::INSERT_RANGE;
                fs::fallocate(&file, insert, offset, WRITE_BYTES as u64)?;
            }
            write_all(&file, &data, offset)?;
        }
        Ok(fs::fsync(&file)?)
    })?;
    let reads = reads(plan, count, |at, into| -> Result<(), std::io::Error> {
        io::pread(&file, into, at)?;
        Ok(())
    })?;
    drop(file);
    fs::unlink(&path)?;
    let write = megabytes(bytes, took);
    Ok(Row { pattern, is_space: false, mib, write, amplification: None, reads: Some(reads) })
}

fn write_all(file: impl std::os::fd::AsFd, data: &[u8], offset: u64) -> Outcome<()> {
    if io::pwrite(file, data, offset)? == data.len() { Ok(()) } else { Err("a short write".into()) }
}

/// Returns the file system's name, as the kernel has it.
pub(crate) fn file_system(dir: &Path) -> String {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let found = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (at, name) = (words.next()?, words.next()?);
        dir.starts_with(at).then(|| (at.len(), name.to_owned()))
    });
    found.max().map_or_else(|| "its file system".to_owned(), |(_, name)| name)
}

/// Returns the name of a pattern.
pub(crate) fn name(pattern: Pattern) -> &'static str {
    match pattern {
        Pattern::RandomInsert => "random insert",
        Pattern::RandomWrite => "random write",
        Pattern::SequentialWrite => "sequential write",
        Pattern::InsertAndSync => "random insert, a sync after each",
    }
}

/// Errors of a space, for code that names them.
pub(crate) type Refused = SpaceError;

pub(crate) fn table(plan: &Plan, rows: &[Row]) -> String {
    let system = file_system(&plan.dir);
    let mut text = format!(
        "## Table 2: a space on a device

In pieces of 4 KiB, one thread, MB/s with the final sync; a file of {system} on the same disk for comparison. An insert into the file is
`fallocate` with `FALLOC_FL_INSERT_RANGE`, which moves whole blocks alone. Bytes read are in the page cache, and a space's are verified.

| what | of | MiB | write | written for each byte | read in order | read at random |
|---|---|---:|---:|---:|---:|---:|
"
    );
    for row in rows {
        let of = if row.is_space { "FlexSpace" } else { &system };
        let amplification = row.amplification.map_or("-".to_owned(), |a| format!("{a:.3}"));
        let reads = row.reads.map_or("- | -".to_owned(), |(a, b)| format!("{a:.0} | {b:.0}"));
        let write = if row.write < 10.0 {
            format!("{:.2}", row.write)
        } else {
            format!("{:.0}", row.write)
        };
        let mib = if row.mib == 0 { "<1".to_owned() } else { row.mib.to_string() };
        text += &format!(
            "| {} | {of} | {mib} | {write} | {amplification} | {reads} |\n",
            name(row.pattern)
        );
    }
    text + "\n"
}
