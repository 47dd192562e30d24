//! Reads all sound content of a store, damaged or not, as writes that rebuild it; nothing is
//! changed.
//!
//! The index is salvaged, and each handle is resolved: to the record where it was appended, or
//! where a job has moved it. A value that cannot be read is lost, and its key is named. Without an
//! index the newest sound record of each key is taken, and pairs that only the index had are lost.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

use codec::{Corruption, SeqNo};
use device::Device;
use engine::{Error, LostKeys, Op, Result, SalvageSink, Salvaged, as_damage};

use crate::INDEX_DIR;
use crate::examine::read_records;
use crate::index_value::{Handle, IndexValue};
use crate::key_hash::KeyHash;
use crate::key_index::of_index;
use crate::open::{check_index, has_index};
use crate::segment::footer::Entry;
use crate::segment::record::Kind;
use crate::segment_table::{All, Edit, Geometry, State};
use crate::volumes::{Volumes, file_name};

/// Passes on the newest sound version of each key of the store on `device`, in the order of keys.
/// Reads each value by itself.
///
/// # Errors
/// The storage's. Damage is in the result.
pub fn salvage(device: &Arc<dyn Device>, take: &mut SalvageSink<'_>) -> Result<Salvaged> {
    let mut salvaged = Salvaged::default();
    let contents = salvaged.sound(edits::read::<Edit>(&**device), || None)?;
    let mut all = All::default();
    if let Some(Some((_, contents))) = contents {
        let applied = edits::Edit::apply(contents.edit, &mut all);
        salvaged.sound(applied.map_err(|it| it.at(edits::SUPERBLOCK, 0).into()), || None)?;
    }
    let geometry = all.geometry;
    let volumes = geometry.map(|it| Volumes::to_read(Arc::clone(device), it.segment_bytes));
    if let Some(volumes) = &volumes {
        for segment in all.segments.values() {
            salvaged.sound(volumes.claim(segment.place), || None)?;
        }
    }
    salvaged.sound(check_index(&**device, &all), || None)?;
    let mut values = Sound { all, volumes, geometry, moved: HashMap::new() };
    if is_index_lost(&**device)? {
        return salvage_records(&values, salvaged, take);
    }
    values.note_moved()?;
    let mut failure = None;
    let index = device.subdevice(INDEX_DIR)?;
    let mut lost = Salvaged::default();
    let found = lsm::salvage(&index, &mut |op| {
        let (key, Some(value)) = (op.key(), op.value()) else { return ControlFlow::Continue(()) };
        let keys = || Some(LostKeys { from: key.to_vec(), to: Some(key.to_vec()) });
        match lost.sound(values.resolve(key, value), keys) {
            Ok(Some(value)) => take(Op::Put { key, value: &value }),
            Ok(None) => ControlFlow::Continue(()),
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        }
    });
    let found = found.map_err(of_index)?;
    if let Some(failure) = failure {
        return Err(failure);
    }
    salvaged.persisted = found.persisted;
    salvaged.may_be_outdated |= found.may_be_outdated;
    salvaged.further_lost += found.further_lost + lost.further_lost;
    let of_index = found.lost.into_iter().map(|lost| (lost.damage.in_dir(INDEX_DIR), lost.keys));
    let of_values = lost.lost.into_iter().map(|lost| (lost.damage, lost.keys));
    of_index.chain(of_values).for_each(|(damage, keys)| salvaged.lose(damage, keys));
    Ok(salvaged)
}

/// The beginning of the names of the index's tables.
const TABLE_PREFIX: &str = "table-";

/// Returns whether the index has neither its superblock nor a table.
fn is_index_lost(device: &dyn Device) -> Result<bool> {
    if !device.exists(INDEX_DIR)? {
        return Ok(true);
    }
    let tables = device.list(INDEX_DIR)?;
    Ok(!has_index(device)? && !tables.iter().any(|entry| entry.name.starts_with(TABLE_PREFIX)))
}

/// Passes on the newest sound record of each key, in the order of keys. Takes memory for each key.
fn salvage_records(
    values: &Sound,
    mut salvaged: Salvaged,
    take: &mut SalvageSink<'_>,
) -> Result<Salvaged> {
    salvaged.may_be_outdated = true;
    let (Some(volumes), Some(geometry)) = (&values.volumes, values.geometry) else {
        return Ok(salvaged);
    };
    let mut newest: BTreeMap<Vec<u8>, (u64, Entry)> = BTreeMap::new();
    for described in values.all.segments.values() {
        let read = read_records(volumes, &geometry, described);
        let Some(records) = salvaged.sound(read, || None)? else { continue };
        let base = volumes.offset(described.place);
        if let Some(damage) = records.damage {
            let damage = damage.at(&file_name(described.place.volume), base);
            salvaged.sound::<()>(Err(damage.into()), || None)?;
        }
        for (entry, key) in records.all {
            let known = newest.get(&key).map(|(_, known)| known.number);
            if known.is_none_or(|known| known < entry.number) {
                newest.insert(key, (described.number, entry));
            }
        }
    }
    for (key, (segment, entry)) in newest {
        let Entry { number, offset, bytes, kind, .. } = entry;
        let handle = Handle { segment, offset, bytes, number };
        // A tombstone has no pair, and that of an inline marker was in the index.
        if kind != Kind::Value {
            continue;
        }
        let keys = || Some(LostKeys { from: key.clone(), to: Some(key.clone()) });
        let read = values.read(&key, handle).map_err(as_damage);
        let Some(value) = salvaged.sound(read, keys)? else { continue };
        if take(Op::Put { key: &key, value: &value }).is_break() {
            break;
        }
    }
    Ok(salvaged)
}

/// The values of a store that is not open.
struct Sound {
    all: All,
    volumes: Option<Volumes>,
    geometry: Option<Geometry>,
    /// The places of the records that jobs have moved: segment and offset.
    moved: HashMap<(KeyHash, SeqNo), (u64, u32)>,
}

impl Sound {
    /// Notes the sound records of base segments.
    fn note_moved(&mut self) -> Result<()> {
        let (Some(volumes), Some(geometry)) = (&self.volumes, self.geometry) else { return Ok(()) };
        for described in self.all.segments.values() {
            let State::Sealed { is_base: true, .. } = described.state else { continue };
            let records = match read_records(volumes, &geometry, described).map_err(as_damage) {
                // Its records are lost with their keys.
                Err(Error::Corruption(_)) => continue,
                read => read?,
            };
            for (entry, _) in records.all {
                let place = (described.number, entry.offset);
                self.moved.insert((entry.hash, entry.number), place);
            }
        }
        Ok(())
    }

    /// Returns the handle of a record where it is now.
    fn place_of(&self, key: &[u8], handle: Handle) -> Handle {
        let Some(geometry) = self.geometry else { return handle };
        if self.all.segments.contains_key(&handle.segment) {
            return handle;
        }
        let moved = self.moved.get(&(geometry.secret.hash(key), handle.number));
        moved.map_or(handle, |(segment, offset)| Handle {
            segment: *segment,
            offset: *offset,
            ..handle
        })
    }

    /// Returns the value of an index value.
    fn resolve(&self, key: &[u8], value: &[u8]) -> Result<Vec<u8>> {
        let value = IndexValue::decode(value);
        match value.map_err(|damage| Error::from(damage.at(INDEX_DIR, 0)))? {
            IndexValue::Inline(value) => Ok(value.to_vec()),
            IndexValue::Handle(handle) => {
                self.read(key, self.place_of(key, handle)).map_err(as_damage)
            }
        }
    }

    fn read(&self, key: &[u8], handle: Handle) -> Result<Vec<u8>> {
        let segment = self.all.segments.get(&handle.segment);
        let (Some(segment), Some(volumes), Some(geometry)) =
            (segment, &self.volumes, self.geometry)
        else {
            let what = format!("segment {} is missing", handle.segment);
            return Err(Corruption::new(what, 0).at(edits::SUPERBLOCK, 0).into());
        };
        let offset = u64::from(handle.offset);
        let damaged = |what: &str| {
            let base = volumes.offset(segment.place);
            Error::from(Corruption::new(what, offset).at(&file_name(segment.place.volume), base))
        };
        let end = handle.offset as usize + handle.bytes as usize;
        if end > segment.place.count as usize * geometry.segment_bytes as usize {
            return Err(damaged("a handle is longer than its segment"));
        }
        let bytes = volumes.read(segment.place, offset, handle.bytes as usize)?;
        let record = handle.record_in(&bytes, geometry.store, key);
        Ok(record.map_err(|damage| damaged(&damage.what))?.value.to_vec())
    }
}
