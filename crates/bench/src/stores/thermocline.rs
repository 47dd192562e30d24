//! Our own engines, through the facade that a program would use.
//!
//! Durability: `none` is a keyspace without a journal; `buffered` a journaled one whose writes wait
//! for `Flushed` (the kernel has them), without the background sync, as peers that do not sync
//! their log have none; `synced` waits for `Synced`.

use std::sync::Arc;

use thermocline::{
    Begun, Change, Db, Durability as Reached, EngineKind, Io as DeviceIo, KeyRange, Keyspace,
    KeyspaceOptions, Operator, Options, Reads,
};

use super::variant::Variant;
use super::{
    Catalog, DeviceCounts, Durability, Got, Io, OpenOptions, Pairs, Session, Store, StoreError,
    Told,
};

/// Opens our engines by name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ours;

impl Catalog for Ours {
    fn names(&self) -> &'static [&'static str] {
        const NAMES: [&str; EngineKind::ALL.len()] = {
            let mut names = [""; EngineKind::ALL.len()];
            let mut index = 0;
            while index < names.len() {
                names[index] = EngineKind::ALL[index].name();
                index += 1;
            }
            names
        };
        &NAMES
    }

    fn open(&self, name: &str, options: &OpenOptions) -> Result<Arc<dyn Store>, StoreError> {
        let Variant { engine, f2 } = name.parse()?;
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
        let db = Db::open(
            &options.dir,
            Options {
                memory_bytes: options.memory_bytes,
                durability,
                sync_interval: None,
                io,
                f2,
                ..Options::default()
            },
        )?;
        let keyspace = db.keyspace("bench", KeyspaceOptions { engine, journaled })?;
        Ok(Arc::new(Thermocline { db, keyspace }))
    }
}

struct Thermocline {
    db: Db,
    keyspace: Keyspace,
}

impl Store for Thermocline {
    fn session(&self) -> Result<Box<dyn Session + '_>, StoreError> {
        Ok(Box::new(Seat { keyspace: &self.keyspace, reads: None }))
    }

    fn flush(&self) -> Result<(), StoreError> {
        Ok(self.db.flush()?)
    }

    fn device(&self) -> Option<DeviceCounts> {
        let io = self.db.stats().io;
        Some(DeviceCounts {
            read_bytes: io.read_bytes,
            write_bytes: io.write_bytes,
            read_ops: io.read_ops,
            write_ops: io.write_ops,
        })
    }

    fn close(&self) -> Result<(), StoreError> {
        Ok(self.db.close()?)
    }
}

/// One thread's handle, and its seat for reads that overlap.
struct Seat<'a> {
    keyspace: &'a Keyspace,
    reads: Option<Reads>,
}

impl Session for Seat<'_> {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, StoreError> {
        Ok(self.keyspace.get_into(key, value)?)
    }

    fn overlap(&mut self, depth: usize) -> Result<bool, StoreError> {
        self.reads = Some(self.keyspace.reads(depth)?);
        Ok(true)
    }

    fn begin_get(&mut self, tag: u64, key: &[u8], value: &mut Vec<u8>) -> Result<Got, StoreError> {
        let Some(reads) = &mut self.reads else { return Err("gets do not overlap yet".into()) };
        Ok(match reads.begin(tag, key, value)? {
            Begun::Found => Got::Found,
            Begun::Absent => Got::Absent,
            Begun::Pending => Got::Pending,
            Begun::Full => Got::Full,
        })
    }

    fn complete(&mut self, told: &mut Told<'_>) -> Result<usize, StoreError> {
        let Some(reads) = &mut self.reads else { return Ok(0) };
        Ok(reads.complete(true, &mut |tag, found| told(tag, found.map_err(StoreError::from)))?)
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
struct Exchange<'a> {
    new: &'a [u8],
    old: &'a mut Vec<u8>,
    found: bool,
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
