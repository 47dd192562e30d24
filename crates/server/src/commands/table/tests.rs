//! Every command is found under its name, and nothing else is.

use super::{COMMANDS, NAME_BYTES_MAX, find};

#[test]
fn every_name_is_found_in_any_case() {
    for (index, command) in COMMANDS.iter().enumerate() {
        assert!(command.name.len() <= NAME_BYTES_MAX, "{}", command.name);
        assert_eq!(find(command.name.as_bytes()), Some(index), "{}", command.name);
        assert_eq!(find(command.name.to_uppercase().as_bytes()), Some(index));
        assert_eq!(command.name, command.name.to_lowercase());
    }
    for name in ["", "gett", "ge", "lpush", "a-name-that-is-much-too-long-for-a-command"] {
        assert_eq!(find(name.as_bytes()), None, "{name}");
    }
}
