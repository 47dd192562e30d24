//! Databases that share a memory.

use thermocline::{Error, SharedMemory, SharedParts};

use super::*;

const PAIRS: u64 = 60_000;
const MEMORY: u64 = 16 * MIB;

/// Opens a database on the shared memory, of which it gets at most `first` bytes at first.
fn open_on(device: &Arc<dyn Device>, memory: &SharedMemory, first: u64) -> thermocline::Result<Db> {
    let shared = SharedParts { memory: Some(memory.clone()), ..SharedParts::default() };
    let options = Options { memory_bytes: first, shared: Some(shared), ..Options::default() };
    Db::open_on(Arc::clone(device), "memory", options)
}

/// The shares of all databases together are within the memory, and each reports its own.
fn check_all(memory: &SharedMemory, all: &[Db]) {
    let (used, limit) = memory.bytes();
    assert!(used <= limit, "{used} of {limit}");
    for db in all {
        let stats = db.stats();
        assert_eq!(stats.memory_limit_bytes, limit);
        assert!(stats.memory_used_bytes < limit);
        check_sums(db);
    }
}

/// The share of a keyspace that is read grows at the cost of one in another database. After a
/// reopening nothing is lost.
#[test]
fn memory_moves_from_one_database_to_another() {
    let memory = SharedMemory::new(MEMORY);
    let devices = [device::memory(), device::memory()];
    let open = || devices.each_ref().map(|device| open_on(device, &memory, MEMORY / 2).unwrap());
    let all = open();
    for db in &all {
        load(&db.keyspace("space", of(EngineKind::Lsm)).unwrap(), PAIRS);
    }
    for (hot, cold) in [(0, 1), (1, 0)] {
        let space = all[hot].existing_keyspace("space").unwrap();
        let begin = [hot, cold].map(|at| share(&all[at], "space"));
        let has_grown = read_until(&all[hot], &space, PAIRS, || {
            check_all(&memory, &all);
            share(&all[hot], "space") > begin[0] * 9 / 8
                && share(&all[cold], "space") < begin[1] * 15 / 16
        });
        let now = [hot, cold].map(|at| share(&all[at], "space"));
        assert!(has_grown, "{begin:?} became {now:?}: {:?}", all[hot].stats().memory_moves);
    }
    assert!(all.iter().all(|db| db.stats().memory_moves.count > 1));
    all.iter().for_each(|db| db.close().unwrap());
    drop(all);
    assert_eq!(memory.bytes(), (0, MEMORY));
    for db in open() {
        let space = db.existing_keyspace("space").unwrap();
        (0..PAIRS).step_by(997).for_each(|number| {
            assert_eq!(space.get(&key(number)).unwrap(), Some(value(number)));
        });
    }
}

/// Databases are opened and made as long as the memory has the least of each, and no others. Each
/// takes the missing memory from those before. One that is closed gives its memory back.
#[test]
fn a_database_takes_from_others_what_is_missing() {
    let memory = SharedMemory::new(10 * MIB);
    let devices: Vec<_> = (0..20).map(|_| device::memory()).collect();
    let mut all = Vec::new();
    let refused = loop {
        let db = open_on(&devices[all.len()], &memory, 10 * MIB).unwrap();
        match db.keyspace("space", of(EngineKind::Lsm)) {
            Ok(space) => load(&space, 5_000),
            Err(error) => break error,
        }
        all.push(db);
        check_all(&memory, &all);
    };
    assert!(matches!(refused, Error::NoMemoryLeft { .. }), "{refused}");
    assert!((7..=10).contains(&all.len()), "{}", all.len());
    let check = |db: &Db| {
        let space = db.existing_keyspace("space").unwrap();
        for number in (0..5_000).step_by(501) {
            assert_eq!(space.get(&key(number)).unwrap(), Some(value(number)));
        }
    };
    all.iter().for_each(check);
    // The last one, opened first, takes all that it may. The others make it release some.
    all.iter().for_each(|db| db.close().unwrap());
    let count = all.len();
    all.clear();
    assert_eq!(memory.bytes().0, 0);
    for device in devices[..count].iter().rev() {
        let db = open_on(device, &memory, 10 * MIB).unwrap();
        check(&db);
        all.push(db);
        check_all(&memory, &all);
    }
}

/// A memory that is too little for a database refuses it, and changes nothing.
#[test]
fn a_database_that_finds_too_little_is_refused() {
    let memory = SharedMemory::new(10 * MIB);
    let devices = [device::memory(), device::memory()];
    let taking = KeyspaceOptions { memory_bytes: Some(10 * MIB), ..of(EngineKind::Lsm) };
    let db = open_on(&devices[1], &memory, 10 * MIB).unwrap();
    load(&db.keyspace("space", of(EngineKind::Lsm)).unwrap(), 100);
    db.close().unwrap();
    drop(db);
    let first = open_on(&devices[0], &memory, 10 * MIB).unwrap();
    first.keyspace("asks", taking).unwrap();
    let refused = open_on(&devices[1], &memory, 10 * MIB).unwrap_err();
    assert!(matches!(refused, Error::MemoryTooSmall { .. }), "{refused}");
    drop(first);
    let db = open_on(&devices[1], &memory, 10 * MIB).unwrap();
    assert_eq!(db.existing_keyspace("space").unwrap().get(&key(99)).unwrap(), Some(value(99)));
}
