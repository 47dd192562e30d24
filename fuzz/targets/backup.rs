//! Fuzzes a directory of backups.
//! Two backups of a database with keyspaces of all engines, with work between them, are restored
//! and compared with its content. Then some bytes of the files are changed, and the backups are
//! listed, verified and restored. A manifest of any bytes is read, too. Nothing may panic, and
//! restored content is the content that was backed up.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use thermocline::{Backups, Db, Options, Progress};
use thermocline_fuzz::files::{self, Change, Files};
use thermocline_fuzz::work::{Kept, Step, Work, content};

/// Restores a backup, if that succeeds, and compares it with the content when it was made. Returns
/// whether it was restored.
fn is_restored(files: &Files, number: u64, expected: &Kept, options: &Options) -> bool {
    let Ok(backups) = Backups::open_on(files::lay_out(files), "fuzzed") else { return false };
    let number = Some(number);
    // Damage is an answer; a panic is not.
    let _ = (backups.list(), backups.damaged());
    let verified = backups.verify(number, &Progress::default());
    let target = device::memory();
    let outcome = backups.restore_on(number, &target, "target", &Progress::default());
    if outcome.is_err() {
        let left = target.list("").expect("a memory device does not fail");
        assert!(left.is_empty(), "something is left: {left:?}");
    }
    let Ok(told) = outcome else { return false };
    assert_eq!(Ok(told), verified);
    let db = Db::open_on(target, "target", options.clone()).expect("it was restored");
    let found = content(&db).expect("what was restored is whole");
    assert_eq!(found, expected.living(db.now_ms()), "what was restored is something else");
    true
}

fuzz_target!(|input: (u8, [Vec<Step>; 2], Vec<Change>, Vec<u8>)| {
    let (shape, parts, changes, raw) = input;
    let device = device::memory();
    let backups = Backups::open_on(Arc::clone(&device), "backups").expect("an empty device");
    let mut work = Work::new(shape);
    let mut made = Vec::new();
    for steps in &parts {
        work.go(steps);
        let backup = work.db.backup(&backups, &Progress::default());
        made.push((backup.expect("a memory device does not fail").number, work.kept()));
    }
    let (_, options, _) = work.close();
    let mut files = files::collect(&*device);
    for (number, expected) in &made {
        assert!(is_restored(&files, *number, expected, &options), "a whole one is refused");
    }
    files::change(&mut files, &changes);
    for (number, expected) in &made {
        let _ = is_restored(&files, *number, expected, &options);
    }
    // With a header and checksum that are right, so that the bytes behind them are read.
    let name = "backup-000001/BACKUP";
    let mut manifest = files::collect(&*device)[name][..16].to_vec();
    manifest.extend_from_slice(&codec::crc32c(&raw).to_le_bytes());
    manifest.extend_from_slice(&raw);
    files.insert(name.to_owned(), manifest);
    if let Ok(backups) = Backups::open_on(files::lay_out(&files), "fuzzed") {
        let _ = (backups.list(), backups.verify(None, &Progress::default()));
        let _ = backups.restore_on(None, &device::memory(), "target", &Progress::default());
    }
});
