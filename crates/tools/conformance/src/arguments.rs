//! The arguments of a test program with a `main` of its own.

use std::env;

/// Options of ordinary test programs that a word follows.
const WITH_WORD: [&str; 5] = ["--test-threads", "--skip", "--format", "--color", "--logfile"];

/// The arguments of this program.
#[derive(Debug)]
pub struct Arguments(Vec<String>);

impl Arguments {
    /// Returns the arguments that the program was started with.
    pub fn of_program() -> Self {
        Self(env::args().skip(1).collect())
    }

    /// Returns whether an option is given.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|argument| argument == name)
    }

    /// Returns the words behind an option.
    pub fn words(&self, name: &str) -> Option<&[String]> {
        let position = self.0.iter().position(|argument| argument == name)?;
        self.0.get(position + 1..)
    }

    /// Returns the word behind an option.
    pub fn word(&self, name: &str) -> Option<String> {
        self.words(name)?.first().cloned()
    }

    /// Returns the number behind an option.
    ///
    /// # Panics
    /// The word is no number.
    pub fn number(&self, name: &str) -> Option<u64> {
        Some(self.word(name)?.parse().expect("a number"))
    }

    /// Returns whether this program is not meant: `cargo test WORD` hands the word to every test
    /// program, and such a program has one test, of the name `program`. One of `options` means it.
    pub fn are_for_others(&self, program: &str, options: &[&str]) -> bool {
        let before = [""].into_iter().chain(self.0.iter().map(String::as_str));
        let mut filters =
            self.0.iter().zip(before).filter(|(argument, before)| {
                !argument.starts_with('-') && !WITH_WORD.contains(before)
            });
        let filter = filters.next().map(|(filter, _)| filter);
        let is_asked = options.iter().any(|name| self.has(name));
        !is_asked && filter.is_some_and(|filter| !program.contains(filter.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_and_filters_are_found() {
        let given = |words: &str| Arguments(words.split_whitespace().map(str::to_owned).collect());
        let seeds = given("--quiet --seeds 3 --first 7");
        assert_eq!((seeds.number("--seeds"), seeds.number("--first")), (Some(3), Some(7)));
        assert_eq!((seeds.word("--last"), seeds.has("--quiet")), (None, true));
        assert!(!seeds.are_for_others("simulated", &["--seeds"]));
        assert!(given("other").are_for_others("simulated", &["--seeds"]));
        assert!(!given("simul").are_for_others("simulated", &["--seeds"]));
        assert!(!given("").are_for_others("simulated", &["--seeds"]));
        assert!(!given("--test-threads 2").are_for_others("simulated", &["--seeds"]));
        assert!(given("--test-threads 2 other").are_for_others("simulated", &["--seeds"]));
    }
}
