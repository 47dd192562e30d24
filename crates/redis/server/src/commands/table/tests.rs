//! Every command is found under its name, and nothing else is.

use super::{COMMANDS, NAME_BYTES_MAX, find, lower_case};

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

#[test]
fn names_that_differ_in_one_byte_are_not_found() {
    for command in COMMANDS {
        let name = command.name.as_bytes();
        for at in 0..name.len() {
            for bit in 0..8 {
                let mut other = name.to_vec();
                other[at] ^= 1 << bit;
                let same = |command: &&super::Command| {
                    command.name.as_bytes().eq_ignore_ascii_case(&other)
                };
                let expected = COMMANDS.iter().position(|command| same(&command));
                assert_eq!(find(&other), expected, "{}", other.escape_ascii());
            }
        }
    }
}

#[test]
fn only_upper_case_letters_are_changed() {
    for byte in 0..=u8::MAX {
        for others in [0, 0xff, b'A', b'z'] {
            for at in 0..8 {
                let mut bytes = [others; 8];
                bytes[at] = byte;
                let expected = u64::from_le_bytes(bytes.map(|byte| byte.to_ascii_lowercase()));
                assert_eq!(lower_case(u64::from_le_bytes(bytes)), expected, "{bytes:?}");
            }
        }
    }
}
