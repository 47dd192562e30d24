//! Every operation reads back from the line that it prints.

use super::{Generator, Operation, Profile, Step};

fn everything() -> Profile {
    Profile { ingests: true, ..Profile::all(true) }
}

#[test]
fn operations_read_back_from_their_line() {
    for seed in 0..50 {
        for operation in Generator::new(seed, everything()).take(200) {
            let line = operation.to_string();
            assert!(!line.contains('\n'), "{line:?} is one line");
            assert_eq!(line.parse(), Ok(operation), "seed {seed}: {line}");
        }
    }
}

#[test]
fn long_runs_print_short_and_odd_bytes_survive() {
    let put = Step::Put { key: b"\"\\'\0\xff".to_vec(), value: vec![b'\''; 5000] };
    let write = Operation::Write(vec![put]);
    let line = write.to_string();
    assert!(line.len() < 60, "{line}");
    assert_eq!(line.parse(), Ok(write));
}

#[test]
fn nonsense_is_refused() {
    for line in ["", "fly", "get", "get \"a", "get \"a\" \"b\"", "scan forward [\"a\"", "pin x"] {
        assert!(line.parse::<Operation>().is_err(), "{line:?}");
    }
}

#[test]
fn simpler_operations_come_to_an_end() {
    for operation in Generator::new(3, everything()).take(300) {
        let mut simplest = operation;
        for _ in 0..200 {
            match simplest.simpler().pop() {
                Some(simpler) => simplest = simpler,
                None => break,
            }
        }
        assert!(simplest.simpler().is_empty(), "{simplest}");
    }
}
