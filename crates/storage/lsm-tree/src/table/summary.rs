//! A table's identity and properties, known without opening it.
//!
//! An *ingested* table was written before its write had a number. All its entries are stored under
//! one number, which represents the number that the manifest has for the table. Each key is in it
//! once, so the order of its entries is the same by either number.

use codec::{Corruption, Place, Reader, SeqNo, Writer};

/// The number that an ingested table has in place of a version's number.
pub const UNNUMBERED: SeqNo = SeqNo::new(1);

/// Which table: its number, unique in the store while it is there, and a nonce, so that blocks of
/// an older table of that number are never taken for its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableId {
    /// Unique among the tables that are there. After a crash, a table may be left whose number is
    /// used again.
    pub number: u64,
    /// Another one for each table that was ever begun.
    pub nonce: u64,
}

impl TableId {
    /// Returns the place of a block, for its checksum.
    pub fn place(self, fragment: u32, offset: u64) -> Place {
        let generation = self.nonce.wrapping_add(u64::from(fragment));
        Place { file: self.number, offset, generation }
    }

    /// Returns the place of the metadata, for their checksum.
    pub fn place_of_metadata(self) -> Place {
        Place { file: self.number, offset: u64::MAX, generation: self.nonce }
    }
}

/// The content of a table, in figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    /// The smallest key.
    pub smallest: Vec<u8>,
    /// The largest key.
    pub largest: Vec<u8>,
    /// Entries, tombstones included.
    pub entries: u64,
    /// Tombstones.
    pub tombstones: u64,
    /// Bytes of keys and values, before anything is shared or compressed.
    pub raw_bytes: u64,
    /// The least sequence number.
    pub oldest: SeqNo,
    /// The greatest sequence number.
    pub newest: SeqNo,
    /// No range delete up to this number hides any of it.
    pub swept: SeqNo,
    /// The id of the oldest memtable that it was written from. Level 0 is searched in the order of
    /// the ids.
    pub first_memtable: u64,
    /// The id of the newest of these memtables.
    pub last_memtable: u64,
    /// Bytes of each fragment of data.
    pub fragments: Vec<u64>,
}

/// A table as the manifest knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Which table it is.
    pub id: TableId,
    /// Bytes that the table takes on the device, all in all.
    pub stored_bytes: u64,
    /// The number of the write that ingested it, if one did: that of all of its entries.
    pub ingested: Option<SeqNo>,
    /// Its content, in figures.
    pub properties: Properties,
}

impl Properties {
    /// Appends their bytes.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.put_prefixed(&self.smallest);
        out.put_prefixed(&self.largest);
        for number in [
            self.entries,
            self.tombstones,
            self.raw_bytes,
            self.oldest.get(),
            self.newest.get(),
            self.swept.get(),
            self.first_memtable,
            self.last_memtable,
            self.fragments.len() as u64,
        ] {
            out.put_varint(number);
        }
        for bytes in &self.fragments {
            out.put_varint(*bytes);
        }
    }

    /// Reads their bytes.
    ///
    /// # Errors
    /// Bytes that no properties have.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, Corruption> {
        let smallest = reader.take_prefixed()?.to_vec();
        let largest = reader.take_prefixed()?.to_vec();
        let mut properties = Self {
            smallest,
            largest,
            entries: reader.take_varint_u64()?,
            tombstones: reader.take_varint_u64()?,
            raw_bytes: reader.take_varint_u64()?,
            oldest: SeqNo::new(reader.take_varint_u64()?),
            newest: SeqNo::new(reader.take_varint_u64()?),
            swept: SeqNo::new(reader.take_varint_u64()?),
            first_memtable: reader.take_varint_u64()?,
            last_memtable: reader.take_varint_u64()?,
            fragments: Vec::new(),
        };
        for _ in 0..reader.take_count(1)? {
            properties.fragments.push(reader.take_varint_u64()?);
        }
        if properties.smallest > properties.largest || properties.oldest > properties.newest {
            return Err(reader.corruption("a table's bounds are the wrong way round"));
        }
        Ok(properties)
    }
}

impl Summary {
    /// Returns the table's id.
    pub fn id(&self) -> TableId {
        self.id
    }

    /// Returns the bytes that the table takes on the device, as [`super::TableSink::finish`]
    /// returned them.
    pub fn stored_bytes(&self) -> u64 {
        self.stored_bytes
    }

    /// Returns the bytes of each fragment of its data.
    pub fn fragments(&self) -> &[u64] {
        &self.properties.fragments
    }

    /// Appends its bytes.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.put_u64(self.id.number);
        out.put_u64(self.id.nonce);
        out.put_varint(self.stored_bytes);
        out.put_varint(self.ingested.map_or(0, SeqNo::get));
        self.properties.encode(out);
    }

    /// Reads its bytes.
    ///
    /// # Errors
    /// Bytes that no summary has.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, Corruption> {
        let id = TableId { number: reader.take_u64()?, nonce: reader.take_u64()? };
        let stored_bytes = reader.take_varint_u64()?;
        let number = reader.take_varint_u64()?;
        let ingested = (number > 0).then_some(SeqNo::new(number));
        let properties = Properties::decode(reader)?;
        let own = (properties.oldest, properties.newest);
        if ingested.is_some_and(|number| own != (number, number)) {
            return Err(reader.corruption("an ingested table has versions of other writes"));
        }
        Ok(Self { id, stored_bytes, ingested, properties })
    }

    /// Returns the same table, ingested by write `seqno`, and as old as a memtable of this id. No
    /// range delete up to that write hides any of it.
    pub fn ingested_by(mut self, seqno: SeqNo, memtable: u64) -> Self {
        self.ingested = Some(seqno);
        let properties = &mut self.properties;
        (properties.oldest, properties.newest, properties.swept) = (seqno, seqno, seqno);
        (properties.first_memtable, properties.last_memtable) = (memtable, memtable);
        self
    }

    /// Returns the properties as the table itself has them.
    pub fn written(&self) -> Properties {
        let mut properties = self.properties.clone();
        if self.ingested.is_some() {
            (properties.oldest, properties.newest) = (UNNUMBERED, UNNUMBERED);
            properties.swept = SeqNo::ZERO;
            (properties.first_memtable, properties.last_memtable) = (0, 0);
        }
        properties
    }

    /// Returns whether some key may be in both.
    pub fn overlaps(&self, smallest: &[u8], largest: &[u8]) -> bool {
        self.properties.smallest.as_slice() <= largest
            && smallest <= self.properties.largest.as_slice()
    }
}
