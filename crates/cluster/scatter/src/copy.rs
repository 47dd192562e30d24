//! A copy of a fragment that is being written to one StoC.

use std::sync::Arc;
use std::time::Duration;

use stoc::{FileName, Link, Request};
use sync::{Condvar, Mutex};

use crate::place::{Failure, Place};

/// Time after which a thread that waits for replies looks at the clock.
const LOOK: Duration = Duration::from_millis(20);
/// A StoC has failed if a reply takes longer than this many times the limit of a call.
pub(crate) const SLOW_MAX: u32 = 30;

/// A copy that is being written. It is released when it is dropped, unless it is kept.
#[derive(Debug)]
pub(crate) struct Copy {
    place: Arc<Place>,
    link: Arc<dyn Link>,
    name: FileName,
    progress: Arc<Progress>,
    is_kept: bool,
}

/// The replies of a StoC.
#[derive(Debug, Default)]
struct Progress {
    state: Mutex<Replies>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Replies {
    sent: u64,
    replied: u64,
    failure: Option<Failure>,
}

impl Copy {
    /// Begins a copy on a StoC.
    pub(crate) fn begin(place: &Arc<Place>, number: (u64, u16), link: Arc<dyn Link>) -> Self {
        let name = place.new_copy(number);
        let (place, progress) = (Arc::clone(place), Arc::default());
        let copy = Self { place, link, name, progress, is_kept: false };
        let epoch = copy.place.epoch;
        copy.send(Request::CreateTable { name, epoch, stripe: u32::from(name.part) });
        copy
    }

    /// Returns the link to its StoC.
    pub(crate) fn link(&self) -> &Arc<dyn Link> {
        &self.link
    }

    /// Sends bytes of the fragment.
    pub(crate) fn write(&self, offset: u64, bytes: Arc<[u8]>) {
        let (name, epoch) = (self.name, self.place.epoch);
        self.send(Request::Write { name, epoch, offset, bytes });
    }

    /// Has the StoC finish the copy. It is durable once all replies are there.
    pub(crate) fn finish(&self, length: u64) {
        let (name, epoch) = (self.name, self.place.epoch);
        self.send(Request::Finish { name, epoch, length });
    }

    fn send(&self, request: Request) {
        self.progress.state.lock().sent += 1;
        let progress = Arc::clone(&self.progress);
        self.link.send(
            request,
            Box::new(move |reply| {
                let mut state = progress.state.lock();
                state.replied += 1;
                if let Err(error) = reply {
                    state.failure.get_or_insert(match error {
                        stoc::Error::Fenced { .. } => Failure::Fenced,
                        stoc::Error::NoRoom { .. } => Failure::Full,
                        _ => Failure::Unavailable,
                    });
                }
                progress.changed.notify_all();
            }),
        );
    }

    /// Returns whether the StoC has done all that was sent; none while it has not replied.
    ///
    /// # Errors
    /// The failure of a request.
    pub(crate) fn is_done(&self) -> Result<bool, Failure> {
        let state = self.progress.state.lock();
        match &state.failure {
            Some(failure) => Err(failure.clone()),
            None => Ok(state.replied == state.sent),
        }
    }

    /// Waits a moment for a reply.
    pub(crate) fn wait_a_moment(&self) {
        let mut state = self.progress.state.lock();
        if state.failure.is_none() && state.replied < state.sent {
            self.progress.changed.wait_for(&mut state, LOOK);
        }
    }

    /// Waits for all replies. For each of them it waits [`SLOW_MAX`] times the limit of a call.
    ///
    /// # Errors
    /// The failure of a request; [`Failure::Unavailable`] of a StoC that is too slow;
    /// [`Failure::Closed`], [`Failure::Full`].
    pub(crate) fn wait(&self) -> Result<(), Failure> {
        let place = &self.place;
        let most = place.slow * SLOW_MAX;
        let (mut seen, mut deadline) = (0, place.environment.now() + most);
        while !self.is_done()? {
            place.check_open()?;
            let replied = self.progress.state.lock().replied;
            if replied != seen {
                (seen, deadline) = (replied, place.environment.now() + most);
            } else if place.environment.now() >= deadline {
                return Err(Failure::Unavailable);
            }
            self.wait_a_moment();
        }
        Ok(())
    }

    /// Keeps the copy, which is done. Returns its name.
    pub(crate) fn keep(mut self) -> FileName {
        self.is_kept = true;
        self.name
    }
}

/// The release follows all requests that were sent.
impl Drop for Copy {
    fn drop(&mut self) {
        if !self.is_kept {
            self.place.release(&self.name, Some(&*self.link));
        }
    }
}
