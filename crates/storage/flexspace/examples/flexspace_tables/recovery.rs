//! How long an opening takes: of a space that was closed, and of one that was not.

use flexspace::space::{FlexSpace, Options};
use rand::RngExt;

use crate::{Outcome, Plan, median};

const WRITE_BYTES: u64 = 4096;

/// One opening.
pub(crate) struct Row {
    what: &'static str,
    extents: u64,
    replayed: u64,
    seconds: f64,
}

pub(crate) fn measure(plan: &Plan) -> Outcome<Vec<Row>> {
    let dir = plan.dir.join("recovered");
    let device = device::open(&dir, device::Options::default())?;
    // All inserts are in the log, which no checkpoint makes shorter.
    let options = Options { log_bytes_max: 1 << 40, ..Options::default() };
    let space = FlexSpace::create(device.clone(), options)?;
    let mut random = plan.environment.random("inserts");
    let data = vec![7; WRITE_BYTES as usize];
    let count = (plan.mib << 20) / WRITE_BYTES;
    for number in 0..count {
        space.insert(random.random_range(0..=number) * WRITE_BYTES, &data)?;
    }
    space.sync()?;
    // As a kill leaves it.
    drop(space);
    let mut rows = vec![open(plan, &device, "killed, with all inserts in the log")?];
    let times = (0..plan.rounds).map(|_| open(plan, &device, "closed"));
    let closed = times.collect::<Outcome<Vec<Row>>>()?;
    let (extents, replayed) = (closed[0].extents, closed[0].replayed);
    let seconds = median(closed.iter().map(|row| row.seconds).collect());
    rows.push(Row { what: "closed", extents, replayed, seconds });
    drop(device);
    std::fs::remove_dir_all(dir)?;
    Ok(rows)
}

/// Opens it, and closes it.
fn open(
    plan: &Plan,
    device: &std::sync::Arc<dyn device::Device>,
    what: &'static str,
) -> Outcome<Row> {
    let (seconds, space) =
        plan.seconds(|| Ok(FlexSpace::open(device.clone(), Options::default())?))?;
    let snapshot = space.snapshot()?;
    let extents = snapshot.extents(0..snapshot.len()).count() as u64;
    drop(snapshot);
    let replayed = space.stats().replayed_records;
    space.close()?;
    Ok(Row { what, extents, replayed, seconds })
}

pub(crate) fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "## Recovery

The space of table 2 with random inserts, until it takes calls; its files are in the page cache.

| it was | extents | records replayed | seconds |
|---|---:|---:|---:|
",
    );
    for Row { what, extents, replayed, seconds } in rows {
        text += &format!("| {what} | {extents} | {replayed} | {seconds:.3} |\n");
    }
    text + "\n"
}
