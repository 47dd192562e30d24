//! Appends fields to bytes, as [`crate::Reader`] takes them.

use crate::varint;

/// Appends fields to a vector. The vector grows as it must; nothing else can go wrong.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> Writer<'a> {
    /// Appends to `out`, after what it holds already.
    pub const fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out }
    }

    /// Appends one byte.
    pub fn put_u8(&mut self, value: u8) {
        self.out.push(value);
    }

    /// Appends two bytes, little-endian.
    pub fn put_u16(&mut self, value: u16) {
        self.put_bytes(&value.to_le_bytes());
    }

    /// Appends four bytes, little-endian.
    pub fn put_u32(&mut self, value: u32) {
        self.put_bytes(&value.to_le_bytes());
    }

    /// Appends eight bytes, little-endian.
    pub fn put_u64(&mut self, value: u64) {
        self.put_bytes(&value.to_le_bytes());
    }

    /// Appends a varint; [`crate::varint_len`] returns how many bytes that takes.
    pub fn put_varint(&mut self, value: u64) {
        varint::put(self.out, value);
    }

    /// Appends bytes unchanged.
    pub fn put_bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Appends the length of `bytes` as a varint, and `bytes`.
    pub fn put_prefixed(&mut self, bytes: &[u8]) {
        self.put_varint(bytes.len() as u64);
        self.put_bytes(bytes);
    }
}
