//! Our own engines, through the facade that a program would use.
//!
//! Durability: `none` is a keyspace without a journal; `buffered` a journaled one whose writes wait
//! for `Flushed` (the kernel has them), without the background sync, as peers that do not sync
//! their log have none; `synced` waits for `Synced`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sync::locks::Mutex;
use thermocline::{
    Change, Completed, Db, Durability as Reached, EngineKind, Io as DeviceIo, IoCounts, KeyRange,
    Keyspace, KeyspaceOptions, Operator, Options, Session as KeyspaceSession, SessionGet,
    SessionRmw,
};

use super::cluster::{NOVA, is_on_cluster};
use super::variant::{self, Variant};
use super::{
    Background, Catalog, DeviceCounts, Durability, Got, Io, OnRead, OpenOptions, Pairs, Session,
    Store, StoreError, nova,
};
use crate::report::WriterWait;
use crate::workload::Workload;

/// The keyspace of a run.
pub(super) const KEYSPACE: &str = "bench";

/// Opens our engines by name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ours;

impl Catalog for Ours {
    fn names(&self) -> &'static [&'static str] {
        const ENGINES: usize = EngineKind::ALL.len();
        static NAMES: [&str; ENGINES + 1] = {
            let mut names = [NOVA; ENGINES + 1];
            let mut index = 0;
            while index < ENGINES {
                names[index] = EngineKind::ALL[index].name();
                index += 1;
            }
            names
        };
        if cfg!(feature = "cluster") { &NAMES } else { &NAMES[..ENGINES] }
    }

    fn check(&self, name: &str, workload: &Workload) -> Result<(), StoreError> {
        variant::check(name, workload)
    }

    fn open(&self, name: &str, options: &OpenOptions) -> Result<Arc<dyn Store>, StoreError> {
        if is_on_cluster(name) {
            return nova::open(name, options);
        }
        let opening = Opening::of(name.parse()?, options);
        let db = Db::open(&options.dir, opening.database)?;
        let keyspace = db.keyspace(KEYSPACE, opening.keyspace)?;
        Ok(Arc::new(Thermocline { db, keyspace, memory_bytes: opening.memory_bytes }))
    }

    /// The engine `memory` holds all of its data, with any budget.
    fn sizes_cache(&self, name: &str) -> bool {
        let engine = name.parse::<EngineKind>();
        is_on_cluster(name) || engine.is_ok_and(|engine| engine.driver().has_share())
    }
}

/// How the database of a run and its keyspace are opened.
pub(super) struct Opening {
    pub(super) database: Options,
    pub(super) keyspace: KeyspaceOptions,
    /// The budget as a whole: the engine splits it between its cache and everything else.
    pub(super) memory_bytes: u64,
}

impl Opening {
    pub(super) fn of(Variant { engine, settings }: Variant, options: &OpenOptions) -> Self {
        let (journaled, durability) = match options.durability {
            Durability::None => (false, Reached::Buffered),
            Durability::Buffered => (true, Reached::Flushed),
            Durability::Synced => (true, Reached::Synced),
        };
        let io = match options.io {
            Some(Io::Direct) => DeviceIo::DirectBlocks,
            Some(Io::Buffered) => DeviceIo::Buffered,
            None => Options::default().io,
        };
        let memory_bytes = options.cache_bytes.unwrap_or(options.memory_bytes);
        let database = Options {
            memory_bytes,
            durability,
            sync_interval: None,
            io,
            engines: settings.into(),
            ..Options::default()
        };
        let keyspace = KeyspaceOptions {
            engine,
            journaled,
            // All of it, since it is the only keyspace; also if the database is opened with another
            // budget than it was made with.
            memory_bytes: Some(u64::MAX),
            ..KeyspaceOptions::default()
        };
        Self { database, keyspace, memory_bytes }
    }
}

/// Returns the counts of a device.
pub(super) fn device_counts(io: IoCounts) -> DeviceCounts {
    let IoCounts { read_ops, read_bytes, write_ops, write_bytes, .. } = io;
    DeviceCounts { read_bytes, write_bytes, read_ops, write_ops }
}

/// Figures of engines that are above zero while a compaction or a collection is under way.
const UNDER_WAY: [&str; 5] = [
    "compactions_under_way",
    "collections_under_way",
    "compaction_round_bytes",
    "cold_compaction_round_bytes",
    "chunk_compaction_round_bytes",
];

/// A database with the keyspace of a run.
pub(super) struct Thermocline {
    pub(super) db: Db,
    pub(super) keyspace: Keyspace,
    pub(super) memory_bytes: u64,
}

impl Store for Thermocline {
    fn session(&self) -> Result<Box<dyn Session + '_>, StoreError> {
        Ok(Box::new(Handle { keyspace: &self.keyspace, overlapped: None }))
    }

    fn flush(&self) -> Result<(), StoreError> {
        Ok(self.db.flush()?)
    }

    fn device(&self) -> Option<DeviceCounts> {
        Some(device_counts(self.db.stats().io))
    }

    fn figures(&self) -> BTreeMap<String, u64> {
        let detail = self.keyspace.stats().map(|stats| stats.detail).unwrap_or_default();
        detail.into_iter().map(|(name, figure)| (name.to_owned(), figure)).collect()
    }

    fn writer_waits(&self) -> Vec<WriterWait> {
        let waits = self.db.stats().writer_waits.into_iter();
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        waits
            .map(|waits| WriterWait {
                cause: waits.cause.to_owned(),
                count: waits.counts.count,
                total_ms: ms(waits.counts.total),
                longest_ms: ms(waits.counts.longest),
            })
            .collect()
    }

    fn cache_bytes(&self) -> Option<u64> {
        Some(self.memory_bytes)
    }

    /// Never [`Background::AtRest`]: an engine without work may notice that it is idle, and then
    /// begin some.
    fn background(&self) -> Background {
        let figures = self.figures();
        let figure = |name: &&str| figures.get(*name).copied().unwrap_or(0);
        match UNDER_WAY.iter().find(|name| figure(name) > 0) {
            Some(name) => Background::UnderWay(format!("{name} {}", figure(name))),
            None => Background::Unknown,
        }
    }

    fn close(&self) -> Result<(), StoreError> {
        Ok(self.db.close()?)
    }
}

/// One thread's handle, and its session for overlapping operations.
struct Handle<'a> {
    keyspace: &'a Keyspace,
    overlapped: Option<Overlapped>,
}

struct Overlapped {
    session: KeyspaceSession,
    /// The new and the old values of read-modify-writes, by their tags; kept to be used again.
    exchanges: Vec<Arc<Mutex<Exchanged>>>,
}

impl Overlapped {
    fn exchanged(&mut self, tag: u64) -> &Arc<Mutex<Exchanged>> {
        let at = tag as usize;
        if self.exchanges.len() <= at {
            self.exchanges.resize_with(at + 1, Arc::default);
        }
        &self.exchanges[at]
    }
}

impl Handle<'_> {
    fn overlapped(&mut self) -> Result<&mut Overlapped, StoreError> {
        self.overlapped.as_mut().ok_or_else(|| "operations do not overlap yet".into())
    }
}

impl Session for Handle<'_> {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, StoreError> {
        Ok(self.keyspace.get_into(key, value)?)
    }

    fn overlap(&mut self, depth: usize) -> Result<bool, StoreError> {
        let session = self.keyspace.session(depth)?;
        self.overlapped = Some(Overlapped { session, exchanges: Vec::new() });
        Ok(true)
    }

    fn begin_get(&mut self, tag: u64, key: &[u8], value: &mut Vec<u8>) -> Result<Got, StoreError> {
        Ok(match self.overlapped()?.session.begin_get(tag, key, value)? {
            SessionGet::Found => Got::Found,
            SessionGet::Absent => Got::Absent,
            SessionGet::Pending => Got::Pending,
            SessionGet::Full => Got::Full,
        })
    }

    fn begin_rmw(
        &mut self,
        tag: u64,
        key: &[u8],
        new: &[u8],
        old: &mut Vec<u8>,
    ) -> Result<Got, StoreError> {
        let overlapped = self.overlapped()?;
        let exchanged = Arc::clone(overlapped.exchanged(tag));
        exchanged.lock().begin(new);
        let operator = Box::new(PendingExchange(Arc::clone(&exchanged)));
        Ok(match overlapped.session.begin_rmw(tag, key, operator)? {
            SessionRmw::Done(_) => {
                let mut exchanged = exchanged.lock();
                std::mem::swap(old, &mut exchanged.old);
                if exchanged.found { Got::Found } else { Got::Absent }
            }
            SessionRmw::Pending => Got::Pending,
            SessionRmw::Full(_) => Got::Full,
        })
    }

    fn complete(&mut self, waits: bool, on_done: &mut OnRead<'_>) -> Result<usize, StoreError> {
        let Overlapped { session, exchanges } = self.overlapped()?;
        let count = session.complete(waits, &mut |tag, outcome| match outcome {
            Ok(Completed::Value(value)) => on_done(tag, Ok(value)),
            Ok(Completed::Updated(_)) => {
                let exchanged = exchanges[tag as usize].lock();
                on_done(tag, Ok(exchanged.found.then_some(exchanged.old.as_slice())));
            }
            Ok(Completed::Old(_)) => unreachable!("no caller requests old values alone"),
            Err(error) => on_done(tag, Err(error.into())),
        })?;
        Ok(count)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.keyspace.put(key, value)?;
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.keyspace.delete(key)?;
        Ok(())
    }

    fn rmw(&mut self, key: &[u8], new: &[u8], old: &mut Vec<u8>) -> Result<bool, StoreError> {
        let mut exchange = Exchange { new, old, found: false };
        self.keyspace.rmw_with(key, &mut exchange)?;
        Ok(exchange.found)
    }

    fn scan(&mut self, from: &[u8], limit: usize, pairs: &mut Pairs) -> Result<(), StoreError> {
        let mut scan = self.keyspace.scan(KeyRange::of(from.to_vec()..))?;
        for _ in 0..limit {
            let Some((key, value)) = scan.next_ref()? else {
                break;
            };
            pairs.push(key, value);
        }
        Ok(())
    }
}

/// Notes the present value and puts another in its place.
pub(super) struct Exchange<'a> {
    pub(super) new: &'a [u8],
    pub(super) old: &'a mut Vec<u8>,
    pub(super) found: bool,
}

impl Exchange<'_> {
    fn note(&mut self, value: Option<&[u8]>) {
        self.found = value.is_some();
        self.old.clear();
        self.old.extend_from_slice(value.unwrap_or_default());
    }
}

impl Operator for Exchange<'_> {
    fn update_in_place(&mut self, value: &mut [u8]) -> bool {
        if value.len() != self.new.len() {
            return false;
        }
        self.note(Some(value));
        value.copy_from_slice(self.new);
        true
    }

    fn update(&mut self, value: Option<&[u8]>) -> Change {
        self.note(value);
        Change::Put(self.new.to_vec())
    }
}

/// The values of an exchange that may be pending.
#[derive(Default)]
struct Exchanged {
    new: Vec<u8>,
    old: Vec<u8>,
    found: bool,
}

impl Exchanged {
    fn begin(&mut self, new: &[u8]) {
        self.new.clear();
        self.new.extend_from_slice(new);
    }

    fn exchange(&mut self) -> Exchange<'_> {
        Exchange { new: &self.new, old: &mut self.old, found: false }
    }
}

struct PendingExchange(Arc<Mutex<Exchanged>>);

impl PendingExchange {
    fn with<T>(&self, call: impl FnOnce(&mut Exchange<'_>) -> T) -> T {
        let mut exchanged = self.0.lock();
        let mut exchange = exchanged.exchange();
        let outcome = call(&mut exchange);
        exchanged.found = exchange.found;
        outcome
    }
}

impl Operator for PendingExchange {
    fn update_in_place(&mut self, value: &mut [u8]) -> bool {
        self.with(|exchange| exchange.update_in_place(value))
    }

    fn update(&mut self, value: Option<&[u8]>) -> Change {
        self.with(|exchange| exchange.update(value))
    }
}
