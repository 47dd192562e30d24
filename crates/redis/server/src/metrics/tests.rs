//! Tests that requests for the metrics page are distinguished.

use super::{Request, parse};

#[test]
fn requests_are_told_apart() {
    for (head, want) in [
        ("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", Some(Request::Metrics)),
        ("GET /metrics?name=a HTTP/1.0\r\n\r\n", Some(Request::Metrics)),
        ("GET / HTTP/1.1\r\n\r\n", Some(Request::Other)),
        ("POST /metrics HTTP/1.1\r\n\r\n", Some(Request::WrongMethod)),
        ("GET /metrics HTTP/1.1\r\nHost: x\r\n", None),
        ("*1\r\n$4\r\nPING\r\n", Some(Request::Malformed)),
        ("", None),
    ] {
        assert_eq!(parse(head.as_bytes()), want, "{head:?}");
    }
}
