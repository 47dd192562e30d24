//! What a database uses of a session: the reads.

use std::sync::Arc;

use engine::{Begun, Found, Reads, Result};

use super::{Completed, Get, Session, Ticket};
use crate::store::Shared;

/// A session whose tickets are its user's tags.
pub(crate) struct SessionReads(Session);

impl SessionReads {
    pub(crate) fn new(shared: &Arc<Shared>, depth: usize) -> Result<Self> {
        Session::new(shared, depth).map(Self)
    }
}

impl Reads for SessionReads {
    fn begin(&mut self, tag: u64, key: &[u8], into: &mut Vec<u8>) -> Result<Begun> {
        Ok(match self.0.begin_get(Ticket(tag), key, into)? {
            Get::Found => Begun::Found,
            Get::Absent => Begun::Absent,
            Get::Pending(_) => Begun::Pending,
            Get::Full => Begun::Full,
        })
    }

    fn complete(&mut self, waits: bool, found: &mut Found<'_>) -> Result<usize> {
        self.0.complete_some(waits, &mut |Ticket(tag), outcome| {
            let value = outcome.map(|completed| match completed {
                Completed::Value(value) => value,
                Completed::Updated => None,
            });
            found(tag, value);
        })
    }

    fn pending(&self) -> usize {
        self.0.pending()
    }
}
