//! Logs in memory.

use super::*;

const START: u64 = 4;

fn append(stoc: &Stoc, number: u64, offset: u64, bytes: &[u8]) -> crate::Result<()> {
    stoc.append_in_memory(&log(number), (Epoch(1), START), offset, bytes)
}

fn with_log(limits: Limits) -> (Arc<dyn Device>, Stoc) {
    let device = device::memory();
    let options = Options { limits, ..options(START) };
    let stoc = Stoc::open(Arc::clone(&device), &Options { last_incarnation: None, ..options });
    let stoc = stoc.expect("memory takes it");
    stoc.create_log_in_memory(log(1), Epoch(1)).expect("there is room");
    (device, stoc)
}

/// S1 and S3 hold for a log in memory, which has no file.
#[test]
fn a_log_in_memory_takes_appends_at_its_end() {
    let (device, stoc) = with_log(Limits::default());
    assert_eq!(stoc.create_log_in_memory(log(1), Epoch(1)), Err(Error::Exists { name: log(1) }));
    assert_eq!(stoc.create_log(log(1), Epoch(1)), Err(Error::Exists { name: log(1) }));
    let of_table = stoc.create_log_in_memory(table(1), Epoch(1));
    assert_eq!(of_table, Err(Error::OtherKind { name: table(1) }));
    append(&stoc, 1, 0, b"one").expect("there is room");
    append(&stoc, 1, 3, b"three").expect("there is room");
    append(&stoc, 1, 0, b"one").expect("it has these bytes");
    append(&stoc, 1, 2, b"eth").expect("it has these bytes");
    append(&stoc, 1, 8, b"").expect("it has these bytes");
    assert_eq!(append(&stoc, 1, 2, b"eTh"), Err(Error::OtherBytes { name: log(1), offset: 2 }));
    for offset in [7, 9] {
        assert_eq!(
            append(&stoc, 1, offset, b"xx"),
            Err(Error::NotAtEnd { name: log(1), length: 8 })
        );
    }
    assert_eq!(append(&stoc, 2, 0, b"x"), Err(Error::NoFile { name: log(2) }));
    assert_eq!(stoc.read(&log(1), 2, 4), Ok(b"ethr".to_vec()));
    assert_eq!(stoc.read(&log(1), 8, 0), Ok(Vec::new()));
    assert_eq!(stoc.read(&log(1), 8, 1), Err(Error::PastEnd { name: log(1), length: 8 }));
    assert_eq!(stoc.verify(&log(1)), Ok(()));
    assert_eq!(device.exists(&log(1).path()), Ok(false));
    let fenced = stoc.fence(RANGE, Epoch(5)).expect("memory takes it");
    assert_eq!(fenced.logs, [(log(1), Some(8))]);
    assert!(is_fenced(append(&stoc, 1, 8, b"late")));
    assert!(is_fenced(stoc.create_log_in_memory(log(2), Epoch(4))));
}

/// S5: a log in memory ends with the start, and no later start is taken for it. The promise stays.
#[test]
fn s5_a_log_in_memory_ends_with_the_start() {
    let (device, stoc) = with_log(Limits::default());
    append(&stoc, 1, 0, b"word").expect("there is room");
    stoc.fence(RANGE, Epoch(1)).expect("memory takes it");
    drop(stoc);
    let stoc = open(&device, START + 1);
    assert_eq!((stoc.list(RANGE), stoc.stats().map(|stats| stats.files)), (Vec::new(), Ok(0)));
    let fenced = stoc.fence(RANGE, Epoch(1)).expect("memory takes it");
    assert_eq!((fenced.before, fenced.logs), (Epoch(1), Vec::new()));
    // A log of the same name is another one.
    stoc.create_log_in_memory(log(1), Epoch(1)).expect("there is room");
    let refused = Err(Error::OtherStart { wanted: START, present: START + 1 });
    assert_eq!(append(&stoc, 1, 0, b"word"), refused);
    assert_eq!(stoc.list(RANGE).first().map(|listed| listed.length), Some(Some(0)));
}

/// A log is in memory or on the device, and an append says so.
#[test]
fn an_append_names_the_place_of_its_log() {
    let (_, stoc) = with_log(Limits::default());
    stoc.create_log(log(2), Epoch(1)).expect("memory takes it");
    let other = |name| Err(Error::OtherKind { name });
    assert_eq!(stoc.append(&log(1), Epoch(1), 0, b"x"), other(log(1)));
    assert_eq!(append(&stoc, 2, 0, b"x"), other(log(2)));
}

/// A sealed log takes no further append, and bytes behind its end do not count.
#[test]
fn a_sealed_log_in_memory_does_not_grow() {
    let (_, stoc) = with_log(Limits::default());
    append(&stoc, 1, 0, b"eightchr").expect("there is room");
    for (length, expected) in [(5, 5), (7, 5), (3, 3)] {
        stoc.seal(&log(1), Epoch(1), length).expect("it is there");
        assert_eq!(stoc.list(RANGE).first().map(|listed| listed.length), Some(Some(expected)));
    }
    assert_eq!(append(&stoc, 1, 3, b"x"), Err(Error::NotAtEnd { name: log(1), length: 3 }));
    assert_eq!(append(&stoc, 1, 0, b"eig"), Ok(()));
}

/// Logs in memory have a limit of their own. A release makes room.
#[test]
fn the_memory_of_logs_is_limited() {
    let limits = Limits { bytes_max: 0, files_max: 2, memory_bytes_max: 10_000 };
    let (_, stoc) = with_log(limits);
    let mut length = 0;
    let refused = loop {
        match append(&stoc, 1, length, &[7; 1_000]) {
            Ok(()) => length += 1_000,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::NoRoom { .. }), "{refused}");
    assert_eq!(length, 8_000);
    append(&stoc, 1, 0, &[7; 1_000]).expect("it has these bytes");
    stoc.create_log_in_memory(log(2), Epoch(1)).expect("there is room");
    let third = stoc.create_log_in_memory(log(3), Epoch(1));
    assert!(matches!(third, Err(Error::NoRoom { .. })));
    assert!(matches!(append(&stoc, 2, 0, &[7; 2_000]), Err(Error::NoRoom { .. })));
    stoc.release(&log(1), RangeId(8), Epoch(1)).expect("range 8 has no reference");
    assert_eq!(stoc.list(RANGE).len(), 2);
    for _ in 0..2 {
        stoc.release(&log(1), RANGE, Epoch(1)).expect("it is there, or released already");
    }
    append(&stoc, 2, 0, &[7; 9_000]).expect("there is room");
    stoc.create_log_in_memory(log(3), Epoch(1)).expect("there is room");
    let listed: Vec<_> = stoc.list(RANGE).into_iter().map(|listed| listed.name.number).collect();
    assert_eq!(listed, [2, 3]);
}
