//! The catalogue: what a StoC remembers next to its files, as a chain of edits.
//!
//! - Its identity: cluster, node, cookie, and the incarnation of its last start.
//! - The promise of each range: the epoch below which it refuses calls.
//! - The references of files, if they differ from the usual one: a file has a reference of the
//!   range that made it.
//! - The lengths at which ranges have sealed their logs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use codec::{Corruption, Format, Reader, SeqNo, Writer};
use device::Device;
use edits::{Chain, Kind as ChainKind};

use crate::error::{Error, Result};
use crate::name::{Epoch, FILES_DIR, FileName, Kind, RangeId};

const FORMAT: Format = Format::new(*b"TCSTOCCA", 1, 0);
const HAS_IDENTITY: u8 = 1;
/// Bytes above which the chain is written again as one edit, if that makes it shorter.
const BYTES_MAX: u64 = 1 << 20;
/// The fewest bytes of a promise, and of the references of a file.
const PROMISE_BYTES_MIN: usize = 5;
const REFERENCES_BYTES_MIN: usize = 24;

/// The identity of a StoC. (S5)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The cluster.
    pub cluster: u64,
    /// The number of the StoC in the cluster.
    pub node: u32,
    /// A random number that the directory got when it was made.
    pub cookie: u64,
    /// The number of the present start, which the coordinator gives.
    pub incarnation: u64,
}

/// A change of the catalogue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) identity: Option<Identity>,
    pub(crate) promises: Vec<(RangeId, Epoch)>,
    /// All references of some files; none for a file that has the usual one again, or that is
    /// removed.
    pub(crate) references: Vec<(FileName, Vec<RangeId>)>,
    /// Lengths of logs; none for a log that is removed.
    pub(crate) seals: Vec<(FileName, Option<u64>)>,
}

/// The contents after some edits.
#[derive(Clone, Debug, Default)]
pub(crate) struct All {
    pub(crate) identity: Identity,
    pub(crate) promises: BTreeMap<RangeId, Epoch>,
    pub(crate) references: BTreeMap<FileName, BTreeSet<RangeId>>,
    pub(crate) seals: BTreeMap<FileName, u64>,
}

impl edits::Edit for Edit {
    const KIND: ChainKind = ChainKind {
        superblock: *b"stoc    ",
        format: FORMAT,
        prefix: "catalogue-",
        is_of_store: |name| name == FILES_DIR,
    };

    type All = All;

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut out = Writer::new(&mut bytes);
        out.put_u8(if self.identity.is_some() { HAS_IDENTITY } else { 0 });
        if let Some(identity) = &self.identity {
            out.put_u64(identity.cluster);
            out.put_u32(identity.node);
            out.put_u64(identity.cookie);
            out.put_u64(identity.incarnation);
        }
        out.put_varint(self.promises.len() as u64);
        for (range, epoch) in &self.promises {
            out.put_u32(range.0);
            out.put_varint(epoch.0);
        }
        out.put_varint(self.references.len() as u64);
        for (name, ranges) in &self.references {
            put_name(&mut out, name);
            out.put_varint(ranges.len() as u64);
            ranges.iter().for_each(|range| out.put_u32(range.0));
        }
        out.put_varint(self.seals.len() as u64);
        for (name, length) in &self.seals {
            put_name(&mut out, name);
            // One more than the length; zero is none.
            out.put_varint(length.map_or(0, |length| length.saturating_add(1)));
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> std::result::Result<Self, Corruption> {
        let mut reader = Reader::new(bytes);
        let flags = reader.take_u8()?;
        if flags & !HAS_IDENTITY != 0 {
            return Err(reader.corruption(format!("flags {flags:#x} of an edit")));
        }
        let mut edit = Self::default();
        if flags & HAS_IDENTITY != 0 {
            edit.identity = Some(Identity {
                cluster: reader.take_u64()?,
                node: reader.take_u32()?,
                cookie: reader.take_u64()?,
                incarnation: reader.take_u64()?,
            });
        }
        for _ in 0..reader.take_count(PROMISE_BYTES_MIN)? {
            let range = RangeId(reader.take_u32()?);
            edit.promises.push((range, Epoch(reader.take_varint_u64()?)));
        }
        for _ in 0..reader.take_count(REFERENCES_BYTES_MIN)? {
            let name = take_name(&mut reader)?;
            let mut ranges = Vec::new();
            for _ in 0..reader.take_count(size_of::<u32>())? {
                ranges.push(RangeId(reader.take_u32()?));
            }
            edit.references.push((name, ranges));
        }
        for _ in 0..reader.take_count(REFERENCES_BYTES_MIN)? {
            let name = take_name(&mut reader)?;
            edit.seals.push((name, reader.take_varint_u64()?.checked_sub(1)));
        }
        reader.finish()?;
        Ok(edit)
    }

    fn apply(self, all: &mut All) -> std::result::Result<(), Corruption> {
        let damage = |what: String| Err(Corruption::new(what, 0));
        if let Some(identity) = self.identity {
            let is_same =
                Identity { incarnation: identity.incarnation, ..all.identity } == identity;
            let is_new = all.identity == Identity::default();
            let is_later = identity.incarnation > all.identity.incarnation;
            if !(is_new || (is_same && is_later)) {
                return damage("the identity of a StoC changes".to_owned());
            }
            all.identity = identity;
        }
        for (range, epoch) in self.promises {
            let before = all.promises.insert(range, epoch);
            if before.is_some_and(|before| before >= epoch) {
                return damage(format!("the promise of range {range} falls to {epoch}"));
            }
        }
        for (name, ranges) in self.references {
            match ranges.is_empty() {
                true => _ = all.references.remove(&name),
                false => _ = all.references.insert(name, ranges.into_iter().collect()),
            }
        }
        for (name, length) in self.seals {
            match length {
                None => _ = all.seals.remove(&name),
                Some(length) => _ = all.seals.insert(name, length),
            }
        }
        Ok(())
    }

    fn of_all(all: All) -> Self {
        all.as_edit()
    }
}

impl All {
    fn as_edit(&self) -> Edit {
        let references = self.references.iter();
        Edit {
            identity: (self.identity != Identity::default()).then_some(self.identity),
            promises: self.promises.iter().map(|(range, epoch)| (*range, *epoch)).collect(),
            references: references
                .map(|(name, ranges)| (*name, ranges.iter().copied().collect()))
                .collect(),
            seals: self.seals.iter().map(|(name, length)| (*name, Some(*length))).collect(),
        }
    }
}

fn put_name(out: &mut Writer<'_>, name: &FileName) {
    out.put_u32(name.range.0);
    out.put_u8(name.kind.code());
    out.put_u64(name.number);
    out.put_u64(name.nonce);
    out.put_u16(name.part);
}

fn take_name(reader: &mut Reader<'_>) -> std::result::Result<FileName, Corruption> {
    let range = RangeId(reader.take_u32()?);
    let code = reader.take_u8()?;
    let kind = Kind::of_code(code);
    let kind =
        kind.ok_or_else(|| reader.corruption(format!("there is no kind {code} of files")))?;
    let (number, nonce) = (reader.take_u64()?, reader.take_u64()?);
    Ok(FileName { range, kind, number, nonce, part: reader.take_u16()? })
}

/// The catalogue of an open StoC.
#[derive(Debug)]
pub(crate) struct Catalogue {
    chain: Chain<Edit>,
    pub(crate) all: All,
}

impl Catalogue {
    /// Reads the catalogue of a directory, or makes one.
    ///
    /// # Errors
    /// The device's; damage.
    pub(crate) fn open(device: &Arc<dyn Device>) -> Result<Self> {
        let found = edits::read::<Edit>(&**device)?;
        let (chain, contents) = Chain::begin(device, found, BYTES_MAX)?;
        let mut all = All::default();
        edits::Edit::apply(contents.edit, &mut all)
            .map_err(|damage| damage.at(edits::SUPERBLOCK, 0))?;
        Ok(Self { chain, all })
    }

    /// Commits a change, durably.
    ///
    /// # Errors
    /// The device's. Nothing has changed if the error is retryable.
    pub(crate) fn commit(&mut self, edit: Edit) -> Result<()> {
        let mut all = self.all.clone();
        edits::Edit::apply(edit.clone(), &mut all).map_err(Error::Damaged)?;
        self.chain.commit(&edit, SeqNo::ZERO, || all.as_edit())?;
        self.all = all;
        Ok(())
    }

    /// Returns the ranges that have a reference to a file.
    pub(crate) fn references(&self, name: &FileName) -> BTreeSet<RangeId> {
        let known = self.all.references.get(name).cloned();
        known.unwrap_or_else(|| BTreeSet::from([name.range]))
    }
}
