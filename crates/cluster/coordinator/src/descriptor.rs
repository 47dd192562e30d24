//! The record of a range, and the changes that it allows.

use codec::{Corruption, Reader, Writer};
use logc::LogRecord;
use stoc::{Epoch, Kind, RangeId};

use crate::fields::{decode, encode};

/// A process that can own ranges, in one of its starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// The number of the LTC.
    pub ltc: u32,
    /// The number of its start.
    pub start: u64,
}

/// The state of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeState {
    /// No LTC has it: it is new, or its owner has closed it.
    Free,
    /// The owner fences the logs and replays.
    Opening,
    /// The owner serves clients.
    Serving,
    /// The owner serves clients, and flushes, because the range is to move.
    Moving {
        /// The LTC that is to get the range.
        target: u32,
    },
    /// The owner closes it, so that another one can open it. Without an owner it is closed.
    Leaving {
        /// The LTC that is to get the range.
        target: u32,
    },
    /// The keyspace was dropped. The files of the range are released.
    Dropped,
}

/// The record of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Its number.
    pub id: RangeId,
    /// The name of its keyspace.
    pub keyspace: String,
    /// The first key.
    pub start: Vec<u8>,
    /// The end of the keys, exclusive; none for the last range of a keyspace.
    pub end: Option<Vec<u8>>,
    /// The epoch of the owner. (C2)
    pub epoch: Epoch,
    /// The owner; none before the first.
    pub owner: Option<Owner>,
    /// Its state.
    pub state: RangeState,
    /// All clients with smaller ids were there before the range.
    pub clients: u64,
    /// Whether the next owner gives the write log up, since its replicas are lost.
    pub gives_up_log: bool,
    /// The write log.
    pub log: LogRecord,
    /// The manifest log.
    pub manifest: LogRecord,
}

/// A change of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An LTC opens the range: the owner before has lost it, or has closed it.
    Take(Owner),
    /// The owner has replayed the logs.
    Serve,
    /// The range is to move to another LTC.
    Move {
        /// The LTC that is to get it.
        target: u32,
    },
    /// The range is to stay where it is after all.
    Stay,
    /// The owner begins to close a range that is to move: it acknowledges nothing new.
    Leave,
    /// The owner has closed it.
    Left,
    /// The keyspace is dropped.
    Drop,
    /// The next owner is to give the write log up.
    GiveUpLog,
}

/// The reason why a change is not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The caller has another epoch than the range. (C3)
    #[error("it belongs to epoch {present}, and the caller has epoch {given}")]
    OtherEpoch {
        /// The epoch of the caller.
        given: Epoch,
        /// The epoch of the range.
        present: Epoch,
    },
    /// The state does not allow the change.
    #[error("it is {state:?}, which does not allow {event:?}")]
    State {
        /// The state of the range.
        state: RangeState,
        /// The change.
        event: Event,
    },
    /// A log of the range has another record than the caller knows.
    #[error("its log has another record than the caller knows")]
    OtherLog,
    /// The move that is to be withdrawn has begun: its owner takes no more requests.
    #[error(
        "its owner closes it already for its move to LTC {target}, which does not end any more"
    )]
    HasBegun {
        /// The LTC that gets it.
        target: u32,
    },
    /// There is no move that could be withdrawn.
    #[error("it does not move: it is {}", .state.name())]
    NoMove {
        /// The state of the range.
        state: RangeState,
    },
    /// The range is at the LTC to which it is to move.
    #[error("it is at LTC {ltc} already")]
    IsThere {
        /// The LTC.
        ltc: u32,
    },
}

impl RangeState {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Free => "Free",
            Self::Opening => "Opening",
            Self::Serving => "Serving",
            Self::Moving { .. } => "Moving",
            Self::Leaving { .. } => "Leaving",
            Self::Dropped => "Dropped",
        }
    }

    /// Returns the LTC to which the range moves.
    pub fn target(self) -> Option<u32> {
        match self {
            Self::Moving { target } | Self::Leaving { target } => Some(target),
            _ => None,
        }
    }

    fn code(self) -> u8 {
        match self {
            Self::Free => 0,
            Self::Opening => 1,
            Self::Serving => 2,
            Self::Leaving { .. } => 3,
            Self::Dropped => 4,
            Self::Moving { .. } => 5,
        }
    }
}

impl Descriptor {
    /// Returns whether the range has a key.
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= self.start.as_slice() && self.end.as_ref().is_none_or(|end| key < end.as_slice())
    }

    /// Returns the record of one of its logs.
    pub fn log_of(&self, kind: Kind) -> &LogRecord {
        if kind == Kind::Manifest { &self.manifest } else { &self.log }
    }

    pub(crate) fn log_of_mut(&mut self, kind: Kind) -> &mut LogRecord {
        if kind == Kind::Manifest { &mut self.manifest } else { &mut self.log }
    }

    /// Refuses a caller of another epoch. (C3)
    ///
    /// # Errors
    /// [`Refusal::OtherEpoch`].
    pub fn check_epoch(&self, given: Epoch) -> Result<(), Refusal> {
        let present = self.epoch;
        if given == present { Ok(()) } else { Err(Refusal::OtherEpoch { given, present }) }
    }

    /// Makes a change. A range that is taken gets a new epoch. (C2)
    ///
    /// # Errors
    /// The reason why the state does not allow it.
    pub fn apply(&mut self, event: Event) -> Result<(), Refusal> {
        let refused = Err(Refusal::State { state: self.state, event });
        match (self.state, event) {
            (RangeState::Dropped, _) => return refused,
            (_, Event::Take(owner)) => {
                self.epoch = Epoch(self.epoch.0 + 1);
                (self.owner, self.state) = (Some(owner), RangeState::Opening);
            }
            (RangeState::Opening, Event::Serve) => {
                (self.state, self.gives_up_log) = (RangeState::Serving, false);
            }
            (RangeState::Opening | RangeState::Free, Event::GiveUpLog) => self.gives_up_log = true,
            (RangeState::Serving | RangeState::Moving { .. }, Event::Move { target }) => {
                if let Some(Owner { ltc, .. }) = self.owner.filter(|owner| owner.ltc == target) {
                    return Err(Refusal::IsThere { ltc });
                }
                self.state = RangeState::Moving { target };
            }
            (RangeState::Moving { .. }, Event::Stay) => self.state = RangeState::Serving,
            (RangeState::Leaving { target }, Event::Stay) => {
                return Err(Refusal::HasBegun { target });
            }
            (state, Event::Stay) => return Err(Refusal::NoMove { state }),
            (RangeState::Moving { target }, Event::Leave) => {
                self.state = RangeState::Leaving { target };
            }
            (RangeState::Leaving { .. }, Event::Left) => self.owner = None,
            (
                RangeState::Opening | RangeState::Serving | RangeState::Moving { .. },
                Event::Left,
            ) => {
                (self.owner, self.state) = (None, RangeState::Free);
            }
            (_, Event::Drop) => self.state = RangeState::Dropped,
            _ => return refused,
        }
        Ok(())
    }

    /// Returns its bytes.
    pub fn encode(&self) -> Vec<u8> {
        encode(|out| {
            out.put_u32(self.id.0);
            out.put_prefixed(self.keyspace.as_bytes());
            out.put_prefixed(&self.start);
            out.put_u8(u8::from(self.end.is_some()));
            self.end.iter().for_each(|end| out.put_prefixed(end));
            out.put_varint(self.epoch.0);
            out.put_u8(u8::from(self.owner.is_some()));
            if let Some(Owner { ltc, start }) = self.owner {
                out.put_u32(ltc);
                out.put_varint(start);
            }
            put_state(out, self.state);
            out.put_varint(self.clients);
            out.put_u8(u8::from(self.gives_up_log));
            out.put_prefixed(&self.log.encode());
            out.put_prefixed(&self.manifest.encode());
        })
    }

    /// Decodes a record.
    ///
    /// # Errors
    /// The damage.
    pub fn decode(bytes: &[u8]) -> Result<Self, Corruption> {
        decode(bytes, |fields| {
            let (id, keyspace) = (RangeId(fields.take_u32()?), fields.take_text()?);
            let start = fields.take_prefixed()?.to_vec();
            let has_end = fields.take_flag()?;
            let end = if has_end { Some(fields.take_prefixed()?.to_vec()) } else { None };
            let epoch = Epoch(fields.take_varint_u64()?);
            let owner = match fields.take_flag()? {
                true => Some(Owner { ltc: fields.take_u32()?, start: fields.take_varint_u64()? }),
                false => None,
            };
            let (state, clients) = (take_state(fields)?, fields.take_varint_u64()?);
            let gives_up_log = fields.take_flag()?;
            let log = LogRecord::decode(fields.take_prefixed()?)?;
            let manifest = LogRecord::decode(fields.take_prefixed()?)?;
            Ok(Self {
                id,
                keyspace,
                start,
                end,
                epoch,
                owner,
                state,
                clients,
                gives_up_log,
                log,
                manifest,
            })
        })
    }
}

fn put_state(out: &mut Writer<'_>, state: RangeState) {
    out.put_u8(state.code());
    if let RangeState::Moving { target } | RangeState::Leaving { target } = state {
        out.put_u32(target);
    }
}

fn take_state(fields: &mut Reader<'_>) -> Result<RangeState, Corruption> {
    Ok(match fields.take_u8()? {
        0 => RangeState::Free,
        1 => RangeState::Opening,
        2 => RangeState::Serving,
        3 => RangeState::Leaving { target: fields.take_u32()? },
        4 => RangeState::Dropped,
        5 => RangeState::Moving { target: fields.take_u32()? },
        other => return Err(fields.corruption(format!("there is no state {other} of ranges"))),
    })
}
