//! Patterns match the same texts as Redis's, and hostile ones end soon.

use proptest::prelude::*;

use super::{literal_prefix, matches};

#[test]
fn patterns() {
    for (pattern, text, want) in [
        ("*", "", true),
        ("", "", true),
        ("", "a", false),
        ("h?llo", "hello", true),
        ("h?llo", "hllo", false),
        ("h*llo", "heeeello", true),
        ("h[ae]llo", "hallo", true),
        ("h[ae]llo", "hillo", false),
        ("h[^e]llo", "hallo", true),
        ("h[^e]llo", "hello", false),
        ("h[a-c]llo", "hbllo", true),
        ("h[c-a]llo", "hbllo", true),
        ("h[a-c]llo", "hdllo", false),
        ("\\*", "*", true),
        ("\\*", "a", false),
        ("a\\", "a\\", true),
        ("[\\]]", "]", true),
        ("[abc", "b", true),
        ("*a*b*c*", "xxaxxbxxcxx", true),
        ("*a*b*c*", "xxaxxcxxbxx", false),
        ("a**b", "ab", true),
        ("user:*:name", "user:12:name", true),
        ("user:*:name", "user:12:names", false),
    ] {
        assert_eq!(matches(pattern.as_bytes(), text.as_bytes(), false), want, "{pattern} {text}");
    }
    assert!(matches(b"MaxMem*", b"maxmemory", true));
    assert!(matches(b"[A-C]x", b"bX", true));
    assert_eq!(literal_prefix(b"user:*"), b"user:");
    assert_eq!(literal_prefix(b"plain"), b"plain");
}

/// The definition, by plain, exponential recursion.
fn naive(pattern: &[u8], text: &[u8]) -> bool {
    match pattern {
        [] => text.is_empty(),
        [b'*', rest @ ..] => (0..=text.len()).any(|skip| naive(rest, &text[skip..])),
        _ => match text {
            [] => false,
            [byte, tail @ ..] => super::one(pattern, 0, *byte, false)
                .is_some_and(|next| naive(&pattern[next..], tail)),
        },
    }
}

proptest! {
    #[test]
    fn linear_matching_equals_the_definition(
        pattern in "[ab*?]{0,8}|([ab*?]|\\[ab?\\]|\\[\\^a\\]){0,6}", text in "[ab]{0,12}"
    ) {
        let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
        prop_assert_eq!(matches(pattern, text, false), naive(pattern, text));
    }
}

#[test]
fn stars_without_end_do_not_explode() {
    let pattern = "a*".repeat(500) + "b";
    let text = "a".repeat(20_000);
    assert!(!matches(pattern.as_bytes(), text.as_bytes(), false));
}
