//! A store that scatters: each fragment, and the metadata, in a place of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use device::Mode;
use engine::{Corruption, Result};
use sync::locks::Mutex;

use crate::table::source::{Span, TableSink, TableSource, TableStore};
use crate::table::summary::{Summary, TableId};

/// Pieces of tables, by table and fragment; the metadata come last.
type Pieces = Arc<Mutex<BTreeMap<(u64, u32), Vec<u8>>>>;

const METADATA: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Scattered {
    pieces: Pieces,
    fragments: u32,
}

impl Scattered {
    pub(super) fn into_fragments(fragments: u32) -> Arc<dyn TableStore> {
        Arc::new(Self { pieces: Pieces::default(), fragments })
    }
}

impl TableStore for Scattered {
    fn fragments_max(&self) -> u32 {
        self.fragments
    }

    fn create(&self, id: TableId, _buffer_bytes: usize) -> Result<Box<dyn TableSink>> {
        Ok(Box::new(Sink { pieces: Arc::clone(&self.pieces), number: id.number }))
    }

    fn open(&self, summary: &Summary) -> Result<Arc<dyn TableSource>> {
        Ok(Arc::new(Source { pieces: Arc::clone(&self.pieces), number: summary.id.number }))
    }

    fn remove(&self, number: u64) -> Result<()> {
        self.pieces.lock().retain(|(table, _), _| *table != number);
        Ok(())
    }

    fn close(&self) {}

    fn list(&self) -> Result<Vec<u64>> {
        let mut numbers: Vec<u64> = self.pieces.lock().keys().map(|(table, _)| *table).collect();
        numbers.dedup();
        Ok(numbers)
    }

    fn sync_names(&self) -> Result<()> {
        Ok(())
    }
}

struct Sink {
    pieces: Pieces,
    number: u64,
}

impl TableSink for Sink {
    fn append(&mut self, fragment: u32, bytes: &[u8]) -> Result<()> {
        let mut pieces = self.pieces.lock();
        pieces.entry((self.number, fragment)).or_default().extend_from_slice(bytes);
        Ok(())
    }

    fn finish(self: Box<Self>, metadata: &[u8]) -> Result<u64> {
        let mut pieces = self.pieces.lock();
        pieces.insert((self.number, METADATA), metadata.to_vec());
        let ours = pieces.range((self.number, 0)..=(self.number, METADATA));
        Ok(ours.map(|(_, bytes)| bytes.len() as u64).sum())
    }

    fn memory(&self) -> usize {
        0
    }
}

#[derive(Debug)]
struct Source {
    pieces: Pieces,
    number: u64,
}

impl TableSource for Source {
    fn read(&self, fragment: u32, offset: u64, into: &mut [u8]) -> Result<()> {
        let pieces = self.pieces.lock();
        let from = offset as usize;
        let piece = pieces.get(&(self.number, fragment));
        match piece.and_then(|piece| piece.get(from..from + into.len())) {
            Some(bytes) => into.copy_from_slice(bytes),
            None => {
                let (file, base) = self.place_of(fragment, offset);
                return Err(Corruption::new("a fragment is too short", 0).at(&file, base).into());
            }
        }
        Ok(())
    }

    fn span(&self, fragment: u32, offset: u64, len: usize) -> Result<Span> {
        let mut bytes = vec![0; len];
        self.read(fragment, offset, &mut bytes)?;
        span_of(&bytes)
    }

    fn span_of_metadata(&self) -> Result<Span> {
        span_of(&self.metadata()?)
    }

    fn metadata(&self) -> Result<Vec<u8>> {
        Ok(self.pieces.lock().get(&(self.number, METADATA)).cloned().unwrap_or_default())
    }

    fn place_of(&self, fragment: u32, offset: u64) -> (String, u64) {
        (format!("piece-{}-{fragment}", self.number), offset)
    }

    fn place_of_metadata(&self) -> (String, u64) {
        self.place_of(METADATA, 0)
    }

    fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// Returns a span of a file that has just these bytes.
fn span_of(bytes: &[u8]) -> Result<Span> {
    let file = device::memory().open("span", Mode::Create)?;
    file.write_at(0, bytes)?;
    Ok(Span { file, offset: 0, read_len: bytes.len(), skipped: 0, len: bytes.len() })
}
