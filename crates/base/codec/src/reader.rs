//! Takes fields off the front of untrusted bytes.

use crate::{Corruption, varint};

/// A cursor over bytes from a disk or a wire. Each `take` returns the next field or a
/// [`Corruption`] with the field's offset, and never panics; after an error nothing was taken.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    /// Starts at the first of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    /// How many bytes have been taken: the offset of the next field.
    pub const fn position(&self) -> usize {
        self.position
    }

    /// The bytes that have been taken, to compute a checksum over them.
    pub fn taken(&self) -> &'a [u8] {
        self.bytes.get(..self.position).unwrap_or_default()
    }

    /// The bytes that are left; they stay.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.position..).unwrap_or_default()
    }

    /// How many bytes are left.
    pub const fn remaining(&self) -> usize {
        self.bytes.len() - self.position
    }

    /// Whether nothing is left.
    pub const fn is_empty(&self) -> bool {
        self.remaining() == 0
    }

    /// The damage `what` at the next field.
    pub fn corruption(&self, what: impl Into<String>) -> Corruption {
        Corruption::new(what, self.position as u64)
    }

    /// The next byte.
    ///
    /// # Errors
    /// Nothing is left.
    pub fn take_u8(&mut self) -> Result<u8, Corruption> {
        let [byte] = self.take_array()?;
        Ok(byte)
    }

    /// The next two bytes, little-endian.
    ///
    /// # Errors
    /// Fewer are left.
    pub fn take_u16(&mut self) -> Result<u16, Corruption> {
        self.take_array().map(u16::from_le_bytes)
    }

    /// The next four bytes, little-endian.
    ///
    /// # Errors
    /// Fewer are left.
    pub fn take_u32(&mut self) -> Result<u32, Corruption> {
        self.take_array().map(u32::from_le_bytes)
    }

    /// The next eight bytes, little-endian.
    ///
    /// # Errors
    /// Fewer are left.
    pub fn take_u64(&mut self) -> Result<u64, Corruption> {
        self.take_array().map(u64::from_le_bytes)
    }

    /// The next varint, if it fits 32 bits.
    ///
    /// # Errors
    /// It is cut short, larger, or longer than it need be.
    pub fn take_varint_u32(&mut self) -> Result<u32, Corruption> {
        let value = self.take_varint(u32::BITS)?;
        u32::try_from(value).map_err(|_| self.corruption("a varint is above 32 bits"))
    }

    /// The next varint, if it fits 64 bits.
    ///
    /// # Errors
    /// It is cut short, larger, or longer than it need be.
    pub fn take_varint_u64(&mut self) -> Result<u64, Corruption> {
        self.take_varint(u64::BITS)
    }

    fn take_varint(&mut self, bits: u32) -> Result<u64, Corruption> {
        let rest = self.rest();
        if let Some(&byte) = rest.first().filter(|byte| **byte < 0x80) {
            self.position += 1;
            return Ok(u64::from(byte));
        }
        let (value, len) = varint::take(rest, bits, self.position as u64)?;
        self.position += len;
        Ok(value)
    }

    /// The next `len` bytes, borrowed: a declared length allocates nothing.
    ///
    /// # Errors
    /// Fewer are left.
    pub fn take_bytes(&mut self, len: usize) -> Result<&'a [u8], Corruption> {
        let Some((field, _)) = self.rest().split_at_checked(len) else {
            return Err(self.cut_short(len));
        };
        self.position += len;
        Ok(field)
    }

    /// The next `N` bytes.
    ///
    /// # Errors
    /// Fewer are left.
    pub fn take_array<const N: usize>(&mut self) -> Result<[u8; N], Corruption> {
        let Some((field, _)) = self.rest().split_first_chunk::<N>() else {
            return Err(self.cut_short(N));
        };
        self.position += N;
        Ok(*field)
    }

    /// A varint length and that many bytes, as [`crate::Writer::put_prefixed`] wrote them.
    ///
    /// # Errors
    /// The length is no valid varint, or fewer bytes are left.
    pub fn take_prefixed(&mut self) -> Result<&'a [u8], Corruption> {
        let start = self.position;
        let len = self.take_varint_u64()?;
        let field = usize::try_from(len)
            .map_err(|_| self.corruption("a length is above this machine's memory"))
            .and_then(|len| self.take_bytes(len));
        if field.is_err() {
            self.position = start;
        }
        field
    }

    /// Takes a flag of one byte.
    ///
    /// # Errors
    /// The byte is neither 0 nor 1, or nothing is left.
    pub fn take_flag(&mut self) -> Result<bool, Corruption> {
        match self.rest().first() {
            Some(byte @ 2..) => Err(self.corruption(format!("a flag is {byte}"))),
            _ => self.take_u8().map(|byte| byte == 1),
        }
    }

    /// Takes a text: a varint length, and that many bytes of UTF-8.
    ///
    /// # Errors
    /// The length is no valid varint, fewer bytes are left, or they are not UTF-8.
    pub fn take_text(&mut self) -> Result<String, Corruption> {
        let start = self.position;
        let bytes = self.take_prefixed()?;
        std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| {
            self.position = start;
            self.corruption("a text is not UTF-8")
        })
    }

    /// A varint count of items that take at least `item_bytes_min` bytes each, so that a caller may
    /// reserve room for them: a count that the bytes left cannot hold is refused.
    ///
    /// # Errors
    /// The count is no valid varint, or more items than could be there.
    ///
    /// # Panics
    /// If `item_bytes_min` is 0, which would bound nothing.
    pub fn take_count(&mut self, item_bytes_min: usize) -> Result<usize, Corruption> {
        assert!(item_bytes_min > 0, "an item takes at least one byte");
        let start = self.position;
        let declared = self.take_varint_u64()?;
        let room = self.remaining() / item_bytes_min;
        match usize::try_from(declared) {
            Ok(count) if count <= room => Ok(count),
            _ => {
                self.position = start;
                Err(self.corruption(format!("{declared} items are declared, {room} could be here")))
            }
        }
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// Something is left.
    pub fn finish(self) -> Result<(), Corruption> {
        match self.remaining() {
            0 => Ok(()),
            left => Err(self.corruption(format!("{left} bytes follow the last field"))),
        }
    }

    #[cold]
    fn cut_short(&self, wanted: usize) -> Corruption {
        self.corruption(format!("{wanted} bytes are wanted, {} are left", self.remaining()))
    }
}
