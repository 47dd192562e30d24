//! A tuning's bytes, and the values that are refused.

use lsm::{Compression, FilterKind};
use proptest::prelude::*;

use super::{F2Tuning, FlexDbTuning, LsmTuning, Tuning, settings};
use crate::options::EngineKind;

fn decoded(engine: EngineKind, bytes: &[u8]) -> Result<Option<Tuning>, String> {
    Tuning::of_bytes(engine, bytes).map_err(|damage| damage.what)
}

/// As `docs/formats/catalog.md` has them.
#[test]
fn a_tuning_is_the_documented_bytes_and_shows_as_people_write_it() {
    use Compression::{Lz4, None as Plain, Zstd};
    let own = Tuning::Lsm(LsmTuning {
        compression: Some([Plain, Lz4, Zstd, Zstd, Zstd, Zstd, Zstd]),
        filter: Some(FilterKind::Ribbon),
        block_bytes: Some(16 << 10),
        ..LsmTuning::default()
    });
    let bytes = Tuning::to_bytes(Some(own));
    assert_eq!(decoded(EngineKind::Lsm, &bytes), Ok(Some(own)));
    assert_eq!(own.to_string(), "compression=none,lz4,zstd filter=ribbon block_bytes=16384");
    assert_eq!(bytes, [3, 0, 0x90, 0xc4, 0x88, 0x11, 1, 1, 3, 0x80, 0x80, 1]);
}

#[test]
fn nothing_of_its_own_has_one_encoding() {
    for own in [
        Tuning::F2(F2Tuning::default()),
        Tuning::Lsm(LsmTuning::default()),
        Tuning::FlexDb(FlexDbTuning::default()),
    ] {
        assert_eq!(Tuning::to_bytes(Some(own)), Tuning::to_bytes(None));
        assert_eq!(decoded(own.engine(), &Tuning::to_bytes(Some(own))), Ok(None));
        assert_eq!(own.said(), []);
    }
}

#[test]
fn what_no_keyspace_may_have_is_no_tuning() {
    use EngineKind::{F2, FlexDb, Lsm, Memory};
    let cases: [(EngineKind, &[u8]); 9] = [
        (Memory, &[1, 0, 1]),
        (Lsm, &[1, 9, 1]),
        (F2, &[1, 3, 1]),
        (FlexDb, &[1, 2, 1]),
        // Out of order, twice, of a kind and of a compression that there is not, and too little.
        (Lsm, &[2, 2, 10, 1, 1]),
        (Lsm, &[2, 2, 10, 2, 10]),
        (Lsm, &[1, 1, 2]),
        (Lsm, &[1, 0, 3]),
        (F2, &[1, 0, 63]),
    ];
    for (engine, bytes) in cases {
        assert!(decoded(engine, bytes).is_err(), "{engine}: {bytes:?}");
    }
    assert!(decoded(Lsm, &[1, 0, 2]).is_ok(), "zstd in Level 0 alone");
    assert!(decoded(Lsm, &[200, 2, 10]).is_err(), "more than there are bytes");
}

proptest! {
    #[test]
    fn tunings_round_trip_and_hold(
        engine in prop::sample::select(vec![EngineKind::F2, EngineKind::Lsm, EngineKind::FlexDb]),
        wanted in prop::collection::vec(prop::option::of(any::<u64>()), 9),
    ) {
        let known = settings::of(engine);
        let values: Vec<Option<u64>> = known
            .iter()
            .zip(wanted)
            .map(|(setting, value)| {
                let below = |value: u64| (0..64).map(move |bits| value >> bits);
                value.and_then(|value| below(value).find(|value| setting.allows(*value)))
            })
            .collect();
        let own = settings::tuning(engine, &values).unwrap();
        let said: Vec<Option<u64>> = (0..known.len())
            .map(|at| {
                let mut said = settings::said(&own);
                said.find(|(number, ..)| usize::from(*number) == at).map(|(.., value)| value)
            })
            .collect();
        prop_assert_eq!(&said, &values);
        prop_assert_eq!(decoded(engine, &Tuning::to_bytes(Some(own))), Ok(own.if_any()));
    }
}
