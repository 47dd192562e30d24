//! A get of one key.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};

use client::RangeReply;
use sync::Mutex;
use thermocline::AsyncGet;
use wire::Lanes;

use crate::served::{Give, Served, refusal};

/// A get that has not ended. While it waits for StoCs, no thread waits for it: its wake adds a job
/// to the threads of the LTC.
pub(crate) struct Get {
    served: Arc<Served>,
    threads: Weak<Lanes<()>>,
    /// None once it has ended.
    state: Mutex<Option<(AsyncGet, Give)>>,
}

impl Get {
    /// Begins a get, in the turn of a request. It ends here if memory has the value.
    pub(crate) fn begin(
        served: &Arc<Served>,
        get: AsyncGet,
        threads: &Weak<Lanes<()>>,
        give: Give,
    ) {
        let (served, threads) = (Arc::clone(served), Weak::clone(threads));
        let state = Mutex::new(Some((get, give)));
        Arc::new(Self { served, threads, state }).poll();
    }

    fn poll(self: &Arc<Self>) {
        let waker = Waker::from(Arc::clone(self));
        let mut state = self.state.lock();
        let Some((get, _)) = &mut *state else { return };
        let Poll::Ready(read) = Pin::new(get).poll(&mut Context::from_waker(&waker)) else {
            return;
        };
        let give = state.take().map(|(_, give)| give);
        drop(state);
        let reply = match read {
            Ok(value) => Ok(RangeReply::Values(vec![value])),
            Err(error) => Err(refusal(&error)),
        };
        if let Some(give) = give {
            self.served.reply(reply, true, give);
        }
    }
}

impl Wake for Get {
    fn wake(self: Arc<Self>) {
        // Threads that were stopped serve no request.
        if let Some(threads) = self.threads.upgrade() {
            threads.add(None, move || {
                let give = || self.state.lock().take().map(|(_, give)| give);
                self.served.go_on(|| self.poll(), give);
            });
        }
    }
}
