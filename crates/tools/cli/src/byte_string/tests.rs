//! Shown text can be given as an argument, and text that makes no sense is refused.

use super::Encoding;

#[test]
fn every_byte_comes_back() {
    let bytes: Vec<u8> = (0..=255).chain(*b"\\x41 plain").collect();
    for encoding in [Encoding::Escaped, Encoding::Hex] {
        let text = encoding.show(&bytes);
        assert!(text.is_ascii() && !text.contains('\n'), "one line of ASCII");
        assert_eq!(encoding.parse(&text).unwrap(), bytes, "{encoding:?}");
    }
}

#[test]
fn text_beyond_ascii_stands_for_its_utf8_bytes() {
    assert_eq!(Encoding::Escaped.parse("Grüße").unwrap(), "Grüße".as_bytes());
    assert_eq!(Encoding::Escaped.show("ü".as_bytes()), "\\xc3\\xbc");
}

#[test]
fn what_makes_no_sense_is_refused_with_what_is_allowed() {
    for text in ["\\", "\\q", "\\x", "\\x4", "\\xg0", "\\x+1", "\\xü"] {
        assert!(Encoding::Escaped.parse(text).is_err(), "{text}");
    }
    for text in ["4", "4g", "+1", "ü"] {
        let error = Encoding::Hex.parse(text).unwrap_err();
        assert!(error.contains("digits"), "{error}");
    }
}
