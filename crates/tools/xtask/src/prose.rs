//! Sentences of comments and documents, and the markers of sentences that are hard to read.
//!
//! The markers are those of the language rules: class A is refused in new text, class B is counted.

use regex::Regex;

use crate::sources::Source;

/// Words that a sentence may have.
pub(crate) const WORDS_MAX: usize = 35;
/// Columns that a comment line may have.
const COLUMNS_MAX: usize = 100;
/// Words below which a piece of text is no sentence.
const WORDS_MIN: usize = 3;
/// The group that a marker's pattern captures if the match is allowed.
const ALLOWED: &str = "allowed";

/// The markers, each with a name and a pattern. Case counts in the patterns that say so.
const PATTERNS: [(&str, &str); 20] = [
    (
        "A1",
        r"^(?-i:What|Who|Whoever|Whose|Whatever|Of (what|those|these|which|several|each|other|many))\b",
    ),
    (
        "A2",
        r"(^|[,;:(] ?|\b(for|by|of|to|and|as|that|has|have|with|from|than|lets|tells|until|if|where|so) )(who|whoever)\b",
    ),
    (
        "A3",
        r"\b(of|for|to|by|with|than|from|in|at|over|and|is|are|as|beside|behind) what (is|was|were|are|has|have|it|they|there|a|the|lies|others|came|takes|that|does|comes|goes|had|this|lives|no|one|nobody)\b",
    ),
    ("A4", r"\b(nobody|somebody|everybody|anybody|whoever)\b"),
    (
        "A5",
        r"\b(is|are|be|was|were|been) told\b|\btells? (of|whether|who|how|it|them)\b|\btold (of|by|that)\b",
    ),
    (
        "A6",
        r"\banew\b|\bby and by\b|\bof late\b|\bnot long ago\b|\bnow and then\b|\b(beside|behind) each other\b|\bone (behind the|after the) other\b|\bby turns\b",
    ),
    ("A7", r"\banswers? (whether|how|the|it|with|what|that|so|of)\b"),
    (
        "A8",
        r"\b(is|are|was|were) (looked|gone|waited|come|asked) (at|through|for|out|to|by|into|on)\b",
    ),
    (
        "A9",
        r"\b(so|as) many\b(?<allowed> other)?|\b(so|as) much\b(?:(?<allowed_much> (?:faster|slower|more|less)))?",
    ),
    ("A10", r"^(?-i:Where)\b"),
    ("A11", r"\bthose (that|who|which|of which)\b|\bthat which\b|\bone who\b"),
    ("B1", r"\bat once\b"),
    ("B2", r"\bbeside\b"),
    ("B3", r"\bas (it|they) (is|was|are|were)\b"),
    ("B4", r"\bby (now|then)\b"),
    ("B5", r"\b(has|have|had|is|are|was|were) (come|gone)\b|\b(comes?|came) to\b"),
    ("B6", r"\b(lets?|letting) go\b|\bg(ive|ives|iven|ave|iving) (up|back|way)\b"),
    ("B7", r"\b(go|goes|went|gone|going) on\b"),
    ("B8", r"\b(lies?|lay|lain|stands?|stood)\b"),
    ("B9", r"\ball the same\b|\bin any case\b|\bin earnest\b|\bsees? to it\b"),
];

/// Patterns of hard sentences.
pub(crate) struct Markers {
    patterns: Vec<(&'static str, Regex)>,
}

impl Markers {
    /// Compiles the patterns.
    ///
    /// # Errors
    /// A pattern is wrong.
    pub(crate) fn new() -> Result<Self, String> {
        let compile = |&(name, pattern): &(&'static str, &str)| {
            let regex = Regex::new(&format!("(?i){pattern}"));
            regex.map(|regex| (name, regex)).map_err(|error| format!("{name}: {error}"))
        };
        Ok(Self { patterns: PATTERNS.iter().map(compile).collect::<Result<_, _>>()? })
    }

    /// Returns the names of the markers that `sentence` has.
    pub(crate) fn of(&self, sentence: &str) -> Vec<&'static str> {
        let has = |regex: &Regex| {
            regex.captures_iter(sentence).any(|found| {
                let allowed = [ALLOWED, "allowed_much"];
                allowed.iter().all(|name| found.name(name).is_none())
            })
        };
        self.patterns.iter().filter(|(_, regex)| has(regex)).map(|(name, _)| *name).collect()
    }
}

/// A sentence, and the line on which its block of text begins.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sentence {
    pub(crate) line: usize,
    pub(crate) text: String,
}

impl Sentence {
    /// Returns the number of its words.
    pub(crate) fn words(&self) -> usize {
        self.text.split_whitespace().count()
    }
}

/// Returns the sentences of a Rust file's comments, or of a Markdown file without its tables and
/// code.
pub(crate) fn sentences(source: &Source) -> Vec<Sentence> {
    let mut found = Vec::new();
    let (mut block, mut first, mut is_code) = (String::new(), 0, false);
    for (index, line) in source.text.lines().chain([""]).enumerate() {
        let text = prose(line, source);
        if text.is_some_and(|text| text.starts_with("```")) {
            is_code = !is_code;
        }
        let text = text.filter(|text| !text.is_empty() && !text.starts_with("```") && !is_code);
        if text.is_none_or(is_item) {
            let texts = split(&block).into_iter().map(str::to_owned);
            let all = texts.map(|text| Sentence { line: first, text });
            found.extend(all.filter(|sentence| sentence.words() >= WORDS_MIN));
            block.clear();
        }
        if let Some(text) = text {
            if block.is_empty() {
                first = index + 1;
            } else {
                block.push(' ');
            }
            block.push_str(text);
        }
    }
    found
}

/// Returns whether a text begins an item of a list.
fn is_item(text: &str) -> bool {
    let number = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
    text.starts_with("- ") || text.starts_with("* ") || (number != text && number.starts_with(". "))
}

/// Returns the text of the comment on a line, or of a line of a document.
fn prose<'a>(line: &'a str, source: &Source) -> Option<&'a str> {
    let line = line.trim();
    let text = match source.is("md") {
        true => line,
        false => line.strip_prefix("//")?.trim_start_matches(['/', '!']).trim(),
    };
    Some(text).filter(|text| !text.starts_with(['|', '#']))
}

/// Splits a block at the ends of sentences: white space between a sign of punctuation and a
/// capital, a bracket or a backtick.
fn split(block: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, _) in block.match_indices(' ') {
        let ends = block[..at].ends_with(['.', '!', '?', ':', ';']);
        let rest = block[at..].trim_start();
        let begins = rest.starts_with(|first: char| {
            first.is_ascii_uppercase() || matches!(first, '[' | '(' | '`')
        });
        if ends && begins {
            parts.push(&block[start..at]);
            start = at + 1;
        }
    }
    parts.push(&block[start..]);
    parts
}

/// Returns the comment lines that are wider than the text may be.
pub(crate) fn wide_comments(source: &Source) -> usize {
    let is_wide =
        |line: &&str| line.trim_start().starts_with("//") && line.chars().count() > COLUMNS_MAX;
    source.text.lines().filter(is_wide).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn sentences_end_at_punctuation_before_a_capital() {
        let text = "//! One thing. Another (thing): `code` here\n//! goes on, e.g. this.\nlet x = 1; // not counted\n";
        let found: Vec<String> =
            sentences(&source("a.rs", text)).into_iter().map(|found| found.text).collect();
        assert_eq!(found, ["Another (thing):", "`code` here goes on, e.g. this."][1..]);
        let text = "# A title is none\n\nOne sentence of prose.\n```\nlet code = not prose at all;\n```\n| a | table is none |\n";
        let found = sentences(&source("a.md", text));
        assert_eq!(found, [Sentence { line: 3, text: "One sentence of prose.".to_owned() }]);
        let items = sentences(&source(
            "a.md",
            "Two items follow here:\n- the first one\n- the second one\n",
        ));
        assert_eq!(items.len(), 3, "{items:?}");
    }

    #[test]
    fn each_marker_finds_its_sentence_and_no_other() {
        let markers = Markers::new().expect("patterns");
        let hard = [
            ("A1", "What a commit writes."),
            ("A2", "It wakes a thread, who then reads."),
            ("A3", "The size of what is left."),
            ("A4", "It is empty, so nobody reads it."),
            ("A5", "The writer is told later."),
            ("A6", "The file is written anew."),
            ("A7", "It answers whether there is room."),
            ("A8", "The list is looked through."),
            ("A9", "It takes so many bytes."),
            ("A10", "Where it is full, it ends."),
            ("A11", "It keeps those that fit."),
            ("B1", "All end at once."),
            ("B8", "The file lies in a folder."),
        ];
        for (name, sentence) in hard {
            assert_eq!(markers.of(sentence), [name], "{sentence}");
        }
        for plain in [
            "Returns the bytes of the file.",
            "It is twice as much faster.",
            "There are as many other files.",
            "The file says where it ends, and what.",
        ] {
            assert_eq!(markers.of(plain), [""; 0], "{plain}");
        }
    }

    #[test]
    fn wide_comments_are_counted_and_wide_code_is_not() {
        let text = format!("// {}\nlet x = \"{}\";\n// short\n", "a ".repeat(60), "b".repeat(120));
        assert_eq!(wide_comments(&source("a.rs", &text)), 1);
    }
}
