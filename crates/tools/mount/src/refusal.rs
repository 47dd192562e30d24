//! Why a call is refused, and which error number says so.

use device::Error as DeviceError;
use flexspace::space::Error as SpaceError;
use rustix::io::Errno;

/// What a caller is told, and why if the space said it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum Refusal {
    /// Just the number.
    #[error("{0}")]
    Errno(#[from] Errno),
    /// What the space refused, or failed with.
    #[error(transparent)]
    Space(#[from] SpaceError),
}

/// What a call answers.
pub(crate) type Answer<T> = Result<T, Refusal>;

impl Refusal {
    /// The number by which the caller is told.
    pub(crate) fn errno(&self) -> Errno {
        match self {
            Self::Errno(errno) => *errno,
            Self::Space(error) => of_space(error),
        }
    }

    /// Whether somebody should be told who looks after the mount, as it is not the caller's doing.
    pub(crate) fn is_failure(&self) -> bool {
        matches!(self, Self::Space(_)) && matches!(self.errno(), Errno::IO | Errno::ROFS)
    }
}

fn of_space(error: &SpaceError) -> Errno {
    match error {
        SpaceError::NoSpace { .. } | SpaceError::Uncollected => Errno::NOSPC,
        SpaceError::TooLong { .. } => Errno::FBIG,
        SpaceError::BehindTheEnd { .. } => Errno::INVAL,
        SpaceError::ReadOnly { .. } => Errno::ROFS,
        SpaceError::Device(error) => of_device(error),
        SpaceError::Corruption(_)
        | SpaceError::NewerVersion(_)
        | SpaceError::Options(_)
        | SpaceError::Closed => Errno::IO,
    }
}

fn of_device(error: &DeviceError) -> Errno {
    match error {
        DeviceError::NoSpace { .. } => Errno::NOSPC,
        DeviceError::NotFound { .. } => Errno::NOENT,
        DeviceError::AlreadyExists { .. } => Errno::EXIST,
        DeviceError::Locked { .. } => Errno::BUSY,
        DeviceError::Io { code, .. } => match Errno::from_raw_os_error(*code) {
            told @ (Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::MFILE | Errno::NFILE) => {
                told
            }
            _ => Errno::IO,
        },
        _ => Errno::IO,
    }
}
