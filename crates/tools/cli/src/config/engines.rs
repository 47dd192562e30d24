//! The names of engines in help texts, from the list of engines.

use thermocline::EngineKind;

/// Returns a help text with its placeholders replaced: `{engines}` by all engines with their
/// limits, `{larger engines}` by the engines whose data may be larger than memory.
pub(super) fn filled(text: &str) -> String {
    let all = EngineKind::ALL.iter().map(|engine| described(*engine));
    let larger = EngineKind::ALL.iter().filter(|engine| engine.driver().has_share());
    let larger = larger.map(|engine| engine.name().to_owned());
    text.replace("{engines}", &listed(all, "or"))
        .replace("{larger engines}", &listed(larger, "and"))
}

fn described(engine: EngineKind) -> String {
    match (engine.driver().has_share(), engine.is_ordered()) {
        (true, true) => engine.name().to_owned(),
        (true, false) => format!("{engine} (no key order)"),
        (false, true) => format!("{engine} (data must fit in memory)"),
        (false, false) => format!("{engine} (data must fit in memory, no key order)"),
    }
}

/// Returns names with commas between them, and a word before the last one.
fn listed(names: impl Iterator<Item = String>, word: &str) -> String {
    let names: Vec<String> = names.collect();
    match names.as_slice() {
        [first @ .., last] if !first.is_empty() => format!("{} {word} {last}", first.join(", ")),
        names => names.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_texts_name_all_engines() {
        for engine in EngineKind::ALL {
            assert!(filled("one of {engines}").contains(engine.name()), "{engine}");
            let larger = filled("{larger engines}");
            assert_eq!(larger.contains(engine.name()), engine.driver().has_share(), "{larger}");
        }
    }

    #[test]
    fn names_are_listed_as_in_a_sentence() {
        let of = |names: &[&str]| listed(names.iter().map(|name| (*name).to_owned()), "or");
        assert_eq!([of(&[]), of(&["a"]), of(&["a", "b"])], ["", "a", "a or b"]);
        assert_eq!(of(&["a", "b", "c"]), "a, b or c");
    }
}
