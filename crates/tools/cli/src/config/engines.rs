//! The names of engines in help texts, from the list of engines.

use thermocline::EngineKind;

use super::values;

/// Returns a help text with its placeholders replaced: `{engines}` by all engines with their
/// limits, `{larger engines}` by the engines whose data may be larger than memory, `{compressing
/// engines}` by the engines that can compress their data.
pub(super) fn filled(text: &str) -> String {
    let all = EngineKind::ALL.iter().map(|engine| described(*engine));
    text.replace("{engines}", &listed(all, "or"))
        .replace("{larger engines}", &names(|engine| engine.driver().has_share()))
        .replace("{compressing engines}", &names(values::compresses))
}

/// Returns the names of the engines that pass.
fn names(passes: fn(EngineKind) -> bool) -> String {
    let engines = EngineKind::ALL.iter().filter(|engine| passes(**engine));
    listed(engines.map(|engine| engine.name().to_owned()), "and")
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
            let compressing = filled("{compressing engines}");
            let mut settings = engine.known_settings().iter();
            let compresses = settings.any(|setting| setting.name == "compression");
            assert_eq!(compressing.contains(engine.name()), compresses, "{compressing}");
        }
    }

    #[test]
    fn names_are_listed_as_in_a_sentence() {
        let of = |names: &[&str]| listed(names.iter().map(|name| (*name).to_owned()), "or");
        assert_eq!([of(&[]), of(&["a"]), of(&["a", "b"])], ["", "a", "a or b"]);
        assert_eq!(of(&["a", "b", "c"]), "a, b or c");
    }
}
