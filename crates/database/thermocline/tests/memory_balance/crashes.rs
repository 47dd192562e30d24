//! Power cuts while memory moves: data that a smaller budget has flushed or committed early is as
//! whole as any other.

use device::{Faults, SimulatedDisk};
use thermocline::{Batch, Durability};

use super::*;

/// Writes of a run; each is a batch over both keyspaces.
const WRITES: u64 = 20_000;
/// Bytes of a value: a keyspace has more than its share of the memory then.
const LONG_VALUE_BYTES: usize = 200;
/// Power cuts of a run.
const CRASHES: u64 = 8;

fn options(seed: u64) -> (Options, Arc<environment::ManualClock>) {
    let (environment, clock) = Environment::simulated(seed);
    let durability = Durability::Buffered;
    let options = Options { environment, durability, memory_bytes: 8 * MIB, ..Options::default() };
    (options, clock)
}

fn long_value(number: u64) -> Vec<u8> {
    let mut value = value(number);
    value.resize(LONG_VALUE_BYTES, number as u8);
    value
}

/// Returns the number of writes that are there, which must be a prefix of them, in both keyspaces.
fn prefix(spaces: &[Keyspace; 2], written: u64) -> u64 {
    let is_there = |number| {
        let found = [0, 1].map(|at| spaces[at].get(&key(number)).unwrap());
        assert_eq!(found[0], found[1], "write {number} is whole");
        found[0].as_ref().is_some_and(|found| *found == long_value(number))
    };
    let count = (0..written).take_while(|number| is_there(*number)).count() as u64;
    assert!((count..written).all(|number| !is_there(number)), "{count} writes, and others");
    count
}

/// The first one gives: it was given most, since it was made first, and the second one misses more.
#[test]
fn a_power_cut_beside_a_move_leaves_a_prefix() {
    for (seed, engines) in
        [(1, [EngineKind::Lsm, EngineKind::FlexDb]), (2, [EngineKind::FlexDb, EngineKind::FlexDb])]
    {
        let disk = SimulatedDisk::new(seed, Faults::none());
        let (options_of, clock) = options(seed);
        let db = Db::open_on(Arc::clone(&disk) as Arc<dyn Device>, "disk", options_of).unwrap();
        let names = ["one", "other"];
        let spaces = [0, 1].map(|at| db.keyspace(names[at], of(engines[at])).unwrap());
        let mut synced = 0;
        for number in 0..WRITES {
            let mut batch = Batch::new();
            for space in &spaces {
                batch.put(space, &key(number), &long_value(number));
            }
            db.write(&batch).unwrap();
            // The first one is read, and then the other.
            let hot = &spaces[(number > WRITES / 2) as usize];
            for back in 0..4 {
                let number = (number * 31 + back * 7919) % (number + 1);
                assert_eq!(hot.get(&key(number)).unwrap(), Some(long_value(number)));
            }
            if number % 100 == 0 {
                clock.advance(Duration::from_millis(101));
                // For the look that is due now.
                Environment::real().sleep(Duration::from_millis(2));
            }
            if number % 700 == 0 {
                db.sync().unwrap();
                synced = number + 1;
            }
            if number % (WRITES / CRASHES) == WRITES / CRASHES - 1 {
                let image = disk.crash(seed ^ number);
                let (options, _clock) = options(seed);
                let after = Db::open_on(image as Arc<dyn Device>, "image", options).unwrap();
                let found = [0, 1].map(|at| after.existing_keyspace(names[at]).unwrap());
                let count = prefix(&found, number + 1);
                assert!(count >= synced, "{count} of {synced} that were synced");
            }
        }
        let moves = db.stats().memory_moves;
        println!("{moves:?}");
        assert!(moves.count > 0, "{moves:?}");
        check_sums(&db);
        db.close().unwrap();
    }
}
