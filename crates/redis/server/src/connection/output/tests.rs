//! Broken promises become errors, in order, and nothing else changes.

use super::Output;

#[test]
fn broken_promises_become_errors_in_their_place() {
    let mut output = Output::default();
    for (reply, is_promise) in
        [("+OK\r\n", true), ("$1\r\na\r\n", false), (":1\r\n", true), ("+PONG\r\n", false)]
    {
        let begin = output.bytes.len();
        output.bytes.extend_from_slice(reply.as_bytes());
        if is_promise {
            output.promise(begin);
        }
    }
    output.break_promises("MISCONF gone");
    let want = "-MISCONF gone\r\n$1\r\na\r\n-MISCONF gone\r\n+PONG\r\n";
    assert_eq!(String::from_utf8_lossy(&output.bytes), want);
    output.break_promises("MISCONF again");
    assert_eq!(String::from_utf8_lossy(&output.bytes), want);
}
