//! Each call of the contract is passed on: one that is not would silently get the contract's
//! default.

/// The names of the functions that are declared in the braces behind `begin`, at its indentation.
fn functions<'a>(source: &'a str, begin: &str) -> Vec<&'a str> {
    let (_, body) = source.split_once(begin).expect("it is there");
    let body = body.split_once("\n}\n").expect("it ends").0;
    let declared = body.lines().filter_map(|line| line.strip_prefix("    fn "));
    declared.map(|line| line.split(['(', '<']).next().unwrap_or(line)).collect()
}

#[test]
fn every_call_of_the_contract_is_passed_on() {
    let contract = include_str!("../contract.rs");
    let asked = functions(contract, "pub trait Engine: FoundState + Send + Sync {");
    let passed_on =
        functions(include_str!("../placed.rs"), "impl<E: Engine> Engine for Placed<E> {");
    assert!((15..=18).contains(&asked.len()), "the contract was found: {asked:?}");
    assert_eq!(passed_on, asked);
    let asked = functions(contract, "pub trait FoundState {");
    let passed_on =
        functions(include_str!("../placed.rs"), "impl<E: Engine> FoundState for Placed<E> {");
    assert_eq!(passed_on, asked);
}
