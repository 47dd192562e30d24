//! The frame of all records: a version in front, and a checksum behind.

use codec::{Corruption, Reader, Writer, crc32c};

/// The version of all records.
const VERSION: u8 = 1;

/// Encodes a record, whose fields `write` appends.
pub(crate) fn encode(write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    write(&mut Writer::new(&mut bytes));
    let checksum = crc32c(&bytes);
    Writer::new(&mut bytes).put_u32(checksum);
    bytes
}

/// Decodes a record, whose fields `read` takes.
pub(crate) fn decode<T>(
    bytes: &[u8],
    read: impl FnOnce(&mut Reader<'_>) -> Result<T, Corruption>,
) -> Result<T, Corruption> {
    let mut fields = Reader::new(bytes);
    let version = fields.take_u8()?;
    if version != VERSION {
        return Err(fields.corruption(format!("records have version {VERSION}, not {version}")));
    }
    let record = read(&mut fields)?;
    let computed = crc32c(fields.taken());
    if fields.take_u32()? != computed {
        return Err(fields.corruption("the checksum of the record is wrong"));
    }
    fields.finish()?;
    Ok(record)
}
