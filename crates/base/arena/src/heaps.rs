//! Limits of the system's allocator: the number of its heaps, and the freed memory that it keeps.
#![cfg_attr(
    all(target_os = "linux", target_env = "gnu"),
    expect(unsafe_code, reason = "the allocator's settings are behind a C function")
)]

/// Heaps of the process: two threads that allocate at the same moment do not wait for each other.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const HEAPS: i32 = 2;

/// Longer pieces are the system's own, returned to it when they are freed. Left alone the allocator
/// raises this to the longest piece that was ever freed, up to 32 MiB, and keeps pieces below it.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const OWN_PIECE_BYTES: i32 = 128 << 10;

/// Lets all threads of the process share two heaps; by default the system's allocator (that of
/// glibc) would give many of them one of their own. Freed memory stays with its heap, so work that
/// moves from thread to thread leaves an equal amount of memory behind in each heap: memory that no
/// budget knows of. Long pieces are returned to the system immediately. For programs, which call it
/// before they start a thread; a library leaves it to its program.
pub fn bound_heaps() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    for (setting, number) in [(libc::M_ARENA_MAX, HEAPS), (libc::M_MMAP_THRESHOLD, OWN_PIECE_BYTES)]
    {
        // SAFETY: takes two numbers; one that it does not know is refused, which changes nothing.
        unsafe {
            libc::mallopt(setting, number);
        }
    }
}

/// Makes the system's allocator (that of glibc) return freed memory where whole pages of it are
/// free; by itself it keeps all memory below a piece which is in use. A caller uses it after it has
/// freed much memory in one step: it looks at each larger free piece, and other threads that
/// allocate wait meanwhile.
pub fn trim_heaps() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: takes the number of bytes to leave at the end of a heap, and knows no wrong one.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Bytes of a head that the system's allocator puts before each piece, the unit of lengths, the
/// shortest piece.
const HEAD_BYTES: usize = 8;
const UNIT_BYTES: usize = 16;
const PIECE_BYTES_MIN: usize = 32;

/// Returns the bytes of memory that the system's allocator (that of glibc) takes for a piece of
/// `len` bytes.
#[inline]
pub const fn allocated_bytes(len: usize) -> usize {
    if len == 0 {
        return 0;
    }
    let bytes = (len + HEAD_BYTES).next_multiple_of(UNIT_BYTES);
    if bytes < PIECE_BYTES_MIN { PIECE_BYTES_MIN } else { bytes }
}

/// Returns the bytes of the process that are in memory, and none if the system does not say. Costs
/// a read of a file that the kernel makes up, some microseconds.
pub fn resident_bytes() -> Option<u64> {
    #[expect(clippy::disallowed_methods, reason = "a figure of the system about this process")]
    let read = std::fs::read("/proc/self/statm").ok()?;
    let pages: u64 = std::str::from_utf8(&read).ok()?.split(' ').nth(1)?.parse().ok()?;
    Some(pages * PAGE_BYTES)
}

/// Bytes of a page of the system, as every machine has them that this is built for.
const PAGE_BYTES: u64 = 4096;
