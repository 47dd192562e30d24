//! The help texts, word for word: a text that scripts or readers rely on changes only on purpose.
//!
//! `UPDATE_GOLDEN=1 cargo test -p thermocline-cli --test commands help` writes them again.

use std::path::Path;

use crate::program::run;

#[test]
fn help_is_what_was_agreed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut differing = Vec::new();
    let of_flexspace = ["create", "insert", "collapse", "cat", "stat", "defrag", "check", "mount"];
    let of_flexspace = of_flexspace.map(|name| format!("flexspace {name}"));
    let commands = [
        "",
        "serve",
        "cluster",
        "cluster dev",
        "cluster certs",
        "cluster status",
        "cluster move",
        "cluster drop",
        "stoc",
        "coordinator",
        "get",
        "put",
        "del",
        "scan",
        "stats",
        "flush",
        "compact",
        "check",
        "backup",
        "restore",
        "dump",
        "load",
        "salvage",
        "drop",
        "tune",
        "flexspace",
    ];
    let of_bench = ["", " run", " prepare", " compare", " tables", " record"];
    let of_bench = of_bench.map(|name| format!("bench{name}"));
    let of_others = of_flexspace.iter().chain(&of_bench).map(String::as_str);
    for name in commands.into_iter().chain(of_others) {
        let arguments: Vec<&str> = name.split_whitespace().chain(["--help"]).collect();
        let text = run(arguments).out;
        let name = if name.is_empty() { "all".to_owned() } else { name.replace(' ', "-") };
        let file = folder.join(format!("help-{name}.txt"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            #[expect(clippy::disallowed_methods, reason = "writes a file of the repository")]
            std::fs::write(&file, &text).unwrap();
        }
        let agreed = std::fs::read_to_string(&file).unwrap_or_default();
        if agreed != text {
            differing.push(format!("{}:\n{text}", file.display()));
        }
    }
    assert!(differing.is_empty(), "help differs from {}", differing.join("\n"));
}

#[test]
fn every_setting_is_in_the_help_of_serve() {
    let help = run(["serve", "--help"]).out;
    let printed = run(["serve", "--print-config"]).out;
    for line in printed.lines() {
        let key = line.split(' ').next().unwrap();
        assert!(help.contains(&format!("--{key} <")), "{key}");
    }
}
