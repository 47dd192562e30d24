//! Links: the ways by which requests reach a StoC.

use std::collections::VecDeque;
use std::fmt::{self, Debug};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use environment::{Environment, JoinHandle};
use sync::{Condvar, Mutex};

use crate::catalogue::Identity;
use crate::error::{Error, Result};
use crate::request::{Request, Response};
use crate::store::Stoc;

/// The reaction to a reply. It is called once, on any thread, and must be short.
pub type OnReply = Box<dyn FnOnce(Result<Response>) + Send>;

/// A way to reach one StoC.
///
/// Requests that change files of one range, and that are all for logs or all for tables, are done
/// in the order in which they were sent. A lost connection does not break this order: it fails all
/// requests that are under way, and a later one overtakes none of them. Others are not ordered. A
/// caller that needs their order waits for the replies.
pub trait Link: Send + Sync + Debug {
    /// Returns the identity of the StoC behind the link, in its present start.
    fn identity(&self) -> Identity;

    /// Sends a request, and does not wait. `on_reply` may be called within this call.
    fn send(&self, request: Request, on_reply: OnReply);
}

/// Time after which a thread that waits for replies looks at the clock.
const LOOK: Duration = Duration::from_millis(20);

/// Sends a request to several StoCs, and waits for all replies, but not longer than `slow`. A StoC
/// that did not reply is unreachable.
pub fn call_all(
    links: &[Arc<dyn Link>],
    request: &Request,
    (slow, environment): (Duration, &Environment),
) -> Vec<Result<Response>> {
    type Replies = Vec<Option<Result<Response>>>;
    let none: Replies = links.iter().map(|_| None).collect();
    let shared = Arc::new((Mutex::new(none), Condvar::new()));
    for (at, link) in links.iter().enumerate() {
        let shared = Arc::clone(&shared);
        let on_reply = move |reply| {
            if let Some(place) = shared.0.lock().get_mut(at) {
                *place = Some(reply);
            }
            shared.1.notify_all();
        };
        link.send(request.clone(), Box::new(on_reply));
    }
    let deadline = environment.now() + slow;
    let mut replies = shared.0.lock();
    while replies.iter().any(Option::is_none) && environment.now() < deadline {
        shared.1.wait_for(&mut replies, LOOK.min(slow));
    }
    let unreachable = |link: &Arc<dyn Link>| {
        let node = link.identity().node;
        Err(Error::Unreachable { node })
    };
    let replies = replies.iter_mut().map(Option::take).zip(links);
    replies.map(|(reply, link)| reply.unwrap_or_else(|| unreachable(link))).collect()
}

/// Sends a request to one StoC, and waits for the reply, but not longer than `slow`.
///
/// # Errors
/// Those of the call; [`Error::Unreachable`].
pub fn call(
    link: &Arc<dyn Link>,
    request: &Request,
    timing: (Duration, &Environment),
) -> Result<Response> {
    let node = link.identity().node;
    let mut replies = call_all(std::slice::from_ref(link), request, timing);
    replies.pop().unwrap_or(Err(Error::Unreachable { node }))
}

/// A link to a StoC of this process: the calls are made on the thread of the sender.
#[derive(Clone, Debug)]
pub struct DirectLink(pub Arc<Stoc>);

impl Link for DirectLink {
    fn identity(&self) -> Identity {
        self.0.identity()
    }

    fn send(&self, request: Request, on_reply: OnReply) {
        on_reply(self.0.serve(&request));
    }
}

/// Bytes of requests that may wait for a StoC, or one request that is longer: a StoC that is behind
/// by more is refused further ones.
const QUEUE_BYTES_MAX: usize = 64 << 20;

/// A link to a StoC of this process with a thread of its own, so that the calls of several StoCs
/// overlap. Dropping it ends the thread, after the requests that were sent.
pub struct ThreadLink {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    stoc: Arc<Stoc>,
    queue: Mutex<Queue>,
    has_work: Condvar,
}

#[derive(Default)]
struct Queue {
    requests: VecDeque<(Request, OnReply)>,
    /// Bytes of the requests.
    bytes: usize,
    is_closed: bool,
}

impl ThreadLink {
    /// Starts the thread.
    ///
    /// # Errors
    /// The operating system has no thread.
    pub fn new(stoc: Arc<Stoc>, environment: &Environment) -> io::Result<Self> {
        let (queue, has_work) = Default::default();
        let shared = Arc::new(Shared { stoc, queue, has_work });
        let works = Arc::clone(&shared);
        let thread = environment.spawn("stoc link", move || works.serve())?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Refuses the requests that wait, and later ones, and waits for the end of the one that is
    /// under way. Nothing is written to the StoC from then on.
    pub fn stop(&self) {
        let waiting = {
            let mut queue = self.shared.queue.lock();
            queue.is_closed = true;
            std::mem::take(&mut queue.requests)
        };
        self.shared.has_work.notify_all();
        for (_, on_reply) in waiting {
            on_reply(Err(Error::Unreachable { node: self.identity().node }));
        }
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            let _ended = thread.join();
        }
    }
}

impl Shared {
    fn serve(&self) {
        while let Some((request, on_reply)) = self.next() {
            on_reply(self.stoc.serve(&request));
        }
    }

    fn next(&self) -> Option<(Request, OnReply)> {
        let mut queue = self.queue.lock();
        loop {
            match queue.requests.pop_front() {
                Some(next) => {
                    queue.bytes -= next.0.bytes();
                    return Some(next);
                }
                None if queue.is_closed => return None,
                None => self.has_work.wait(&mut queue),
            }
        }
    }
}

impl Link for ThreadLink {
    fn identity(&self) -> Identity {
        self.shared.stoc.identity()
    }

    fn send(&self, request: Request, on_reply: OnReply) {
        let mut queue = self.shared.queue.lock();
        let bytes = request.bytes();
        let is_behind = queue.bytes > 0 && queue.bytes + bytes > QUEUE_BYTES_MAX;
        if queue.is_closed || is_behind {
            drop(queue);
            on_reply(Err(Error::Unreachable { node: self.identity().node }));
            return;
        }
        queue.bytes += bytes;
        queue.requests.push_back((request, on_reply));
        drop(queue);
        self.shared.has_work.notify_one();
    }
}

impl Drop for ThreadLink {
    fn drop(&mut self) {
        self.shared.queue.lock().is_closed = true;
        self.shared.has_work.notify_one();
    }
}

impl Debug for ThreadLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadLink").field("identity", &self.identity()).finish_non_exhaustive()
    }
}
