//! A store whose tables are scattered: each fragment in another directory, as it would be on
//! another machine, and the metadata in one of them.

use std::sync::Arc;

use device::{Device, File, Mode, SyncKind};
use engine::{Corruption, Engine, Error, Host, Result};
use thermocline_lsm::trials::crashed;
use thermocline_lsm::{
    LocalTables, Span, Store, Summary, TableId, TableSink, TableSource, TableStore, check_with,
};

use conformance::Fixture;

const PLACES: u32 = 3;

pub(crate) struct ScatteredFixture;

impl Fixture for ScatteredFixture {
    fn name(&self) -> &'static str {
        "lsm-scattered"
    }

    fn flushes_keys_apart(&self) -> bool {
        true
    }

    fn open(&self, host: Host) -> Result<Arc<dyn Engine>> {
        let tables = tables(&host.device)?;
        Ok(Arc::new(Store::open_with(host, crashed(), tables)?))
    }

    fn check(&self, device: &Arc<dyn Device>) -> Result<()> {
        let tables = tables(device)?;
        match check_with(device, &tables)?.damage.into_iter().next() {
            Some(damage) => Err(Error::Corruption(damage)),
            None => Ok(()),
        }
    }
}

/// The tables of the store in a directory. Those of a copy are in local files.
fn tables(device: &Arc<dyn Device>) -> Result<Arc<dyn TableStore>> {
    let is_copy = !device.exists(&dir(0))? && !device.list("")?.is_empty();
    if is_copy { Ok(LocalTables::on(Arc::clone(device))) } else { ScatteredTables::on(device) }
}

#[derive(Debug)]
struct ScatteredTables {
    device: Arc<dyn Device>,
}

/// The directory of a place.
fn dir(place: u32) -> String {
    format!("place-{place}")
}

/// Returns the place of a fragment.
fn piece(number: u64, fragment: u32) -> String {
    let place = (number + u64::from(fragment)) % u64::from(PLACES);
    format!("{}/{number}.{fragment}", dir(place as u32))
}

fn metadata(number: u64) -> String {
    format!("{}/{number}.metadata", dir((number % u64::from(PLACES)) as u32))
}

impl ScatteredTables {
    fn on(device: &Arc<dyn Device>) -> Result<Arc<dyn TableStore>> {
        for place in 0..PLACES {
            device.create_dir(&dir(place))?;
        }
        device.sync_dir("")?;
        Ok(Arc::new(Self { device: Arc::clone(device) }))
    }

    /// The names of all files, and the tables that they are of.
    fn names(&self) -> Result<Vec<(u64, String)>> {
        let mut names = Vec::new();
        for place in 0..PLACES {
            for entry in self.device.list(&dir(place))? {
                let number = entry.name.split('.').next().and_then(|number| number.parse().ok());
                names.extend(
                    number.map(|number| (number, format!("{}/{}", dir(place), entry.name))),
                );
            }
        }
        Ok(names)
    }
}

impl TableStore for ScatteredTables {
    fn fragments_max(&self) -> u32 {
        PLACES
    }

    fn create(&self, id: TableId, _buffer_bytes: usize) -> Result<Box<dyn TableSink>> {
        let device = Arc::clone(&self.device);
        Ok(Box::new(Sink { device, number: id.number, fragments: Vec::new(), bytes: 0 }))
    }

    fn open(&self, summary: &Summary) -> Result<Arc<dyn TableSource>> {
        let number = summary.id().number;
        let fragments = (0..).zip(summary.fragments()).map(|(fragment, bytes)| {
            let name = piece(number, fragment);
            opened(&self.device, &name, Some(*bytes))
        });
        let fragments = fragments.collect::<Result<Vec<_>>>()?;
        let metadata = opened(&self.device, &metadata(number), None)?;
        let bytes = fragments.iter().chain([&metadata]).map(|file| Ok(file.len()?));
        if bytes.sum::<Result<u64>>()? != summary.stored_bytes() {
            let what = "a table is not as long as the manifest says";
            return Err(Corruption::new(what, 0).at(&self::metadata(number), 0).into());
        }
        let metadata_bytes = metadata.len()? as usize;
        Ok(Arc::new(Source { number, fragments, metadata, metadata_bytes }))
    }

    fn remove(&self, number: u64) -> Result<()> {
        for (_, name) in self.names()?.into_iter().filter(|(of, _)| *of == number) {
            self.device.remove(&name)?;
        }
        Ok(())
    }

    fn close(&self) {}

    fn list(&self) -> Result<Vec<u64>> {
        let mut numbers: Vec<u64> = self.names()?.into_iter().map(|(number, _)| number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        Ok(numbers)
    }

    fn sync_names(&self) -> Result<()> {
        (0..PLACES).try_for_each(|place| Ok(self.device.sync_dir(&dir(place))?))
    }
}

fn opened(device: &Arc<dyn Device>, name: &str, bytes: Option<u64>) -> Result<Arc<dyn File>> {
    let wrong = |what: &str| Error::from(Corruption::new(what, 0).at(name, 0));
    let file = match device.open(name, Mode::Read) {
        Err(device::Error::NotFound { .. }) => return Err(wrong("a piece of a table is missing")),
        file => file?,
    };
    let len = file.len()?;
    match bytes.is_none_or(|bytes| bytes == len) {
        true => Ok(file),
        false => Err(wrong("a piece of a table has another length")),
    }
}

struct Sink {
    device: Arc<dyn Device>,
    number: u64,
    fragments: Vec<(Arc<dyn File>, u64)>,
    bytes: u64,
}

impl TableSink for Sink {
    fn append(&mut self, fragment: u32, bytes: &[u8]) -> Result<()> {
        if self.fragments.len() == fragment as usize {
            let name = piece(self.number, fragment);
            self.fragments.push((self.device.open(&name, Mode::CreateNew)?, 0));
        }
        let (file, written) = self.fragments.last_mut().expect("one was made");
        file.write_at(*written, bytes)?;
        *written += bytes.len() as u64;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn finish(self: Box<Self>, metadata: &[u8]) -> Result<u64> {
        for (file, _) in &self.fragments {
            file.sync(SyncKind::All)?;
        }
        let file = self.device.open(&self::metadata(self.number), Mode::CreateNew)?;
        file.write_at(0, metadata)?;
        file.sync(SyncKind::All)?;
        Ok(self.bytes + metadata.len() as u64)
    }

    fn memory(&self) -> usize {
        0
    }
}

#[derive(Debug)]
struct Source {
    number: u64,
    fragments: Vec<Arc<dyn File>>,
    metadata: Arc<dyn File>,
    metadata_bytes: usize,
}

impl TableSource for Source {
    fn read(&self, fragment: u32, offset: u64, into: &mut [u8]) -> Result<()> {
        Ok(self.fragments[fragment as usize].read_at(offset, into)?)
    }

    fn span(&self, fragment: u32, offset: u64, len: usize) -> Result<Span> {
        let file = Arc::clone(&self.fragments[fragment as usize]);
        Ok(Span { file, offset, read_len: len, skipped: 0, len })
    }

    fn span_of_metadata(&self) -> Result<Span> {
        let (file, len) = (Arc::clone(&self.metadata), self.metadata_bytes);
        Ok(Span { file, offset: 0, read_len: len, skipped: 0, len })
    }

    fn metadata(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.metadata_bytes];
        self.metadata.read_at(0, &mut bytes)?;
        Ok(bytes)
    }

    fn place_of(&self, fragment: u32, offset: u64) -> (String, u64) {
        (piece(self.number, fragment), offset)
    }

    fn place_of_metadata(&self) -> (String, u64) {
        (metadata(self.number), 0)
    }

    fn check(&self) -> Result<()> {
        Ok(())
    }
}
