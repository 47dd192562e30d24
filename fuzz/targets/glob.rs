//! Fuzzes the matching of KEYS and SCAN patterns: it ends, and plain patterns match themselves.
#![no_main]

use libfuzzer_sys::fuzz_target;
use server::glob_matches;

fuzz_target!(|input: (&[u8], &[u8])| {
    let (pattern, text) = input;
    let matched = glob_matches(pattern, text);
    if !pattern.iter().any(|byte| b"*?[]\\".contains(byte)) {
        assert_eq!(matched, pattern == text);
    }
    let around = [b"*", pattern, b"*"].concat();
    // A text that matches also matches between two stars; but a trailing backslash takes the star.
    if matched && pattern.last() != Some(&b'\\') && !pattern.contains(&b'[') {
        assert!(glob_matches(&around, text), "{around:?}");
    }
});
