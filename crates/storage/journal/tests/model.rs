//! Random runs against a model: the appended records, and how many are flushed and synced.
//!
//! A failing run prints its operations, shrunk to the few that matter, and is kept in
//! `model.proptest-regressions`, which replays first by
//! `cargo test -p thermocline-journal --test all model`.

use std::sync::Arc;

use codec::SeqNo;
use device::{Faults, SimulatedDisk};
use environment::Environment;
use proptest::prelude::*;
use thermocline_journal::{Durability, Journal, Options, check};

const DIR: &str = "journal";

/// The next step of a run.
#[derive(Clone, Copy, Debug)]
enum Operation {
    /// Appends a record of `bytes` bytes, whose number is `gap` above the last one.
    Append {
        bytes: u16,
        gap: u8,
    },
    Wait(Durability),
    /// Trims up to `percent` percent of the synced records.
    Trim {
        percent: u8,
    },
    /// Closes the journal and opens it again.
    Close,
    /// Kills the process and opens the journal again.
    Kill,
    /// Cuts the power and opens the journal on the image that is left.
    PowerCut {
        image: u16,
    },
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        10 => (0..300_u16, 1..3_u8).prop_map(|(bytes, gap)| Operation::Append { bytes, gap }),
        1 => Just(Operation::Wait(Durability::Buffered)),
        3 => Just(Operation::Wait(Durability::Flushed)),
        3 => Just(Operation::Wait(Durability::Synced)),
        1 => (0..=100_u8).prop_map(|percent| Operation::Trim { percent }),
        1 => Just(Operation::Close),
        1 => Just(Operation::Kill),
        2 => any::<u16>().prop_map(|image| Operation::PowerCut { image }),
    ]
}

fn options() -> impl Strategy<Value = Options> {
    let sizes = (prop_oneof![Just(1 << 10), Just(1 << 20)], prop_oneof![Just(1), Just(500)]);
    sizes.prop_map(|(segment_bytes, buffer_bytes)| Options {
        segment_bytes,
        buffer_bytes,
        ..Options::default()
    })
}

/// The journal next to its model.
struct Pair {
    disk: Arc<SimulatedDisk>,
    journal: Journal,
    options: Options,
    /// Numbers and payloads of all records that are there, trimmed ones included.
    records: Vec<(u64, Vec<u8>)>,
    flushed: u64,
    synced: u64,
    persisted: u64,
    appended: u8,
}

fn open(
    disk: &Arc<SimulatedDisk>,
    options: &Options,
    persisted: u64,
) -> (Journal, Vec<(u64, Vec<u8>)>) {
    let mut found = Vec::new();
    let opened = Journal::open(
        disk.clone(),
        DIR,
        options.clone(),
        &Environment::seeded(5),
        SeqNo::new(persisted),
        &mut |seqno, payload| {
            found.push((seqno.get(), payload.to_vec()));
            Ok(())
        },
    );
    (opened.expect("whatever a crash leaves can be opened").0, found)
}

impl Pair {
    fn new(options: Options, alignment: usize) -> Self {
        let disk = SimulatedDisk::with_alignment(1, Faults::none(), alignment);
        let (journal, _) = open(&disk, &options, 0);
        let records = Vec::new();
        Self { disk, journal, options, records, flushed: 0, synced: 0, persisted: 0, appended: 0 }
    }

    fn last(&self) -> u64 {
        self.records.last().map_or(self.persisted, |(seqno, _)| *seqno)
    }

    fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::Append { bytes, gap } => {
                self.appended = self.appended.wrapping_add(1);
                let payload = vec![self.appended; usize::from(bytes)];
                let seqno = self.journal.last().get() + u64::from(gap);
                let write = |_, into: &mut Vec<u8>| into.extend_from_slice(&payload);
                self.journal.append(|| SeqNo::new(seqno), write).expect("the disk works");
                self.records.push((seqno, payload));
            }
            Operation::Wait(durability) => {
                self.journal.wait(SeqNo::MAX, durability).expect("the disk works");
                if durability >= Durability::Flushed {
                    self.flushed = self.last();
                }
                if durability == Durability::Synced {
                    self.synced = self.last();
                }
            }
            Operation::Trim { percent } => {
                let more = (self.synced - self.persisted) * u64::from(percent) / 100;
                self.persisted += more;
                self.journal.trim(SeqNo::new(self.persisted)).expect("the disk works");
            }
            Operation::Close => {
                self.journal.close().expect("the disk works");
                self.synced = self.last();
                self.reopen(self.last());
            }
            Operation::Kill => self.reopen(self.flushed.max(self.synced)),
            Operation::PowerCut { image } => {
                self.disk = self.disk.crash(u64::from(image));
                self.reopen(self.synced);
            }
        }
        assert!(self.journal.synced() <= self.journal.flushed());
        assert!(self.journal.synced().get() >= self.synced);
    }

    /// Opens the journal again: a prefix must be there, at least up to `promised`.
    fn reopen(&mut self, promised: u64) {
        let (journal, found) = open(&self.disk, &self.options, self.persisted);
        self.journal = journal;
        let needed = self.records.iter().filter(|(seqno, _)| *seqno > self.persisted);
        let last = found.last().map_or(self.persisted, |(seqno, _)| *seqno);
        assert!(last >= promised, "{promised} was promised, {last} is the last");
        assert!(needed.take(found.len()).eq(&found), "what is found is a prefix");
        self.records.retain(|(seqno, _)| *seqno <= last);
        (self.flushed, self.synced) = (last, last);
        let report = check(&*self.disk, DIR).expect("the disk works");
        assert!(report.is_whole(), "{report:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn a_journal_is_a_list_that_survives(
        options in options(),
        alignment in prop_oneof![Just(1_usize), Just(512)],
        operations in prop::collection::vec(operation(), 1..60),
    ) {
        let mut pair = Pair::new(options, alignment);
        for operation in operations {
            pair.apply(operation);
        }
    }
}
