//! The order of byte strings: the first eight bytes are compared as a number, the rest only if
//! those are equal.

/// How many bytes of a key its head holds.
pub(crate) const HEAD_BYTES: usize = 8;

/// The first eight bytes of `suffix`, zeros behind a shorter one, as a number that sorts as they
/// do. Equal heads do not mean equal strings; different heads sort as the strings do.
pub(crate) fn head(suffix: &[u8]) -> u64 {
    if let Some(first) = suffix.first_chunk::<HEAD_BYTES>() {
        return u64::from_be_bytes(*first);
    }
    let mut padded = [0; HEAD_BYTES];
    padded[..suffix.len()].copy_from_slice(suffix);
    u64::from_be_bytes(padded)
}

/// Returns the part of `suffix` that its head does not hold.
pub(crate) fn tail(suffix: &[u8]) -> &[u8] {
    suffix.get(HEAD_BYTES..).unwrap_or_default()
}

/// How many bytes `a` and `b` begin with in common.
pub(crate) fn common_len(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

/// The shortest string above `below` and not above `above`, for `below < above`: enough to tell
/// the two apart.
pub(crate) fn separator<'a>(below: &[u8], above: &'a [u8]) -> &'a [u8] {
    debug_assert!(below < above);
    &above[..(common_len(below, above) + 1).min(above.len())]
}
