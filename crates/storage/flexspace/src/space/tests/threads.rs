//! Several writers, syncs, checkpoints and collections at the same time.

use environment::Environment;

use super::{create, open};

#[test]
fn writers_that_sync_at_once_find_all_they_wrote() {
    const WRITERS: u8 = 3;
    const RECORDS: u32 = 300;
    let device = device::memory();
    let space = create(device.clone());
    let environment = Environment::real();
    let write = |writer: u8| {
        let space = space.clone();
        let work = move || {
            for number in 0..RECORDS {
                let [a, b, ..] = number.to_le_bytes();
                space.append(&[writer, a, b, !writer]).expect("room");
                match number % 50 {
                    9 | 29 => space.sync().expect("a device"),
                    39 if writer == 0 => space.checkpoint().expect("a device"),
                    39 => drop(space.collect().expect("a device")),
                    _ => {}
                }
            }
            space.sync().expect("a device");
        };
        environment.spawn(&format!("writer-{writer}"), work).expect("a thread")
    };
    let writers: Vec<_> = (0..WRITERS).map(write).collect();
    for writer in writers {
        writer.join().expect("a writer");
    }
    space.check().expect("sound");
    drop(space);
    let space = open(device);
    let bytes = space.read(0, space.len()).expect("whole");
    let mut next = [0_u32; WRITERS as usize];
    for record in bytes.chunks(4) {
        let [writer, a, b, last] = *record else { panic!("half of a record") };
        let number = &mut next[usize::from(writer)];
        assert_eq!((u32::from_le_bytes([a, b, 0, 0]), last), (*number, !writer));
        *number += 1;
    }
    assert_eq!(next, [RECORDS; WRITERS as usize]);
}
