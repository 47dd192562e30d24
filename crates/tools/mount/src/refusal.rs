//! Why a call is refused, and which error number says so.

use device::Error as DeviceError;
use flexspace::space::Error as SpaceError;
use rustix::io::Errno;

/// An error that a caller gets, with the reason if it is the space's.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum Refusal {
    /// Just the number.
    #[error("{0}")]
    Errno(#[from] Errno),
    /// The space's refusal or failure.
    #[error(transparent)]
    Space(#[from] SpaceError),
}

/// The result of a call.
pub(crate) type Outcome<T> = Result<T, Refusal>;

impl Refusal {
    /// Returns the error number that the caller gets.
    pub(crate) fn errno(&self) -> Errno {
        match self {
            Self::Errno(errno) => *errno,
            Self::Space(error) => of_space(error),
        }
    }

    /// Returns whether the operator of the mount should get it, since the caller did not cause it.
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
