//! An entry is one line of JSON.

use super::Entry;

#[test]
fn an_entry_is_one_line_of_json() {
    let entry = Entry {
        commit: "0123abc\"dirty\\".to_owned(),
        harness: "memory on a simulated disk".to_owned(),
        first_seed: 7,
        seeds: 2,
        crashes: 80,
        simulated_seconds: 3,
        seconds: 1,
        failed_seeds: vec![7, 8],
    };
    let expected = "{\"commit\":\"0123abcdirty\",\"harness\":\"memory on a simulated disk\",\
                    \"first_seed\":7,\"seeds\":2,\"crashes\":80,\"simulated_seconds\":3,\
                    \"seconds\":1,\"failures\":2,\"failed_seeds\":[7,8]}\n";
    assert_eq!(entry.line(), expected);
}
