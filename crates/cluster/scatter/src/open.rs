//! Opens the device of a range.

use std::sync::Arc;
use std::time::Duration;

use codec::Corruption;
use environment::Environment;
use logc::{Closing, Registry, Setup, Stocs};
use stoc::{Epoch, Kind, RangeId};

use crate::device::RangeDevice;
use crate::place::{Failure, Live, Place};

/// The surroundings of a range, and how its files are stored.
#[derive(Clone, Debug)]
pub struct Options {
    /// The range.
    pub range: RangeId,
    /// The epoch of the owner.
    pub epoch: Epoch,
    /// The coordinator's record of the logs.
    pub registry: Arc<dyn Registry>,
    /// The StoCs.
    pub stocs: Arc<dyn Stocs>,
    /// E: the StoCs of a segment of a log.
    pub ensemble: usize,
    /// Qa: the StoCs that have to acknowledge an append.
    pub quorum: usize,
    /// The StoCs that have a table.
    pub copies: usize,
    /// Time after which a StoC without a reply has failed.
    pub slow: Duration,
    /// The clock and the source of random numbers.
    pub environment: Environment,
    /// Closes the device, also while it is opened.
    pub closing: Closing,
}

/// A failure of an opening.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// The logs could not be opened.
    #[error(transparent)]
    Log(#[from] logc::Error),
    /// The files of the range are damaged.
    #[error(transparent)]
    Damaged(#[from] Corruption),
}

/// Bytes that a StoC may be behind the others in a log.
const BACKLOG_BYTES: u64 = 16 << 20;

/// Opens the logs of a range under an epoch, and the device above them.
///
/// # Errors
/// Those of [`logc::open`]; damage.
pub fn open(options: &Options) -> Result<RangeDevice, Error> {
    let Options { range, epoch, ensemble, quorum, copies, slow, .. } = *options;
    let setup = Setup {
        range,
        epoch,
        registry: Arc::clone(&options.registry),
        stocs: Arc::clone(&options.stocs),
        ensemble,
        quorum,
        slow,
        backlog_bytes: BACKLOG_BYTES,
        environment: options.environment.clone(),
        closing: options.closing.clone(),
    };
    let mut logs = logc::open(&setup, &[Kind::Log, Kind::Manifest])?.into_iter();
    let (Some(journal), Some(manifest)) = (logs.next(), logs.next()) else {
        return Err(logc::Error::Closed.into());
    };
    let purpose = format!("copies of range {range} epoch {epoch}");
    let place = Arc::new(Place {
        range,
        epoch,
        stocs: Arc::clone(&options.stocs),
        copies,
        slow,
        environment: options.environment.clone(),
        closing: options.closing.clone(),
        live: Live::new(options.environment.random(&purpose)),
    });
    RangeDevice::new(place, journal, manifest).map_err(|failure| match failure {
        Failure::Damaged(damage) => Error::Damaged(damage),
        Failure::Closed | Failure::Full => Error::Log(logc::Error::Closed),
        Failure::Fenced => Error::Log(logc::Error::Fenced { range, epoch }),
        Failure::Unavailable => {
            let what = "the files of the range cannot be read";
            Error::Log(logc::Error::Unavailable(what.into()))
        }
    })
}
