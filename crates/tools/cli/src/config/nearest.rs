//! The known word that is nearest to one that was mistyped.

/// Returns the one of `known` that takes the fewest single-character changes to reach from `word`;
/// the first of them if several do.
pub(super) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known.min_by_key(|candidate| distance(word, candidate))
}

/// Insertions, deletions and replacements between two words (Levenshtein).
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    // The distances from the characters of `from` read so far to each prefix of `to`.
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (read, character) in from.chars().enumerate() {
        let mut diagonal = read;
        let mut left = read + 1;
        let mut next = vec![left];
        for (other, above) in to.iter().zip(row.iter().skip(1)) {
            let replaced = diagonal + usize::from(*other != character);
            left = replaced.min(left + 1).min(above + 1);
            diagonal = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}
