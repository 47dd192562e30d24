//! Requests cut at every byte parse as they do whole, and hostile ones are refused early.

use proptest::prelude::*;

use super::{Bounds, Header, Parser, Refusal, Step, any_header, header, parse_in_pieces};

const BOUNDS: Bounds = Bounds::new(1024, 1 << 20, false);

fn encode(commands: &[Vec<Vec<u8>>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for command in commands {
        bytes.extend_from_slice(format!("*{}\r\n", command.len()).as_bytes());
        for arg in command {
            bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
            bytes.extend_from_slice(arg);
            bytes.extend_from_slice(b"\r\n");
        }
    }
    bytes
}

fn words(words: &[&str]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

#[test]
fn a_stream_cut_anywhere_gives_the_same_commands() {
    let data = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\na\r\nb\r\nPING\r\n\r\n*0\r\n*-1\r\n\
        set k \"a b\\x41\\n\" 'it\\'s'\r\n*2\r\n$3\r\nGET\r\n$0\r\n\r\nECHO hi\n";
    let want = vec![
        words(&["SET", "k", "a\r\nb"]),
        words(&["PING"]),
        words(&["set", "k", "a bA\n", "it's"]),
        words(&["GET", ""]),
        words(&["ECHO", "hi"]),
    ];
    assert_eq!(parse_in_pieces(data, &[]), (want.clone(), false));
    for first in 0..=data.len() {
        assert_eq!(parse_in_pieces(data, &[first]), (want.clone(), false), "cut at {first}");
        for second in first..=data.len() {
            let pieces = parse_in_pieces(data, &[first, second]);
            assert_eq!(pieces, (want.clone(), false), "cut at {first} and {second}");
        }
    }
    let every: Vec<usize> = (0..data.len()).collect();
    assert_eq!(parse_in_pieces(data, &every), (want, false));
}

#[test]
fn bytes_that_are_no_request_are_refused_wherever_they_are_cut() {
    let cases: &[(&[u8], &str)] = &[
        (b"*x\r\n", "invalid multibulk length"),
        (b"*\r\n", "invalid multibulk length"),
        (b"*1025\r\n", "invalid multibulk length"),
        (b"*99999999999999999999\r\n", "invalid multibulk length"),
        (b"*1\n$4\r\nPING\r\n", "invalid multibulk length"),
        (b"*01\r\n$4\r\nPING\r\n", "invalid multibulk length"),
        (b"*-0\r\n", "invalid multibulk length"),
        (b"*+1\r\n$4\r\nPING\r\n", "invalid multibulk length"),
        (b"*1\r\nPING\r\n", "expected '$', got 'P'"),
        (b"*1\r\n:4\r\n", "expected '$', got ':'"),
        (b"*3\r\n$3\r\nSET\r\n$1\r\nx\r\nfooz\r\n", "expected '$', got 'f'"),
        (b"*1\r\n$04\r\nPING\r\n", "invalid bulk length"),
        (b"*1\r\n$-0\r\n", "invalid bulk length"),
        (b"*1\r\n$x\r\n", "invalid bulk length"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*1\r\n$1048577\r\n", "invalid bulk length"),
        (b"*1\r\n$1\r\nab\r\n", "expected CRLF after an argument"),
        (b"set \"a\r\n", "unbalanced quotes in request"),
        (b"set 'a\r\n", "unbalanced quotes in request"),
        (b"set \"a\"b\r\n", "unbalanced quotes in request"),
    ];
    for (data, want) in cases {
        for cut in 0..=data.len() {
            let mut parser = Parser::default();
            let text = String::from_utf8_lossy(data);
            let step = match parser.step(&data[..cut], &BOUNDS) {
                Step::Incomplete => parser.step(data, &BOUNDS),
                other => other,
            };
            let Step::Refused(refusal) = step else { panic!("{step:?} for {text:?} cut at {cut}") };
            assert_eq!(refusal.text(), want.as_bytes(), "{text:?} cut at {cut}");
        }
    }
}

#[test]
fn short_numbers_are_read_as_all_others_are() {
    const BYTES: &[u8] = b"0159-x\r\n";
    const LEN: u32 = 5;
    let mut numbers = 0;
    for line in 0..BYTES.len().pow(LEN) {
        let bytes: Vec<u8> =
            (0..LEN).map(|at| BYTES[line / BYTES.len().pow(at) % BYTES.len()]).collect();
        let line = [b"ab$", &bytes[..]].concat();
        for cut in 3..=line.len() {
            let read = header(&line[..cut], 2);
            assert_eq!(read, any_header(&line[..cut], 2), "{}", line[..cut].escape_ascii());
            numbers += u32::from(matches!(read, Header::Number { .. }));
        }
    }
    assert!(numbers > 500, "{numbers} numbers");
}

#[test]
fn the_bounds_before_authentication_are_narrow() {
    let step = |data: &[u8]| Parser::default().step(data, &Bounds::UNAUTHENTICATED);
    assert_eq!(step(b"*10\r\n"), Step::Incomplete);
    assert_eq!(step(b"*11\r\n"), Step::Refused(Refusal::Text("unauthenticated multibulk length")));
    assert_eq!(step(b"*1\r\n$16384\r\n"), Step::Incomplete);
    assert_eq!(
        step(b"*1\r\n$16385\r\n"),
        Step::Refused(Refusal::Text("unauthenticated bulk length"))
    );
    assert_eq!(step(b"a b c d e f g h i j k\r\n").clone(), {
        Step::Refused(Refusal::Text("unauthenticated multibulk length"))
    });
}

#[test]
fn a_declared_length_reserves_nothing() {
    let mut parser = Parser::default();
    let bounds = Bounds::new(1 << 20, 64 << 20, false);
    assert_eq!(parser.step(b"*1048576\r\n$67108864\r\n", &bounds), Step::Incomplete);
    assert!(parser.memory_bytes() < 1024, "{}", parser.memory_bytes());
}

#[test]
fn an_endless_line_is_refused() {
    let line = vec![b'a'; Bounds::INLINE_BYTES_MAX + 1];
    assert_eq!(
        Parser::default().step(&line, &BOUNDS),
        Step::Refused(Refusal::Text("too big inline request"))
    );
    let zeros = [&b"*"[..], &[b'0'; 64]].concat();
    assert!(matches!(Parser::default().step(&zeros, &BOUNDS), Step::Refused(_)));
}

proptest! {
    #[test]
    fn any_commands_cut_anyhow_come_back(
        commands in prop::collection::vec(
            prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..6), 0..8),
        mut cuts in prop::collection::vec(0_usize..600, 0..12),
    ) {
        let data = encode(&commands);
        cuts.sort_unstable();
        prop_assert_eq!(parse_in_pieces(&data, &cuts), (commands, false));
    }

    #[test]
    fn any_bytes_parse_alike_whole_and_byte_by_byte(
        data in prop::collection::vec(prop_oneof![
            Just(b'*'), Just(b'$'), Just(b'\r'), Just(b'\n'), Just(b'1'), Just(b'2'),
            Just(b'"'), Just(b'\''), Just(b'\\'), Just(b' '), Just(b'a'), any::<u8>(),
        ], 0..200),
    ) {
        let every: Vec<usize> = (0..data.len()).collect();
        prop_assert_eq!(parse_in_pieces(&data, &every), parse_in_pieces(&data, &[]));
    }
}
