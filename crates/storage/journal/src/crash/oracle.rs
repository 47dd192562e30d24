//! The records that must be found after a power cut, and the check that they were.

use std::sync::Arc;

use codec::SeqNo;
use device::{Device, SimulatedDisk};

use super::{Mode, Run};
use crate::{Journal, OpenError, Recovery, check};

/// Directory of the harness's journal.
pub(super) const DIR: &str = "journal";

/// A record that was appended. Its payload follows from its id, which no other record of the run
/// has, also none that gets the same number in a later life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) seqno: u64,
    pub(super) id: u64,
    pub(super) bytes: usize,
}

impl Record {
    /// The payload.
    pub(super) fn write(&self, into: &mut Vec<u8>) {
        let id = (self.id.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1).to_le_bytes();
        into.extend(id.iter().cycle().take(self.bytes));
    }

    fn is(&self, seqno: SeqNo, payload: &[u8]) -> bool {
        let mut expected = Vec::with_capacity(self.bytes);
        self.write(&mut expected);
        self.seqno == seqno.get() && payload == expected
    }
}

/// Knowledge about a journal at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// The records that may be found: these, or a prefix of them.
    pub(super) records: Vec<Record>,
    /// Number up to which all records must be found.
    pub(super) acknowledged: u64,
    /// The loss of a file with a record up to this number must be noticed. A power cut may leave a
    /// segment that nothing has acknowledged; its records count from the next opening on.
    pub(super) noted: u64,
    /// Number up to which records were trimmed, or may have been: none of these has to be found.
    pub(super) persisted: u64,
    /// The last id given.
    pub(super) id: u64,
}

/// The result of one image.
#[derive(Clone, Copy, Debug)]
pub(super) enum Verdict {
    /// The journal could not be opened, as may be where bytes were silently lost.
    Refused,
    /// It was, up to the record `last`.
    Opened { last: u64, torn: bool, shortened: bool },
}

impl Verdict {
    /// Returns whether the journal ended in a torn tail.
    pub(super) fn is_torn(&self) -> bool {
        matches!(self, Self::Opened { torn: true, .. })
    }

    /// Returns the knowledge about an image with this verdict.
    pub(super) fn survived(&self, moment: &Known) -> Option<Known> {
        match *self {
            Self::Opened { last, shortened: false, .. } => {
                Some(Known { noted: moment.noted, ..moment.resolved(last) })
            }
            _ => None,
        }
    }
}

impl Known {
    /// Returns the same for a journal that was opened, and then holds everything up to `last` and
    /// nothing after it.
    pub(super) fn resolved(&self, last: u64) -> Self {
        let mut resolved = self.clone();
        resolved.records.retain(|record| record.seqno <= last);
        resolved.acknowledge(last.max(self.persisted));
        resolved
    }

    /// Notes that everything up to `last` is there for good.
    pub(super) fn acknowledge(&mut self, last: u64) {
        self.acknowledged = last;
        self.noted = last;
    }
}

/// Opens the journal on an image and compares its content with the knowledge of the moment at which
/// the power was cut. `Err` names the broken promise.
pub(super) fn judge(
    run: &Run,
    image: Arc<SimulatedDisk>,
    moment: &Known,
) -> Result<Verdict, String> {
    let before = if image.operations() == 0 && run.mode == Mode::Honest {
        Some(check(&*image, DIR))
    } else {
        None
    };
    let recovery = match compare(run, image.clone(), moment)? {
        Ok((_, recovery)) => recovery,
        Err(OpenError::Damaged(_) | OpenError::Missing { .. }) if run.mode == Mode::Silent => {
            return Ok(Verdict::Refused);
        }
        Err(error) => return Err(format!("the journal cannot be opened: {error}")),
    };
    match before {
        Some(Ok(report)) if report.is_whole() => {}
        // The directory may not be there yet.
        None | Some(Err(OpenError::Device(_))) => {}
        Some(outcome) => return Err(format!("the check does not pass: {outcome:?}")),
    }
    let last = recovery.last.get();
    let shortened = last.max(moment.persisted) < moment.acknowledged;
    if shortened && run.mode != Mode::Silent {
        return Err(format!(
            "record {} was acknowledged as synced, the last one found is {last}",
            moment.acknowledged
        ));
    }
    Ok(Verdict::Opened { last, torn: recovery.cut.is_some_and(|cut| cut.bytes > 0), shortened })
}

/// Removes the newest segment of an image. Its loss must be noticed if it held a record up to
/// [`Known::noted`]; otherwise the result is an error.
pub(super) fn judge_without_newest(
    run: &Run,
    image: Arc<SimulatedDisk>,
    moment: &Known,
) -> Result<(), String> {
    let Ok(names) = image.list(DIR) else { return Ok(()) };
    let newest = names.iter().rfind(|entry| entry.name.ends_with(".journal"));
    let Some(newest) = newest.map(|entry| format!("{DIR}/{}", entry.name)) else { return Ok(()) };
    image.remove(&newest).map_err(|error| error.to_string())?;
    let found = check(&*image, DIR).map_err(|error| error.to_string())?;
    match compare(run, image, moment)? {
        Err(OpenError::Missing { .. }) if !found.is_whole() => Ok(()),
        Ok((_, recovery)) if recovery.last.get().max(moment.persisted) >= moment.noted => Ok(()),
        other => Err(format!(
            "record {} was acknowledged, {newest} is lost, and the check says {found:?}; opening \
             gives {:?}",
            moment.noted,
            other.map(|(_, recovery)| recovery)
        )),
    }
}

/// Opens the journal and makes sure that it holds a prefix of the records known, byte for byte.
pub(super) fn compare(
    run: &Run,
    disk: Arc<SimulatedDisk>,
    known: &Known,
) -> Result<Result<(Journal, Recovery), OpenError>, String> {
    let needed = |record: &&Record| record.seqno > known.persisted;
    let mut expected = known.records.iter().filter(needed);
    let mut wrong = None;
    let mut last = known.persisted;
    let opened = Journal::open(
        disk,
        DIR,
        run.options.clone(),
        &run.environment,
        SeqNo::new(known.persisted),
        &mut |seqno, payload| {
            let next = expected.next();
            if !next.is_some_and(|record| record.is(seqno, payload)) {
                wrong.get_or_insert_with(|| {
                    format!(
                        "record {seqno} of {} bytes was found instead of {next:?}",
                        payload.len()
                    )
                });
            }
            last = seqno.get();
            Ok(())
        },
    );
    if let Some(wrong) = wrong {
        return Err(wrong);
    }
    if let Ok((_, recovery)) = &opened
        && recovery.last.get().max(known.persisted) != last
    {
        return Err(format!("{recovery:?}, but the last record replayed is {last}"));
    }
    Ok(opened)
}
