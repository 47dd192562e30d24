//! Opening a store on a disk after a power cut, with further cuts while it opens.

use std::sync::Arc;

use device::{Device, SimulatedDisk};

use crate::Fixture;
use crate::database::{self, Database};
use crate::draw::Draw;
use crate::failure::catch;
use crate::model::Model;
use crate::sequential::compare_everything;

/// Power cuts during recovery in a row, at most.
const CUTS_MAX: usize = 3;

/// A cut during recovery happens within this many operations.
const CUT_WITHIN: usize = 24;

/// The states that may be found.
pub(super) struct Expected<'a> {
    /// Every write that was issued.
    pub(super) model: &'a Model,
    /// The last that was acknowledged as durable.
    pub(super) durable: u64,
}

/// The state that was found.
pub(super) struct Recovered {
    /// The disk, not open any more.
    pub(super) disk: Arc<SimulatedDisk>,
    /// The last write that is there.
    pub(super) upto: u64,
    /// The power cut that led here, and those on the way.
    pub(super) crashes: u64,
}

/// Opens the store on `disk`, perhaps with more power cuts, and compares its content.
pub(super) fn recover(
    fixture: &dyn Fixture,
    disk: &Arc<SimulatedDisk>,
    expected: &Expected<'_>,
    draw: &mut Draw,
) -> Result<Recovered, String> {
    let mut disk = Arc::clone(disk);
    let mut durable = expected.durable;
    let mut crashes = 1;
    let cuts = if draw.once_in(2) { 0 } else { 1 + draw.below(CUTS_MAX) };
    for number in 1..=cuts {
        let at = 1 + draw.below(CUT_WITHIN) as u64;
        disk.power_cut_at(at);
        let device: Arc<dyn Device> = disk.clone();
        let opened = catch(|| Ok(Database::open(fixture, &device, at)))?;
        match opened {
            Ok(database) => match compare(&database, expected, durable) {
                Ok(upto) => durable = upto,
                // An engine that reads from disk may meet the cut only now.
                Err(_) if disk.operations() >= at && database.recovered >= durable => {
                    durable = database.recovered;
                }
                Err(error) => return Err(error),
            },
            Err(_) if disk.operations() >= at => {}
            Err(error) => return Err(format!("recovery {number} failed: {error}")),
        }
        disk = disk.crash(draw.below(usize::MAX) as u64);
        crashes += 1;
    }
    let device: Arc<dyn Device> = disk.clone();
    let in_recovery = |what: String| match cuts {
        0 => what,
        _ => format!("after {cuts} more power cuts while it was opened: {what}"),
    };
    let opened = catch(|| Ok(Database::open(fixture, &device, 0)))?;
    let database =
        opened.map_err(|error| in_recovery(format!("the store does not open: {error}")))?;
    let upto = compare(&database, expected, durable).map_err(in_recovery)?;
    drop(database);
    database::check(fixture, &device).map_err(in_recovery)?;
    Ok(Recovered { disk, upto, crashes })
}

/// Checks that the state is that after one write, no older than the durable one. Returns that
/// write: it was shown, so it may not be lost any more.
fn compare(database: &Database, expected: &Expected<'_>, durable: u64) -> Result<u64, String> {
    let (upto, last) = (database.recovered, expected.model.last());
    if upto < durable {
        return Err(format!("recovered up to write {upto}, but {durable} was acknowledged"));
    }
    if upto > last {
        return Err(format!("recovered up to write {upto}, but only {last} were issued"));
    }
    let (engine, sequence) = (database.opened.engine.as_ref(), &database.opened.sequence);
    catch(|| compare_everything(engine, sequence, expected.model, upto)).map_err(|what| {
        format!("recovered up to write {upto}, but the state is another: {what}")
    })?;
    Ok(upto)
}
