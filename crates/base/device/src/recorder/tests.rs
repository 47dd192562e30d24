//! The recorder: invisible, and its recordings make the same device again.

use super::*;
use crate::{Buffer, Request, SyncKind, Work, memory};

fn recorded() -> (Arc<dyn Device>, ()) {
    (Recorder::new(memory()), ())
}

crate::device_suite!(recording, super::recorded);

/// Something of everything.
fn workload(device: &dyn Device) -> Result<()> {
    let sub = device.subdevice("d")?;
    let file = sub.open("a", Mode::CreateNew)?;
    file.write_at(0, b"abcdef")?;
    file.allocate(0, 10)?;
    file.punch(1, 2)?;
    file.set_len(9)?;
    let mut queue = device.queue(4)?;
    let work = Work::Write { offset: 4, buffer: Buffer::copy_of(b"XY") };
    queue.submit(Request { tag: 7, file: file.clone(), work }).unwrap();
    let mut done = Vec::new();
    queue.wait(1, &mut done)?;
    assert_eq!(done[0].tag, 7);
    let work = Work::Sync(SyncKind::All);
    queue.submit(Request { tag: 7, file: file.clone(), work }).unwrap();
    drop(queue);
    drop(file);
    sub.link("a", "b")?;
    sub.rename("b", "c")?;
    sub.sync_dir("")?;
    device.create_dir("e/f")?;
    device.remove_dir("e")?;
    device.lock("LOCK")?.read_at(0, &mut [])?;
    assert!(device.remove("nothing").is_err());
    device.remove("LOCK")
}

#[test]
fn a_recording_prints() {
    let recorder = Recorder::new(memory());
    workload(&*recorder).unwrap();
    let crc = |bytes: &[u8]| format!("{:08x}", codec::crc32c(bytes));
    let expected = [
        "create directory d".to_owned(),
        "#1 = open d/a create-new".to_owned(),
        format!("#1 write at 0: 6 bytes, crc32c {}", crc(b"abcdef")),
        "#1 allocate at 0: 10 bytes".to_owned(),
        "#1 punch at 1: 2 bytes".to_owned(),
        "#1 set length 9".to_owned(),
        format!("#1 write at 4: 2 bytes, crc32c {}", crc(b"XY")),
        "#1 sync all".to_owned(),
        "#1 close".to_owned(),
        "link d/a to d/b".to_owned(),
        "rename d/b to d/c".to_owned(),
        "sync directory d".to_owned(),
        "create directory e/f".to_owned(),
        "remove directory e".to_owned(),
        "#2 = open LOCK create".to_owned(),
        "#2 read at 0: 0 bytes".to_owned(),
        "#2 close".to_owned(),
        "remove LOCK".to_owned(),
    ];
    let printed = recorder.recording().to_string();
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_replay_makes_the_same_device_and_the_same_recording() {
    let recorder = Recorder::new(memory());
    workload(&*recorder).unwrap();
    let recording = recorder.recording();
    let again = Recorder::new(memory());
    recording.replay(&*again).unwrap();
    assert_eq!(again.recording(), recording);
    assert_eq!(again.list("d").unwrap(), recorder.list("d").unwrap());
    for name in ["d/a", "d/c"] {
        let mut bytes = [0; 9];
        again.open(name, Mode::Read).unwrap().read_at(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"a\0\0dXY\0\0\0");
    }
    assert!(recording.replay(&*again).is_err(), "d/a is there already");
}
