//! Every planted bug is found by every check that must find it.

use thermocline_conformance::broken::{Flaw, hunt};

/// Looks for a part of the bugs, so that the parts run concurrently.
fn all_are_found(part: usize) {
    let mut passed = Vec::new();
    for flaw in Flaw::ALL.iter().skip(part).step_by(4) {
        for catch in hunt(*flaw) {
            let (name, check) = (flaw.name(), catch.check);
            match &catch.found {
                Some(found) => {
                    let first = found.lines().next().unwrap_or_default();
                    println!("{name}: {check} after {} in {:?}: {first}", catch.passed, catch.took);
                }
                None => passed.push(format!("{name} passes {check}")),
            }
        }
    }
    assert!(passed.is_empty(), "planted bugs were let pass: {passed:#?}");
}

#[test]
fn planted_bugs_are_found_1() {
    all_are_found(0);
}

#[test]
fn planted_bugs_are_found_2() {
    all_are_found(1);
}

#[test]
fn planted_bugs_are_found_3() {
    all_are_found(2);
}

#[test]
fn planted_bugs_are_found_4() {
    all_are_found(3);
}
