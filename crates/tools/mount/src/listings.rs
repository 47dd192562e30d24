//! The readers of the directory, each with the names that were there when it began.
//!
//! A reader is given names in pieces, and passes how many it has had. A name that is removed in
//! between must not move the others up under the reader: so each reader continues in the list that
//! it began with.

use std::collections::HashMap;
use std::ffi::OsString;
use std::sync::Arc;

use rustix::io::Errno;
use sync::Mutex;

/// Names, with the numbers of their files.
type Listed = Arc<[(OsString, u64)]>;

/// The readers of a directory.
#[derive(Debug, Default)]
pub(crate) struct Listings(Mutex<Readers>);

#[derive(Debug, Default)]
struct Readers {
    last: u64,
    /// The readers that have begun.
    listed: HashMap<u64, Listed>,
}

impl Listings {
    /// Returns a new reader.
    pub(crate) fn begin(&self) -> u64 {
        let mut readers = self.0.lock();
        readers.last += 1;
        readers.last
    }

    /// Returns the names in which a reader continues. A reader that `is_first`, or has no list,
    /// begins with the present names.
    pub(crate) fn read(
        &self,
        reader: u64,
        is_first: bool,
        list: impl FnOnce() -> Result<Vec<(OsString, u64)>, Errno>,
    ) -> Result<Listed, Errno> {
        let begun = self.0.lock().listed.get(&reader).cloned();
        if let Some(listed) = begun.filter(|_| !is_first) {
            return Ok(listed);
        }
        let listed: Listed = list()?.into();
        self.0.lock().listed.insert(reader, listed.clone());
        Ok(listed)
    }

    /// A reader reads no more.
    pub(crate) fn end(&self, reader: u64) {
        self.0.lock().listed.remove(&reader);
    }
}
