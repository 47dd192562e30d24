//! The kinds of frames, and which role may send which.

use crate::peer::Role;

/// The kind of a frame. A reply has the kind of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each has the name of the call; `docs/formats/wire.md` has all")]
pub enum Kind {
    // Of this crate.
    Hello,
    Welcome,
    Refused,
    Ping,
    Pong,
    // To a StoC.
    Fence,
    CreateLog,
    Append,
    Seal,
    CreateTable,
    Write,
    Finish,
    Read,
    AddReferences,
    Release,
    List,
    Verify,
    Stats,
    // To an LTC.
    RangeGet,
    RangeScan,
    RangeWrite,
    RangeClear,
    // To a coordinator.
    StoreGet,
    StoreList,
    StoreCommit,
    Beat,
    Clients,
    MakeKeyspace,
    Leases,
}

/// All kinds with their codes.
const CODES: [(Kind, u16); 29] = [
    (Kind::Hello, 0x0001),
    (Kind::Welcome, 0x0002),
    (Kind::Refused, 0x0003),
    (Kind::Ping, 0x0004),
    (Kind::Pong, 0x0005),
    (Kind::Fence, 0x0101),
    (Kind::CreateLog, 0x0102),
    (Kind::Append, 0x0103),
    (Kind::Seal, 0x0104),
    (Kind::CreateTable, 0x0105),
    (Kind::Write, 0x0106),
    (Kind::Finish, 0x0107),
    (Kind::Read, 0x0108),
    (Kind::AddReferences, 0x0109),
    (Kind::Release, 0x010a),
    (Kind::List, 0x010b),
    (Kind::Verify, 0x010c),
    (Kind::Stats, 0x010d),
    (Kind::RangeGet, 0x0201),
    (Kind::RangeScan, 0x0202),
    (Kind::RangeWrite, 0x0203),
    (Kind::RangeClear, 0x0204),
    (Kind::StoreGet, 0x0301),
    (Kind::StoreList, 0x0302),
    (Kind::StoreCommit, 0x0303),
    (Kind::Beat, 0x0304),
    (Kind::Clients, 0x0305),
    (Kind::MakeKeyspace, 0x0306),
    (Kind::Leases, 0x0307),
];

impl Kind {
    /// Returns all kinds.
    pub fn all() -> impl Iterator<Item = Self> {
        CODES.into_iter().map(|(kind, _)| kind)
    }

    /// Returns its code in a frame.
    pub fn code(self) -> u16 {
        CODES.iter().find(|(kind, _)| *kind == self).map_or(0, |(_, code)| *code)
    }

    /// Returns the kind of a code.
    pub fn of_code(code: u16) -> Option<Self> {
        CODES.iter().find(|(_, other)| *other == code).map(|(kind, _)| *kind)
    }

    /// Returns whether it is a request that a handler serves.
    pub fn is_request(self) -> bool {
        self.code() > 0x00ff
    }

    /// Returns whether a request may have more than one frame.
    pub(crate) fn is_long(self) -> bool {
        matches!(self, Self::Append | Self::Write | Self::RangeGet | Self::RangeWrite)
    }

    /// Returns whether a node of one role may send anything to one of another role.
    pub(crate) fn may_connect(from: Role, to: Role) -> bool {
        Self::all().any(|kind| kind.may_send(from, to))
    }

    /// Returns whether a node of a role may send this request to one of another role.
    pub fn may_send(self, from: Role, to: Role) -> bool {
        match self {
            Self::Hello | Self::Welcome | Self::Refused | Self::Ping | Self::Pong => false,
            Self::StoreGet | Self::StoreList => to == Role::Coordinator,
            Self::StoreCommit => {
                to == Role::Coordinator && !matches!(from, Role::Client | Role::Coordinator)
            }
            Self::Clients | Self::MakeKeyspace => {
                to == Role::Coordinator && matches!(from, Role::Client | Role::Admin)
            }
            Self::Beat => to == Role::Coordinator && from == Role::Ltc,
            Self::Leases => to == Role::Coordinator && from == Role::Admin,
            Self::RangeGet | Self::RangeScan | Self::RangeWrite | Self::RangeClear => {
                to == Role::Ltc && matches!(from, Role::Client | Role::Admin)
            }
            Self::List | Self::Verify | Self::Stats => {
                to == Role::Stoc && matches!(from, Role::Ltc | Role::Coordinator | Role::Admin)
            }
            Self::Fence
            | Self::CreateLog
            | Self::Append
            | Self::Seal
            | Self::CreateTable
            | Self::Write
            | Self::Finish
            | Self::Read
            | Self::AddReferences
            | Self::Release => to == Role::Stoc && from == Role::Ltc,
        }
    }
}
