//! How many heaps the system's allocator keeps, and how much of what was freed.
#![cfg_attr(
    all(target_os = "linux", target_env = "gnu"),
    expect(unsafe_code, reason = "the allocator's settings are behind a C function")
)]

/// Heaps of the process: two threads that allocate at the same moment do not wait for each other.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const HEAPS: i32 = 2;

/// Longer pieces are the system's own, given back when they are freed. Left alone the allocator raises this to the
/// longest piece that was ever freed, up to 32 MiB, and keeps pieces below it.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const OWN_PIECE_BYTES: i32 = 128 << 10;

/// Lets all threads of the process share two heaps, where the system's allocator (that of glibc) would
/// give many of them one of their own. What is freed stays with its heap, so that work that goes from
/// thread to thread leaves as much memory behind in each: memory that no budget knows of. And long pieces are
/// given back to the system at once. For programs, which call it before they start a thread; a library leaves it
/// to its program.
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

/// Has the system's allocator (that of glibc) give back what was freed, where whole pages of it are free;
/// by itself it keeps all that lies before a piece which is in use. For whoever has just freed much at
/// once: it looks at each larger free piece, and whoever allocates waits meanwhile.
pub fn give_back_heaps() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: takes the number of bytes to leave at the end of a heap, and knows no wrong one.
    unsafe {
        libc::malloc_trim(0);
    }
}
