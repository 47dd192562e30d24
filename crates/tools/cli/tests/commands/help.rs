//! The help texts, word for word: a text that scripts or readers rely on changes only on purpose.
//!
//! `UPDATE_GOLDEN=1 cargo test -p thermocline-cli --features cluster --test commands help` writes
//! them again.

use std::path::Path;

use crate::program::run;

/// Returns the words of a command, and of each command below it, as their help texts list them.
fn commands_below(words: &[String]) -> Vec<Vec<String>> {
    let arguments = words.iter().map(String::as_str).chain(["--help"]);
    let text = run(arguments.collect::<Vec<_>>()).out;
    let listed = text.lines().skip_while(|line| *line != "Commands:").skip(1);
    let mut all = vec![words.to_vec()];
    for line in listed.take_while(|line| !line.is_empty()) {
        let name = line.split_whitespace().next().filter(|_| line.starts_with("  "));
        if let Some(name) = name.filter(|name| *name != "help") {
            all.extend(commands_below(&[words, &[name.to_owned()]].concat()));
        }
    }
    all
}

#[test]
fn help_is_what_was_agreed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut differing = Vec::new();
    for name in commands_below(&[]) {
        let name = name.join(" ");
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
