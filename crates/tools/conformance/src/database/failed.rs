//! Why a database could not do something.

use codec::{Corruption, SeqNo};

/// A failure, by its reporter.
#[derive(Debug)]
pub(crate) enum Failed {
    Device(device::Error),
    Engine(engine::Error),
    Journal(journal::Error),
    Open(journal::OpenError),
    /// The engine's own files hold writes that the journal does not (law L3).
    Ahead {
        persisted: SeqNo,
        journal: SeqNo,
    },
}

impl Failed {
    /// Returns the place of the damage, if damage was reported.
    pub(crate) fn damage(&self) -> Option<String> {
        let placed = |corruption: &Corruption| {
            let Corruption { file, offset, .. } = corruption;
            (!file.is_empty()).then(|| format!("{file} at byte {offset}"))
        };
        match self {
            Self::Engine(engine::Error::Corruption(corruption)) => placed(corruption),
            Self::Open(journal::OpenError::Damaged(corruption)) => placed(corruption),
            Self::Open(journal::OpenError::Unsupported { file, .. }) => Some(file.clone()),
            Self::Open(journal::OpenError::Missing { file, .. }) => Some(file.clone()),
            _ => None,
        }
    }
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Device(error) => error.fmt(f),
            Self::Engine(error) => error.fmt(f),
            Self::Journal(error) => error.fmt(f),
            Self::Open(error) => error.fmt(f),
            Self::Ahead { persisted, journal } => write!(
                f,
                "the engine's files hold write {persisted}, the journal ends at {journal}: the \
                 engine ran ahead of its journal"
            ),
        }
    }
}

impl From<device::Error> for Failed {
    fn from(error: device::Error) -> Self {
        Self::Device(error)
    }
}

impl From<engine::Error> for Failed {
    fn from(error: engine::Error) -> Self {
        Self::Engine(error)
    }
}

impl From<journal::Error> for Failed {
    fn from(error: journal::Error) -> Self {
        Self::Journal(error)
    }
}

impl From<journal::OpenError> for Failed {
    fn from(error: journal::OpenError) -> Self {
        Self::Open(error)
    }
}
