//! Shares move to the keyspaces that are read.

use super::*;

/// Pairs of a keyspace: several times the number that a share has room for.
const PAIRS: u64 = 60_000;
const MEMORY: u64 = 12 * MIB;

/// Two keyspaces, of which one is read and then the other: each time the share of the one that is
/// read grows, at the cost of the other; and nothing moves while nothing is done.
fn follows(one: EngineKind, other: EngineKind) {
    // With less than some mebibytes f2 has no read cache, and has nothing to report of reads.
    let times = if one == EngineKind::F2 { 4 } else { 1 };
    let (memory, pairs) = (times * MEMORY, times * PAIRS);
    let device = device::memory();
    let db = open(&device, memory);
    let spaces = [db.keyspace("one", of(one)).unwrap(), db.keyspace("other", of(other)).unwrap()];
    spaces.iter().for_each(|space| load(space, pairs));
    // After a reopening they begin with the same.
    db.close().unwrap();
    drop((spaces, db));
    let db = open(&device, memory);
    let names = ["one", "other"];
    let begin = names.map(|name| share(&db, name));
    assert!(begin[0].abs_diff(begin[1]) < memory / 8, "{begin:?}");
    Environment::real().sleep(Duration::from_millis(500));
    assert_eq!(db.stats().memory_moves.count, 0, "nothing was done");
    for (hot, cold) in [(0, 1), (1, 0)] {
        let space = db.existing_keyspace(names[hot]).unwrap();
        let before = share(&db, names[hot]);
        let grown = || share(&db, names[hot]) > begin[hot] * 9 / 8;
        let has_grown = read_until(&db, &space, pairs, grown);
        let now = names.map(|name| share(&db, name));
        assert!(has_grown, "{one} and {other}: {before} became {now:?}, {:?}", db.stats());
        assert!(now[cold] < begin[cold] * 15 / 16, "{now:?}");
        println!("{one}, {other}: {begin:?} became {now:?}, {:?}", db.stats().memory_moves);
    }
    // A step that is under way ends.
    Environment::real().sleep(Duration::from_millis(500));
    let moves = db.stats().memory_moves;
    Environment::real().sleep(Duration::from_secs(1));
    assert_eq!(db.stats().memory_moves, moves, "nothing was done");
    for name in names {
        let space = db.existing_keyspace(name).unwrap();
        (0..pairs).step_by(997).for_each(|number| {
            assert_eq!(space.get(&key(number)).unwrap(), Some(value(number)), "{name}");
        });
    }
    db.close().unwrap();
}

#[test]
fn lsm_and_lsm() {
    follows(EngineKind::Lsm, EngineKind::Lsm);
}

#[test]
fn lsm_and_flexdb() {
    follows(EngineKind::Lsm, EngineKind::FlexDb);
}

#[test]
fn flexdb_and_flexdb() {
    follows(EngineKind::FlexDb, EngineKind::FlexDb);
}

#[test]
fn f2_and_lsm() {
    follows(EngineKind::F2, EngineKind::Lsm);
}

#[test]
fn f2_and_flexdb() {
    follows(EngineKind::F2, EngineKind::FlexDb);
}

#[test]
fn f2_and_f2() {
    follows(EngineKind::F2, EngineKind::F2);
}

/// A keyspace that asked for its memory keeps it, and so do all without the balance.
#[test]
fn what_was_asked_for_stays() {
    for (balance_memory, memory_bytes) in [(true, Some(4 * MIB)), (false, None)] {
        let device = device::memory();
        let options = Options { memory_bytes: 12 * MIB, balance_memory, ..Options::default() };
        let db = open_with(&device, options);
        let asking = KeyspaceOptions { memory_bytes, ..of(EngineKind::Lsm) };
        db.keyspace("asks", asking).unwrap();
        let hot = db.keyspace("hot", of(EngineKind::Lsm)).unwrap();
        load(&hot, PAIRS);
        let before = share(&db, "asks");
        let hot_before = share(&db, "hot");
        let misses = || {
            let stats = db.stats();
            let hot = stats.keyspaces.iter().find(|space| space.name == "hot").unwrap();
            let ghosts = hot.engine.detail.iter().find(|(name, _)| *name == "cache_ghost_hits");
            ghosts.unwrap().1
        };
        let mut looks = 0;
        read_until(&db, &hot, PAIRS, || {
            looks += 1;
            looks > 40 && (!balance_memory || share(&db, "hot") > hot_before)
        });
        assert_eq!(share(&db, "asks"), before);
        if balance_memory {
            assert_eq!(before, 4 * MIB);
            assert!(misses() > 0);
            // It may take free memory.
            assert!(share(&db, "hot") > hot_before, "{hot_before}");
        } else {
            assert_eq!((share(&db, "hot"), db.stats().memory_moves.count), (hot_before, 0));
        }
    }
}

/// Closing ends a step that is under way; acknowledged data is there.
#[test]
fn closing_beside_a_move_loses_nothing() {
    let device = device::memory();
    let mut written = 0;
    let mut moves = 0;
    for round in 0..12_u64 {
        let db = open(&device, 8 * MIB);
        let names = ["one", "other"];
        let engines = [EngineKind::Lsm, EngineKind::FlexDb];
        let spaces = [0, 1].map(|at| db.keyspace(names[at], of(engines[at])).unwrap());
        for number in (0..written).step_by(701) {
            let space = &spaces[(number % 2) as usize];
            assert_eq!(space.get(&key(number)).unwrap(), Some(value(number)), "round {round}");
        }
        if round == 0 {
            for number in 0..80_000 {
                spaces[(number % 2) as usize].put(&key(number), &value(number)).unwrap();
            }
            written = 80_000;
        }
        let environment = Environment::real();
        let until = environment.now() + Duration::from_millis(400 + 97 * round);
        let first = written;
        std::thread::scope(|scope| {
            let spaces = &spaces;
            scope.spawn(move || {
                // Reads of the one or the other alone, until it is closed.
                let mut state = round;
                let mut next = move || {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 33) % (first / 2) * 2 + round % 2
                };
                while spaces[(round % 2) as usize].get(&key(next())).is_ok() {}
            });
            while environment.now() < until {
                let space = &spaces[(written % 2) as usize];
                space.put(&key(written), &value(written)).unwrap();
                written += 1;
                environment.sleep(Duration::from_micros(50));
            }
            check_sums(&db);
            moves += db.stats().memory_moves.count;
            db.close().unwrap();
        });
    }
    println!("{written} pairs, {moves} moves");
    assert!(moves > 5, "{moves}");
}
