//! A request that is under way.

use std::sync::Arc;
use std::time::Duration;

use environment::Monotonic;

use crate::error::{Error, Result};
use crate::protocol::{Pair, RangeReply, RangeRequest, RequestId, encode_range_request};

/// The reaction to the end of a request. It is called once, on any thread, and must be short.
pub type OnDone = Box<dyn FnOnce(Result<RangeReply>) + Send>;

/// Pauses before repetitions: the first, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(250);
/// Bytes that the reply to a small request may have.
const REPLY_BYTES: u32 = 4 << 10;
/// The same for one value, at the first attempt.
const VALUE_BYTES: u32 = 64 << 10;
/// A large reply.
const LARGE_BYTES: u32 = 16 << 20;
/// The most bytes of a reply.
const REPLY_BYTES_MAX: u32 = 255 << 20;

/// A request that is under way.
pub(crate) struct Pending {
    pub(crate) keyspace: Arc<str>,
    /// The key whose range serves the request.
    pub(crate) key: Vec<u8>,
    /// Whether the range before the key serves it, as in a scan in reverse.
    pub(crate) is_before: bool,
    pub(crate) request: RangeRequest,
    encoded: Option<Arc<[u8]>>,
    /// Reads of the routes that were known when the keyspace was found missing.
    pub(crate) missing_since: Option<u64>,
    /// Whether the write has an id.
    pub(crate) has_id: bool,
    pub(crate) deadline: Monotonic,
    /// Attempts so far.
    attempts: u32,
    /// Whether an attempt may have executed the write. (Q3)
    pub(crate) may_have_run: bool,
    /// Refusals of a busy owner so far.
    pub(crate) busy: u32,
    pub(crate) reply_bytes: u32,
    /// Why the last attempt has failed.
    pub(crate) cause: String,
    pub(crate) on_done: OnDone,
}

impl Pending {
    pub(crate) fn new(
        keyspace: Arc<str>,
        (key, is_before): (Vec<u8>, bool),
        request: RangeRequest,
        deadline: Monotonic,
        on_done: OnDone,
    ) -> Self {
        let reply_bytes = match &request {
            RangeRequest::Get { keys } => {
                let keys = u32::try_from(keys.len()).unwrap_or(u32::MAX);
                keys.saturating_mul(VALUE_BYTES).clamp(VALUE_BYTES, LARGE_BYTES)
            }
            RangeRequest::Scan { bytes_max, .. } => bytes_max.saturating_add(VALUE_BYTES),
            RangeRequest::Write { .. } | RangeRequest::Clear { .. } => REPLY_BYTES,
        };
        Self {
            keyspace,
            key,
            is_before,
            request,
            encoded: None,
            missing_since: None,
            has_id: false,
            deadline,
            attempts: 0,
            may_have_run: false,
            busy: 0,
            reply_bytes,
            cause: String::new(),
            on_done,
        }
    }

    /// Returns the id of a write.
    pub(crate) fn id(&self) -> Option<RequestId> {
        match &self.request {
            RangeRequest::Write { id, .. } | RangeRequest::Clear { id } => Some(*id),
            RangeRequest::Get { .. } | RangeRequest::Scan { .. } => None,
        }
    }

    pub(crate) fn needs_id(&self) -> bool {
        !self.has_id && self.id().is_some()
    }

    /// Gives a write its id, or another one in the place of an id that its range has forgotten.
    pub(crate) fn set_id(&mut self, new: RequestId) {
        if let RangeRequest::Write { id, .. } | RangeRequest::Clear { id } = &mut self.request {
            *id = new;
            (self.has_id, self.encoded) = (true, None);
        }
    }

    /// Returns its bytes, without its range.
    pub(crate) fn encoded(&mut self) -> Arc<[u8]> {
        let encode = || encode_range_request(&self.request).into();
        Arc::clone(self.encoded.get_or_insert_with(encode))
    }

    /// Notes that an attempt may have been executed, or may be under way.
    pub(crate) fn note_may_have_run(&mut self) {
        self.may_have_run = true;
        if let RangeRequest::Write { is_repeated, .. } = &mut self.request
            && !std::mem::replace(is_repeated, true)
        {
            self.encoded = None;
        }
    }

    /// Returns the keys of a request for several, but for its own place.
    pub(crate) fn other_keys(&self) -> impl Iterator<Item = &[u8]> {
        let (gets, pairs): (&[Vec<u8>], [&[Pair]; 2]) = match &self.request {
            RangeRequest::Get { keys } => (keys, [&[], &[]]),
            RangeRequest::Write { expects, steps, .. } => (&[], [expects, steps]),
            RangeRequest::Scan { .. } | RangeRequest::Clear { .. } => (&[], [&[], &[]]),
        };
        let pairs = pairs.into_iter().flatten().map(|pair| pair.key.as_slice());
        gets.iter().map(Vec::as_slice).chain(pairs).filter(|key| *key != self.key)
    }

    /// Returns whether it is a write.
    pub(crate) fn is_write(&self) -> bool {
        self.id().is_some()
    }

    /// Allows a longer reply than the one that was refused. Returns whether there is one.
    pub(crate) fn allow_longer(&mut self) -> bool {
        let may_grow = self.reply_bytes < REPLY_BYTES_MAX;
        // Other requests to the LTC have no room meanwhile, so a large limit grows in small steps.
        let factor = if self.reply_bytes < LARGE_BYTES { 4 } else { 2 };
        self.reply_bytes = self.reply_bytes.saturating_mul(factor).min(REPLY_BYTES_MAX);
        may_grow
    }

    /// Returns the pause before the next attempt, which grows. `random` is from 0 to 99.
    pub(crate) fn pause(&mut self, random: u32) -> Duration {
        let grown = PAUSE_MIN * 2_u32.saturating_pow(self.attempts.min(8));
        self.attempts += 1;
        grown.min(PAUSE_MAX) * (50 + random) / 100
    }

    /// Returns the error of a request that ends without a reply. (Q3)
    pub(crate) fn last_error(&self) -> Error {
        let cause = match self.cause.is_empty() {
            true => "no attempt was possible".to_owned(),
            false => self.cause.clone(),
        };
        match self.is_write() && self.may_have_run {
            true => Error::Unknown(cause),
            false => Error::Unavailable(cause),
        }
    }
}
