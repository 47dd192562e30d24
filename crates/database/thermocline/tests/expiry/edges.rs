//! Ends at the edges of time, a clock that is set back, and bytes that are no stored values.

use std::time::Duration;

use thermocline::{Batch, Change, Error, Expiring, ExpiringChange, VALUE_BYTES_MAX};

use super::database::{Bench, kinds};

#[test]
fn a_put_with_a_past_end_is_a_delete() {
    for (engine, journaled) in kinds() {
        let bench = Bench::new(11);
        let (space, now_ms) = (bench.space(engine, journaled), bench.now_ms());
        for past_ms in [0, 1, now_ms - 1, now_ms] {
            let gone = |way: &str| {
                assert_eq!(space.expiring().raw().get(b"k").unwrap(), None, "{engine}, {way}");
                space.put(b"k", b"v").unwrap();
            };
            space.put(b"k", b"v").unwrap();
            space.expiring().put(b"k", b"w", past_ms).unwrap();
            gone("put");
            assert!(space.expiring().expire_at(b"k", past_ms).unwrap());
            gone("expire_at");
            bench.db.write(Batch::new().put_with_expiry(&space, b"k", b"w", past_ms)).unwrap();
            gone("batch");
            bench
                .db
                .atomically(&[(&space, b"k")], |section| section.put_with_expiry(0, b"w", past_ms))
                .unwrap();
            gone("section");
            bench.db.transaction(|tx| tx.put_with_expiry(&space, b"k", b"w", past_ms)).unwrap();
            gone("transaction");
            let past = |_: Option<Expiring<'_>>| ExpiringChange::Put {
                value: b"w".to_vec(),
                expiry_ms: Some(past_ms),
            };
            space.expiring().rmw(b"k", past).unwrap();
            gone("rmw");
            let stored = Expiring { value: b"w", expiry_ms: Some(past_ms) }.to_stored();
            space.expiring().raw().put(b"k", &stored).unwrap();
            gone("put as stored");
        }
        space.expiring().put_with_ttl(b"k", b"w", Duration::ZERO).unwrap();
        assert_eq!(space.expiring().raw().get(b"k").unwrap(), None);
    }
}

#[test]
fn the_furthest_end_is_never_reached_and_sums_do_not_overflow() {
    let bench = Bench::new(12);
    for (engine, journaled) in kinds() {
        let space = bench.space(engine, journaled);
        space.expiring().put(b"a", b"v", u64::MAX).unwrap();
        space.expiring().put_with_ttl(b"b", b"v", Duration::MAX).unwrap();
        space.expiring().put(b"c", b"v", u64::MAX - 1).unwrap();
    }
    bench.set(u64::MAX - 1);
    for (engine, journaled) in kinds() {
        let space = bench.space(engine, journaled);
        assert_eq!(space.expiring().remove_expired(), Ok(1), "{engine}");
        let furthest = Some((b"v".to_vec(), Some(u64::MAX)));
        assert_eq!(space.expiring().get(b"a").unwrap(), furthest);
        assert_eq!(space.expiring().get(b"b").unwrap(), furthest);
        assert_eq!(space.get(b"c").unwrap(), None);
    }
}

/// As documented: an expired value that was not removed is there again until its expiry, if the
/// clock is set back.
#[test]
fn a_clock_that_is_set_back_shows_what_was_not_removed() {
    for (engine, journaled) in kinds() {
        let bench = Bench::new(13);
        let (space, now_ms) = (bench.space(engine, journaled), bench.now_ms());
        space.expiring().put(b"kept", b"v", now_ms + 10).unwrap();
        space.expiring().put(b"removed", b"v", now_ms + 5).unwrap();
        bench.pass(5);
        assert_eq!(space.expiring().remove_expired(), Ok(1));
        space.expiring().put(b"past", b"v", now_ms + 1).unwrap();
        bench.pass(5);
        assert_eq!(space.get(b"kept").unwrap(), None);
        bench.set(now_ms);
        assert_eq!(space.get(b"kept").unwrap().as_deref(), Some(&b"v"[..]), "{engine}");
        assert_eq!(space.get(b"removed").unwrap(), None, "{engine}");
        assert_eq!(space.get(b"past").unwrap(), None, "{engine}");
    }
}

#[test]
fn what_is_no_stored_value_is_refused_and_changes_nothing() {
    for (engine, journaled) in kinds() {
        let bench = Bench::new(14);
        let space = bench.space(engine, journaled);
        space.put(b"k", b"v").unwrap();
        let stored = space.expiring().raw();
        let is_refused = |error: Error| assert!(matches!(error, Error::NotStored(_)), "{error}");
        for bad in [&b""[..], b"v", b"\x02", b"1234567\x02"] {
            is_refused(stored.put(b"k", bad).unwrap_err());
            is_refused(bench.db.write(Batch::new().put(&stored, b"k", bad)).unwrap_err());
            is_refused(stored.rmw(b"k", |_| Change::Put(bad.to_vec())).unwrap_err());
            is_refused(bench.db.transaction(|tx| tx.put(&stored, b"k", bad)).unwrap_err());
            let put =
                bench.db.atomically(&[(&stored, b"k")], |section| section.put(0, bad.to_vec()));
            is_refused(put.unwrap_err());
        }
        assert_eq!(space.get(b"k").unwrap().as_deref(), Some(&b"v"[..]), "{engine}");
        assert_eq!(bench.db.failure(), None);
    }
}

#[test]
fn a_value_may_be_as_long_as_any_less_its_trailer() {
    let bench = Bench::new(15);
    let space = bench.space(thermocline::EngineKind::Memory, true);
    let refused = space.put(b"k", &vec![0; VALUE_BYTES_MAX]).unwrap_err();
    let is_too_long = matches!(refused, Error::Engine(engine::Error::ValueTooLong { .. }));
    assert!(is_too_long, "{refused}");
    let refused = space.rmw(b"k", |_| Change::Put(vec![0; VALUE_BYTES_MAX])).unwrap_err();
    assert!(matches!(refused, Error::Engine(engine::Error::ValueTooLong { .. })), "{refused}");
}
