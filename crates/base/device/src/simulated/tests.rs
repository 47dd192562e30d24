//! The simulated disk against the shared suite, and its own promises.

mod crashes;
mod failures;
mod runs;

use super::*;

fn plain() -> (Arc<dyn Device>, ()) {
    (SimulatedDisk::new(1, Faults::none()), ())
}

fn late() -> (Arc<dyn Device>, ()) {
    let faults = Faults { latency_polls_max: 5, ..Faults::none() };
    (SimulatedDisk::new(2, faults), ())
}

fn aligned() -> (Arc<dyn Device>, ()) {
    (SimulatedDisk::with_alignment(3, Faults::none(), 4096), ())
}

crate::device_suite!(honest, super::plain);
crate::device_suite!(out_of_order, super::late);
crate::device_suite!(of_whole_blocks, super::aligned);

/// All bytes of a file, if it is there.
fn content(disk: &dyn Device, name: &str) -> Option<Vec<u8>> {
    let file = disk.open(name, Mode::Read).ok()?;
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_at(0, &mut bytes).unwrap();
    Some(bytes)
}

/// Every name on a disk, with a hash of its bytes if it is a file. Ends the disk's faults.
fn everything(disk: &SimulatedDisk) -> Vec<(String, Option<u64>)> {
    fn walk(disk: &SimulatedDisk, dir: &str, into: &mut Vec<(String, Option<u64>)>) {
        for entry in disk.list(dir).unwrap() {
            let name = crate::join(dir, &entry.name);
            into.push((name.clone(), content(disk, &name).map(|bytes| codec::hash64(0, &bytes))));
            if entry.is_dir {
                walk(disk, &name, into);
            }
        }
    }
    let mut found = Vec::new();
    disk.set_faults(Faults::none());
    walk(disk, "", &mut found);
    found
}
