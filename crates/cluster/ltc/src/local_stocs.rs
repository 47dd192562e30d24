//! StoCs of this process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use environment::Environment;
use logc::{Closing, Stocs};
use stoc::{Identity, Link, OnReply, Request, Response, Stoc, ThreadLink};
use sync::Mutex;

use crate::error::{Error, Result};

/// Closes all logs when too few StoCs are left for an append: a StoC that has stopped starts again
/// with the process alone.
#[derive(Debug)]
struct Watch {
    stopped: Mutex<BTreeSet<u32>>,
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
    links: BTreeMap<u32, Arc<dyn Link>>,
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
            Ok((node, Arc::new(WatchedLink { link, watch }) as Arc<dyn Link>))
        };
        let links = stocs.into_iter().map(link).collect::<Result<_>>()?;
        Ok(Self { links, chosen: AtomicUsize::new(0) })
    }
}

impl Watch {
    fn note(&self, node: u32) {
        let mut stopped = self.stopped.lock();
        stopped.insert(node);
        if self.all - stopped.len() < self.needed {
            self.closing.close();
        }
    }
}

impl Link for WatchedLink {
    fn identity(&self) -> Identity {
        self.link.identity()
    }

    fn send(&self, request: Request, on_reply: OnReply) {
        let (watch, node) = (Arc::clone(&self.watch), self.identity().node);
        let reply = move |reply: stoc::Result<Response>| {
            if reply.as_ref().is_err_and(stoc::Error::is_fatal) {
                watch.note(node);
            }
            on_reply(reply);
        };
        self.link.send(request, Box::new(reply));
    }
}

impl Stocs for LocalStocs {
    fn link(&self, node: u32) -> Option<Arc<dyn Link>> {
        self.links.get(&node).map(Arc::clone)
    }

    fn choose(&self, count: usize, avoid: &[u32]) -> Vec<Arc<dyn Link>> {
        let mut all: Vec<u32> = self.links.keys().copied().collect();
        let turn = self.chosen.fetch_add(1, Relaxed) % all.len().max(1);
        all.rotate_left(turn);
        let free = all.into_iter().filter(|node| !avoid.contains(node));
        free.filter_map(|node| self.link(node)).take(count).collect()
    }
}
