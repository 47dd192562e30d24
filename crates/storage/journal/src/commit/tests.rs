//! Models of the group commit under shuttle: very many random schedules of a few threads.
//!
//! ```text
//! RUSTFLAGS="--cfg shuttle" cargo test -p thermocline-journal --profile models --lib commit \
//!     --target-dir target/shuttle
//! ```
//!
//! Each test prints its seed. The same command with `SHUTTLE_RANDOM_SEED=<seed>` and the test's
//! name replays it. A lost wake-up shows as a deadlock, which shuttle reports.

use std::sync::Arc;

use codec::SeqNo;
use device::{Device, Failure, Fault, FaultDevice, Faults, Lasting, OperationKind, SimulatedDisk};
use environment::Environment;
use shuttle::thread::spawn;
use sync::schedules::{Schedules, finds};

use crate::planted::Planted;
use crate::{Durability, Error, Journal, Options, read};

const DIR: &str = "journal";
const SCHEDULES: Schedules = Schedules::new(5_000);

/// A journal with the disk under it.
struct Setup {
    disk: Arc<SimulatedDisk>,
    faults: Arc<FaultDevice>,
    journal: Arc<Journal>,
    next: Arc<shuttle::sync::atomic::AtomicU64>,
}

impl Setup {
    fn new(segment_bytes: u64) -> Self {
        let disk = SimulatedDisk::new(1, Faults::none());
        let faults = FaultDevice::new(disk.clone());
        let options = Options { segment_bytes, buffer_bytes: 1 << 16, ..Options::default() };
        let (environment, _) = Environment::simulated(1);
        let opened =
            Journal::open(faults.clone(), DIR, options, &environment, SeqNo::ZERO, &mut |_, _| {
                Ok(())
            });
        let journal = Arc::new(opened.expect("an empty disk").0);
        Self { disk, faults, journal, next: Arc::new(1.into()) }
    }

    /// Returns a thread that appends records and waits for each.
    fn writer(&self, durabilities: &'static [Durability]) -> shuttle::thread::JoinHandle<()> {
        let (disk, journal, next) = (self.disk.clone(), self.journal.clone(), self.next.clone());
        spawn(move || {
            for durability in durabilities {
                let number =
                    || SeqNo::new(next.fetch_add(1, shuttle::sync::atomic::Ordering::SeqCst));
                let appended =
                    journal.append(number, |_, bytes| bytes.resize(bytes.len() + 400, 1));
                let waited = appended.and_then(|seqno| {
                    journal.wait(seqno, *durability)?;
                    Ok(seqno)
                });
                match waited {
                    Ok(seqno) if *durability == Durability::Synced => holds(&disk, seqno),
                    Ok(_) | Err(Error::Stopped { .. } | Error::Closed) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        })
    }

    fn sync_fails(&self) {
        let nth = self.faults.count(Some(OperationKind::Sync)) + 2;
        let kind = Some(OperationKind::Sync);
        self.faults.fail(Fault { kind, nth, failure: Failure::Io, lasting: Lasting::Once });
    }
}

/// Checks that every image after a power cut right now holds this record.
fn holds(disk: &SimulatedDisk, seqno: SeqNo) {
    for image in 0..3 {
        let mut last = SeqNo::ZERO;
        let image = disk.crash(image);
        let outcome = read(&*image, DIR, SeqNo::ZERO, &mut |seqno, _| {
            last = seqno;
            Ok(())
        });
        assert!(outcome.is_ok() && last >= seqno, "{seqno} of {last} is there: {outcome:?}");
    }
}

fn join(threads: impl IntoIterator<Item = shuttle::thread::JoinHandle<()>>) {
    for thread in threads {
        thread.join().expect("no thread panics");
    }
}

use Durability::{Buffered, Flushed, Synced};

/// All threads wait for syncs.
fn synced() {
    let setup = Setup::new(1 << 20);
    join([
        setup.writer(&[Synced, Synced]),
        setup.writer(&[Synced, Synced]),
        setup.writer(&[Synced]),
    ]);
    assert_eq!(setup.journal.synced(), SeqNo::new(5));
}

/// All threads wait for writes alone.
fn flushed() {
    let setup = Setup::new(1 << 20);
    join([
        setup.writer(&[Flushed, Flushed]),
        setup.writer(&[Flushed, Flushed]),
        setup.writer(&[Flushed]),
    ]);
    assert_eq!(setup.journal.flushed(), SeqNo::new(5));
}

/// Segments of two records, flushed and synced, and trimmed meanwhile.
fn rotating() {
    let setup = Setup::new(1 << 10);
    let journal = setup.journal.clone();
    let trimmer = spawn(move || journal.trim(SeqNo::ZERO).expect("the disk works"));
    join([
        setup.writer(&[Synced, Flushed, Synced]),
        setup.writer(&[Flushed, Flushed, Flushed]),
        setup.writer(&[Synced, Synced]),
        trimmer,
    ]);
    assert!(setup.journal.synced() > SeqNo::ZERO);
}

/// Segments of one or two records are trimmed away while the next is being created: one of them
/// always remains, and says how far the journal reached.
fn trimming() {
    let setup = Setup::new(600);
    let (journal, disk) = (setup.journal.clone(), setup.disk.clone());
    let trimmer = spawn(move || {
        for _ in 0..4 {
            let persisted = journal.flushed();
            journal.trim(persisted).expect("the disk works");
            let names = disk.list(DIR).expect("the directory is there");
            let whole = names.iter().filter(|entry| entry.name.ends_with(".journal"));
            assert!(whole.count() > 0, "no segment is left of a journal that holds {persisted}");
        }
    });
    join([setup.writer(&[Flushed; 6]), trimmer]);
}

/// The end of a segment may satisfy one thread that waits for a sync, and not another.
fn overtaken() {
    let setup = Setup::new(1 << 10);
    let synced: &[Durability] = &[Synced];
    let writers = [synced, synced, synced, synced, &[Flushed, Flushed]];
    join(writers.map(|durabilities| setup.writer(durabilities)));
}

/// A sync fails: no thread waits for ever, and none gets a wrong result.
fn failing() {
    let setup = Setup::new(1 << 10);
    setup.sync_fails();
    join([setup.writer(&[Synced, Flushed, Synced]), setup.writer(&[Synced, Synced])]);
}

/// The journal is closed while others append: accepted records are there.
fn closing() {
    let setup = Setup::new(1 << 10);
    let writers = [setup.writer(&[Buffered, Synced]), setup.writer(&[Flushed, Synced])];
    setup.journal.close().expect("the disk works");
    holds(&setup.disk, setup.journal.last());
    join(writers);
    assert_eq!(setup.journal.synced(), setup.journal.last());
}

#[test]
fn all_who_wait_for_a_sync_get_it() {
    SCHEDULES.check("synced", synced);
}

#[test]
fn all_who_wait_for_a_write_get_it() {
    SCHEDULES.check("flushed", flushed);
}

#[test]
fn segments_are_begun_between_waiters() {
    SCHEDULES.check("rotating", rotating);
}

#[test]
fn the_newest_segment_that_exists_is_never_trimmed() {
    SCHEDULES.check("trimming", trimming);
}

#[test]
fn one_who_is_overtaken_leaves_nobody_behind() {
    SCHEDULES.check("overtaken", overtaken);
}

#[test]
fn a_failure_reaches_everybody() {
    SCHEDULES.check("failing", failing);
}

#[test]
fn closing_takes_in_all_that_was_accepted() {
    SCHEDULES.check("closing", closing);
}

#[test]
fn publishing_too_much_is_found() {
    finds(Planted::PublishedTooMuch, "", rotating);
}

#[test]
fn a_forgotten_wake_up_is_found() {
    finds(Planted::WakeForgotten, "", synced);
}

#[test]
fn an_end_that_is_unheeded_is_found() {
    finds(Planted::EndUnheeded, "", flushed);
}
