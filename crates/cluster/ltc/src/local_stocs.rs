//! StoCs of this process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use environment::Environment;
use logc::{Closing, Stocs};
use stoc::{Identity, Link, OnReply, Request, Response, Stoc, ThreadLink};
use sync::Mutex;

use crate::error::{Error, Result};

/// Closes all logs when too few StoCs are left for an append. Otherwise the logs would wait for
/// them. A StoC that has stopped, or has no room for a log, takes no more before the next start.
#[derive(Debug)]
struct Watch {
    stopped: Mutex<BTreeMap<u32, String>>,
    all: usize,
    needed: usize,
    closing: Closing,
}

/// A link that reports the end of its StoC.
#[derive(Debug)]
struct WatchedLink {
    link: ThreadLink,
    watch: Arc<Watch>,
}

/// The StoCs of this process. Each has a thread.
#[derive(Debug)]
pub(crate) struct LocalStocs {
    links: BTreeMap<u32, Arc<WatchedLink>>,
    watch: Arc<Watch>,
    /// StoCs that were chosen so far: a choice begins with the next one.
    chosen: AtomicUsize,
}

impl LocalStocs {
    /// Starts a thread for each StoC. Closes the logs when fewer than `needed` are left.
    ///
    /// # Errors
    /// [`Error::Thread`].
    pub(crate) fn new(
        stocs: Vec<Arc<Stoc>>,
        environment: &Environment,
        needed: usize,
        closing: Closing,
    ) -> Result<Self> {
        let (all, stopped) = (stocs.len(), Mutex::default());
        let watch = Arc::new(Watch { stopped, all, needed, closing });
        let link = |stoc: Arc<Stoc>| {
            let (node, watch) = (stoc.identity().node, Arc::clone(&watch));
            let link = ThreadLink::new(stoc, environment);
            let link = link.map_err(|error| Error::Thread(error.to_string()))?;
            Ok((node, Arc::new(WatchedLink { link, watch })))
        };
        let links = stocs.into_iter().map(link).collect::<Result<_>>()?;
        Ok(Self { links, watch, chosen: AtomicUsize::new(0) })
    }

    /// Returns what has stopped StoCs, by their numbers.
    pub(crate) fn stopped(&self) -> Vec<(u32, String)> {
        let stopped = self.watch.stopped.lock();
        stopped.iter().map(|(node, error)| (*node, error.clone())).collect()
    }

    /// Ends the threads. Nothing is written to a StoC from then on.
    pub(crate) fn stop(&self) {
        self.links.values().for_each(|link| link.link.stop());
    }
}

impl Watch {
    /// Notes the error of a StoC, if it ends the use of the StoC.
    fn note(&self, node: u32, is_change: bool, is_of_log: bool, error: &stoc::Error) {
        let has_stopped = match error {
            stoc::Error::Stopped(_) => true,
            stoc::Error::NoRoom { .. } => is_of_log,
            error => is_change && error.is_fatal(),
        };
        if !has_stopped {
            return;
        }
        let mut stopped = self.stopped.lock();
        stopped.entry(node).or_insert_with(|| error.to_string());
        if self.all - stopped.len() < self.needed {
            match error {
                stoc::Error::NoRoom { .. } => self.closing.close_full(),
                _ => self.closing.close(),
            }
        }
    }
}

impl Link for WatchedLink {
    fn identity(&self) -> Identity {
        self.link.identity()
    }

    fn send(&self, request: Request, on_reply: OnReply) {
        let (watch, node) = (Arc::clone(&self.watch), self.identity().node);
        let (is_change, is_of_log) = (request.is_change(), request.is_of_log());
        let reply = move |reply: stoc::Result<Response>| {
            if let Err(error) = &reply {
                watch.note(node, is_change, is_of_log, error);
            }
            on_reply(reply);
        };
        self.link.send(request, Box::new(reply));
    }
}

impl Stocs for LocalStocs {
    fn link(&self, node: u32) -> Option<Arc<dyn Link>> {
        self.links.get(&node).map(|link| Arc::clone(link) as Arc<dyn Link>)
    }

    fn choose(&self, count: usize, avoid: &[u32]) -> Vec<Arc<dyn Link>> {
        let mut all: Vec<u32> = self.links.keys().copied().collect();
        let turn = self.chosen.fetch_add(1, Relaxed) % all.len().max(1);
        all.rotate_left(turn);
        let free = all.into_iter().filter(|node| !avoid.contains(node));
        free.filter_map(|node| self.link(node)).take(count).collect()
    }
}
