//! Conversions of the errors of a database's parts.

use codec::Corruption;

use super::Error;

impl From<engine::Error> for Error {
    fn from(error: engine::Error) -> Self {
        match error {
            engine::Error::Closed => Self::Closed,
            engine::Error::NewerVersion(newer) => Self::NewerVersion(newer),
            other => Self::Engine(other),
        }
    }
}

impl From<device::Error> for Error {
    fn from(error: device::Error) -> Self {
        Self::Engine(engine::Error::Device(error))
    }
}

impl From<device::Forked> for Error {
    fn from(device::Forked { opened_by, called_by }: device::Forked) -> Self {
        Self::Forked { opened_by, called_by }
    }
}

impl From<Corruption> for Error {
    fn from(corruption: Corruption) -> Self {
        engine::Error::from(corruption).into()
    }
}

impl From<journal::OpenError> for Error {
    fn from(error: journal::OpenError) -> Self {
        use journal::OpenError as Open;
        match error {
            Open::Device(error) => error.into(),
            Open::Damaged(corruption) => corruption.into(),
            Open::Missing { what, file } => Corruption::new(what, 0).at(&file, 0).into(),
            Open::Unsupported { file, source } => Corruption::from(source).at(&file, 0).into(),
            Open::Replay { seqno, file, offset, source } => {
                Self::of_replay(source).unwrap_or_else(|other| {
                    let what = format!("record {seqno} cannot be replayed: {other}");
                    Corruption::new(what, offset).at(&file, 0).into()
                })
            }
        }
    }
}
