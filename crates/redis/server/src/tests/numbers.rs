//! Numbers at the ends of their ranges: the replies of redis-server 7.0.15 to the same commands.

use super::serve;

const NOT_INTEGER: &str = "-ERR value is not an integer or out of range";

fn check(script: &[(&str, &str)]) {
    let (_server, mut client) = serve();
    for (line, want) in script {
        assert_eq!(client.run(line), *want, "{line}");
    }
}

#[test]
fn numbers_in_arguments_at_the_ends_of_their_ranges() {
    let range = "-ERR value is out of range, value must between -2147483648 and 2147483647";
    let no_db = "-ERR DB index is out of range";
    check(&[
        ("SELECT 99999999999", range),
        ("SELECT 2147483648", range),
        ("SELECT 2147483647", no_db),
        ("SELECT -1", no_db),
        ("SELECT 1.5", NOT_INTEGER),
        ("COPY a b DB 99", no_db),
        ("COPY a b DB 99999999999", range),
        ("COPY a b DB x", NOT_INTEGER),
        ("HELLO 99999999999999999999", "-ERR Protocol version is not an integer or out of range"),
        ("HELLO -1", "-NOPROTO unsupported protocol version"),
        ("HELLO 03", "-ERR Protocol version is not an integer or out of range"),
        ("CLIENT KILL ID 0", "-ERR client-id should be greater than 0"),
        ("CLIENT KILL ID 99999999999999999999", "-ERR client-id should be greater than 0"),
        ("CLIENT LIST ID 99999999999999999999", "-ERR Invalid client ID"),
        ("CLIENT LIST ID 0", "\"\""),
        ("CLIENT LIST ID -1", "\"\""),
        ("SET g hello", "+OK"),
        ("MEMORY USAGE g SAMPLES 9223372036854775808", NOT_INTEGER),
        ("MEMORY USAGE g SAMPLES abc", NOT_INTEGER),
        ("MEMORY USAGE none SAMPLES abc", NOT_INTEGER),
        ("MEMORY USAGE g SAMPLES -1", "-ERR syntax error"),
        ("MEMORY USAGE g SAMPLES", "-ERR syntax error"),
        ("MEMORY USAGE g FOO 5", "-ERR syntax error"),
        ("MEMORY USAGE g SAMPLES 0", ":62"),
        ("MEMORY USAGE g SAMPLES 5 SAMPLES 3", ":62"),
        ("MEMORY USAGE none SAMPLES 5", "nil"),
        ("CLIENT UNBLOCK 0", ":0"),
        ("CLIENT UNBLOCK -1", ":0"),
        ("CLIENT UNBLOCK abc", NOT_INTEGER),
        ("CLIENT UNBLOCK 99 foo", "-ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"),
        ("CLIENT UNBLOCK 99 TIMEOUT", ":0"),
        ("CLIENT UNBLOCK 99 error", ":0"),
    ]);
}

#[test]
fn offsets_and_counters_at_the_ends_of_their_ranges() {
    let too_long = "-ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    let overflow = "-ERR increment or decrement would overflow";
    check(&[
        ("SETRANGE k 9223372036854775807 x", too_long),
        ("SETRANGE k 9223372036854775808 x", NOT_INTEGER),
        ("SETRANGE k -9223372036854775808 x", "-ERR offset is out of range"),
        ("SETRANGE k 536870912 x", too_long),
        ("SETRANGE k 9223372036854775807 ''", ":0"),
        ("SET g hello", "+OK"),
        ("GETRANGE g -9223372036854775808 9223372036854775807", "\"hello\""),
        ("GETRANGE g 9223372036854775807 9223372036854775807", "\"\""),
        ("GETRANGE g -1 9223372036854775808", NOT_INTEGER),
        ("GETRANGE g -1 -9223372036854775808", "\"\""),
        ("GETRANGE g -9223372036854775808 -9223372036854775808", "\"h\""),
        ("GETRANGE g -100 -99", "\"h\""),
        ("GETRANGE g 2 -100", "\"\""),
        ("GETRANGE g 01 2", NOT_INTEGER),
        ("GETRANGE g +1 2", NOT_INTEGER),
        ("INCRBY n 9223372036854775807", ":9223372036854775807"),
        ("INCR n", overflow),
        ("INCRBY n -9223372036854775808", ":-1"),
        ("DECRBY n 9223372036854775807", ":-9223372036854775808"),
        ("DECR n", overflow),
        ("DECRBY n -9223372036854775808", "-ERR decrement would overflow"),
        ("INCRBY n 9223372036854775808", NOT_INTEGER),
        ("INCRBY n -0", NOT_INTEGER),
        ("SET n 007", "+OK"),
        ("INCR n", NOT_INTEGER),
        ("SET n -0", "+OK"),
        ("INCR n", NOT_INTEGER),
    ]);
}

#[test]
fn expiries_at_the_ends_of_their_ranges() {
    let expire = |command: &str| format!("-ERR invalid expire time in '{command}' command");
    let (set, key) = (expire("set"), expire("expire"));
    check(&[
        ("SET e v EX 9223372036854775", &set),
        ("SET e v EX 9223372036854776", &set),
        ("SET e v PX 9223372036854775807", &set),
        ("SET e v EXAT 9223372036854776", &set),
        ("SET e v PXAT 9223372036854775807", "+OK"),
        ("EXPIRETIME e", ":9223372036854776"),
        ("PEXPIRETIME e", ":9223372036854775807"),
        ("SET e v EXAT 9223372036854775", "+OK"),
        ("EXPIRE e 9223372036854775", &key),
        ("EXPIRE e -9223372036854776", &key),
        ("EXPIRE e -9223372036854775", ":1"),
        ("EXISTS e", ":0"),
        ("SET e v", "+OK"),
        ("PEXPIREAT e 9223372036854775807", ":1"),
        ("PEXPIRETIME e", ":9223372036854775807"),
        ("PEXPIRE e -9223372036854775808", ":1"),
        ("EXISTS e", ":0"),
        ("EXPIRE e 1.0", NOT_INTEGER),
        ("SETEX e 1.0 v", NOT_INTEGER),
    ]);
}
