//! Keyspaces that come and go.

use thermocline::Error;

use super::*;

/// Keyspaces can be made as long as the memory has room for the least of each, whatever the earlier
/// ones were given; and none beyond that.
#[test]
fn a_new_keyspace_takes_from_others_what_is_missing() {
    for engine in [EngineKind::Lsm, EngineKind::FlexDb] {
        let device = device::memory();
        let db = open(&device, 10 * MIB);
        let mut spaces = Vec::new();
        let refused = loop {
            match db.keyspace(&format!("s{}", spaces.len()), of(engine)) {
                Ok(space) => {
                    // Memory that it can release.
                    load(&space, 5_000);
                    spaces.push(space);
                }
                Err(error) => break error,
            }
            check_sums(&db);
        };
        assert!(matches!(refused, Error::NoMemoryLeft { .. }), "{refused}");
        assert!(refused.to_string().contains("memory"));
        assert!((7..=10).contains(&spaces.len()), "{engine}: {}", spaces.len());
        for space in &spaces {
            for number in (0..5_000).step_by(501) {
                assert_eq!(space.get(&key(number)).unwrap(), Some(value(number)));
            }
        }
        // Without the balance there are fewer.
        let device = device::memory();
        let options =
            Options { memory_bytes: 10 * MIB, balance_memory: false, ..Options::default() };
        let db = open_with(&device, options);
        let made = (0..20).take_while(|at| db.keyspace(&format!("s{at}"), of(engine)).is_ok());
        assert!((2..=4).contains(&made.count()));
    }
}

/// The share of a dropped keyspace goes to keyspaces that gain by it. They do not get the quarter
/// that stays free for others.
#[test]
fn a_dropped_one_gives_back() {
    const PAIRS: u64 = 60_000;
    let device = device::memory();
    let db = open(&device, 12 * MIB);
    let first = KeyspaceOptions { memory_bytes: Some(6 * MIB), ..of(EngineKind::FlexDb) };
    db.keyspace("first", first).unwrap();
    let hot = db.keyspace("hot", of(EngineKind::Lsm)).unwrap();
    load(&hot, PAIRS);
    let mut looks = 0;
    read_until(&db, &hot, PAIRS, || {
        looks += 1;
        looks > 40
    });
    let before = share(&db, "hot");
    assert!(before <= 3 * MIB + MIB / 8, "{before}: a quarter stays free");
    db.drop_keyspace("first").unwrap();
    let has_grown = read_until(&db, &hot, PAIRS, || share(&db, "hot") > 8 * MIB);
    let now = share(&db, "hot");
    assert!(has_grown, "{before} became {now}: {:?}", db.stats());
    assert!(now <= 9 * MIB, "{now}: a quarter stays free");
    // A new one takes of that.
    db.keyspace("new", of(EngineKind::Lsm)).unwrap();
    check_sums(&db);
}

/// A cleared keyspace keeps the share that it has reached.
#[test]
fn a_cleared_one_keeps_its_share() {
    const PAIRS: u64 = 60_000;
    let device = device::memory();
    let db = open(&device, 12 * MIB);
    let hot = db.keyspace("hot", of(EngineKind::Lsm)).unwrap();
    let cold = db.keyspace("cold", of(EngineKind::FlexDb)).unwrap();
    load(&hot, PAIRS);
    let begin = share(&db, "cold");
    load(&cold, PAIRS);
    assert!(read_until(&db, &cold, PAIRS, || share(&db, "cold") > 2 * begin));
    let before = share(&db, "cold");
    cold.clear().unwrap();
    assert!(share(&db, "cold") >= before);
    check_sums(&db);
    load(&cold, 1000);
    assert_eq!(cold.get(&key(999)).unwrap(), Some(value(999)));
    db.drop_keyspace("cold").unwrap();
    drop(cold);
    assert!(db.memory_bytes().0 <= share(&db, "hot"), "its share is free");
}
