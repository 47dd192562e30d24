//! The files of a device in memory, and changes of some of their bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use device::{Device, Mode};

/// Files by name.
pub type Files = BTreeMap<String, Vec<u8>>;

/// One change of one byte: which file, where, and the bits that flip.
pub type Change = (u8, u16, u8);

/// Returns all files of a device in memory.
pub fn collect(device: &dyn Device) -> Files {
    let mut files = Files::new();
    collect_in(device, "", &mut files);
    files
}

fn collect_in(device: &dyn Device, dir: &str, files: &mut Files) {
    for entry in device.list(dir).expect("a memory device does not fail") {
        let name = device::join(dir, &entry.name);
        if entry.is_dir {
            collect_in(device, &name, files);
            continue;
        }
        let file = device.open(&name, Mode::Read).expect("it was listed");
        let mut bytes = vec![0; file.len().expect("a memory device does not fail") as usize];
        file.read_at(0, &mut bytes).expect("within the file");
        files.insert(name, bytes);
    }
}

/// Returns a device in memory with these files.
pub fn lay_out(files: &Files) -> Arc<dyn Device> {
    let device = device::memory();
    for (name, bytes) in files {
        if let Some((dir, _)) = name.rsplit_once('/') {
            device.create_dir(dir).expect("a memory device does not fail");
        }
        let file = device.open(name, Mode::Create).expect("a memory device does not fail");
        file.write_at(0, bytes).expect("a memory device does not fail");
    }
    device
}

/// Flips bits of some bytes.
pub fn change(files: &mut Files, changes: &[Change]) {
    let names: Vec<String> = files.keys().cloned().collect();
    for (file, position, bits) in changes {
        let Some(name) = names.get(usize::from(*file) % names.len().max(1)) else { return };
        let Some(bytes) = files.get_mut(name).filter(|bytes| !bytes.is_empty()) else { continue };
        let position = usize::from(*position) % bytes.len();
        bytes[position] ^= bits;
    }
}
