//! File, environment and flags, as the process sees them.

use crate::program::{command, finish, run};

#[test]
fn print_config_tells_where_each_value_came_from() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.toml");
    #[expect(clippy::disallowed_methods, reason = "writes what the test reads")]
    std::fs::write(&file, "memory = \"2gb\"\nport = 7000\nclients-max = 5\n").unwrap();
    let mut layered = command();
    layered
        .args(["serve", "--print-config", "--json", "--port", "7002", "--config"])
        .arg(&file)
        .env("THERMOCLINE_PORT", "7001")
        .env("THERMOCLINE_CLIENTS_MAX", "6");
    let said = finish(&mut layered, b"");
    let json = said.json();
    let from = |key: &str| (json[key]["value"].clone(), json[key]["from"].clone());
    let path = format!("file {}", file.display());
    assert_eq!(from("memory"), ("2gb".into(), path.into()));
    assert_eq!(from("clients-max"), ("6".into(), "variable THERMOCLINE_CLIENTS_MAX".into()));
    assert_eq!(from("port"), ("7002".into(), "flag".into()));
    assert_eq!(from("durability"), ("flushed".into(), "default".into()));
}

#[test]
fn what_print_config_prints_is_a_configuration_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.toml");
    let printed = run(["serve", "--print-config", "--memory", "3gb"]).out;
    #[expect(clippy::disallowed_methods, reason = "writes what the test reads")]
    std::fs::write(&file, &printed).unwrap();
    let mut again = command();
    again.args(["serve", "--print-config", "--config"]).arg(&file);
    let again = finish(&mut again, b"");
    assert_eq!(again.code, 0, "{again:?}");
    let values = |text: &str| -> Vec<String> {
        text.lines().filter_map(|line| Some(line.split_once('#')?.0.trim().to_owned())).collect()
    };
    assert_eq!(values(&again.out), values(&printed));
    assert!(again.out.contains("memory = \"3gb\""), "{again:?}");
}

#[test]
fn unknown_settings_are_errors_everywhere() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.toml");
    #[expect(clippy::disallowed_methods, reason = "writes what the test reads")]
    std::fs::write(&file, "prot = 1\n").unwrap();
    let mut from_file = command();
    let said = finish(from_file.args(["serve", "--print-config", "--config"]).arg(&file), b"");
    assert_eq!(said.code, 2);
    assert!(said.err.ends_with("unknown key \"prot\"; the nearest known one is \"port\"\n"));

    let mut from_variable = command();
    from_variable.args(["serve", "--print-config"]).env("THERMOCLINE_PROT", "1");
    let said = finish(&mut from_variable, b"");
    assert_eq!((said.code, said.err.contains("THERMOCLINE_PORT")), (2, true), "{said:?}");

    use std::os::unix::ffi::OsStrExt;
    let mut no_text = command();
    let bytes = std::ffi::OsStr::from_bytes(b"9mb\xff");
    no_text.args(["serve", "--print-config"]).env("THERMOCLINE_MEMORY", bytes);
    let said = finish(&mut no_text, b"");
    assert_eq!((said.code, said.err.contains("THERMOCLINE_MEMORY")), (2, true), "{said:?}");

    let said = run(["serve", "--print-config", "--prot", "1"]);
    assert_eq!((said.code, said.err.contains("--port")), (2, true), "{said:?}");
}
