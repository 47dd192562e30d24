//! Glob patterns as KEYS, SCAN and CONFIG GET take them, matched in linear time per star.
//!
//! `*` any bytes, `?` one byte, `[abc]` `[a-z]` `[^a]` one byte of a class, `\` before a byte takes
//! the byte literally. A mismatch goes back to the last star alone: the later star can make up for
//! every different match of an earlier one. So a match costs at most pattern times text, never an
//! exponential search.

/// Whether `text` matches `pattern`; with `fold_case`, letters match in either case.
pub(crate) fn matches(pattern: &[u8], text: &[u8], fold_case: bool) -> bool {
    let (mut p, mut t) = (0, 0);
    // The place to continue at if the present try fails: behind the last star, one byte of text
    // further.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            retry = Some((p + 1, t));
            p += 1;
            continue;
        }
        match text.get(t) {
            None if p >= pattern.len() => return true,
            // The text is used up and the pattern wants more: a longer star cannot help.
            None => return false,
            Some(&byte) => {
                if let Some(next) = one(pattern, p, byte, fold_case) {
                    p = next;
                    t += 1;
                    continue;
                }
            }
        }
        match retry {
            Some((after_star, from)) => {
                p = after_star;
                t = from + 1;
                retry = Some((after_star, t));
            }
            None => return false,
        }
    }
}

/// Matches one byte against the pattern's element at `p`. Returns the place of the next element, or
/// `None` if it does not match.
fn one(pattern: &[u8], p: usize, byte: u8, fold_case: bool) -> Option<usize> {
    let same = |a: u8, b: u8| a == b || fold_case && a.eq_ignore_ascii_case(&b);
    match *pattern.get(p)? {
        b'?' => Some(p + 1),
        b'[' => {
            let (found, next) = class(pattern, p + 1, byte, fold_case);
            found.then_some(next)
        }
        b'\\' if p + 1 < pattern.len() => same(*pattern.get(p + 1)?, byte).then_some(p + 2),
        literal => same(literal, byte).then_some(p + 1),
    }
}

/// Matches one byte against the class whose first byte is at `p`; a class that does not close
/// reaches to the pattern's end.
fn class(pattern: &[u8], mut p: usize, byte: u8, fold_case: bool) -> (bool, usize) {
    let fold = |byte: u8| if fold_case { byte.to_ascii_lowercase() } else { byte };
    let byte = fold(byte);
    let negated = pattern.get(p) == Some(&b'^');
    p += usize::from(negated);
    let mut found = false;
    loop {
        match pattern.get(p..).unwrap_or_default() {
            [] => return (found != negated, p),
            [b']', ..] => return (found != negated, p + 1),
            [b'\\', literal, ..] => {
                found |= fold(*literal) == byte;
                p += 2;
            }
            [low, b'-', high, ..] => {
                let (low, high) = (fold(*low.min(high)), fold(*low.max(high)));
                found |= (low..=high).contains(&byte);
                p += 3;
            }
            [literal, ..] => {
                found |= fold(*literal) == byte;
                p += 1;
            }
        }
    }
}

/// The bytes that every matching text begins with, so that a scan need not look elsewhere.
pub(crate) fn literal_prefix(pattern: &[u8]) -> &[u8] {
    let special = |byte: &u8| matches!(byte, b'*' | b'?' | b'[' | b'\\');
    let end = pattern.iter().position(special).unwrap_or(pattern.len());
    pattern.get(..end).unwrap_or_default()
}

/// [`matches`], for the fuzzer.
#[doc(hidden)]
pub fn glob_matches(pattern: &[u8], text: &[u8]) -> bool {
    matches(pattern, text, false)
}

#[cfg(test)]
mod tests;
