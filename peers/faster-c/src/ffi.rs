//! Declarations of `shim/shim.cc`.

use std::ffi::c_char;

#[repr(C)]
pub(crate) struct shim_store {
    _private: [u8; 0],
}

/// The memory that an operation reads or exchanges.
#[repr(C)]
pub(crate) struct shim_slot {
    pub(crate) value: *mut u8,
    pub(crate) length: u32,
    pub(crate) status: u32,
    pub(crate) done: u32,
}

#[rustfmt::skip]
unsafe extern "C" {
    pub(crate) fn shim_open(table_size: u64, log_bytes: u64, mutable_share: f64, dir: *const c_char) -> *mut shim_store;
    pub(crate) fn shim_close(store: *mut shim_store);
    pub(crate) fn shim_start(store: *mut shim_store);
    pub(crate) fn shim_stop(store: *mut shim_store);
    pub(crate) fn shim_refresh(store: *mut shim_store);
    pub(crate) fn shim_complete(store: *mut shim_store, all: bool);
    pub(crate) fn shim_read(store: *mut shim_store, key: u64, slot: *mut shim_slot, serial: u64) -> u32;
    pub(crate) fn shim_upsert(store: *mut shim_store, key: u64, bytes: *const u8, length: u32, slot: *mut shim_slot, serial: u64) -> u32;
    pub(crate) fn shim_exchange(store: *mut shim_store, key: u64, bytes: *const u8, length: u32, slot: *mut shim_slot, serial: u64) -> u32;
    pub(crate) fn shim_delete(store: *mut shim_store, key: u64, slot: *mut shim_slot, serial: u64) -> u32;
}
