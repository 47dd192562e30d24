//! A node of a skip list: a run of words.
//!
//! | words | what |
//! |---|---|
//! | 1 | key's bytes (16 bits), links (7), has a state (1), bytes of the value + 1, or 0 (40) |
//! | 1 | the number |
//! | 0 or 1 | of an entry that may be replaced, its state (`replacing`) |
//! | one a link | the position of the next node on each level, from the bottom; zero at the end |
//! | bytes / 8 | the key, its first byte the highest of a word, zeros behind it |
//! | bytes / 8, or what its state says | the value, the same way; of a longer one, its position |
//!
//! A value that takes more than [`INLINE_WORDS`] is apart from its node, in chunks of their own. A
//! search visits a dozen nodes, and no value: the nodes are close together.
//!
//! Keys compare as their words do: if all words that both have are the same, the shorter key is
//! a beginning of the longer one.

use std::cmp::Ordering;

use sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::chunks::Chunks;

/// Words before the links, and the state that some entries have between them.
const HEAD_WORDS: usize = 2;
/// Index of the state.
const STATE_AT: usize = HEAD_WORDS;
/// Bytes of a word.
pub(super) const WORD: usize = size_of::<u64>();
/// Of the first word: bits before the number of links and how many these are, whether there is a
/// state, and bits before the bytes of the value.
const HEIGHT_AT: u32 = 16;
const HEIGHT_MASK: u64 = 0x7f;
const HAS_STATE_AT: u32 = 23;
const VALUE_AT: u32 = 24;

/// Words of the longest value that is in its node. A position takes a word more, which matters for
/// short values. Models have short values.
const INLINE_WORDS: usize = if cfg!(any(loom, shuttle)) { 1 } else { 16 };

/// The content of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Content<'a> {
    pub(super) key: &'a [u8],
    pub(super) number: u64,
    pub(super) value: Option<&'a [u8]>,
    /// For an entry that may be replaced: the words that are kept for its value, at least the words
    /// of its present value.
    pub(super) kept_words: Option<u32>,
}

/// An entry of a skip list.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    words: &'a [AtomicU64],
    /// The first word.
    head: u64,
    /// The chunks of values that are apart.
    values: &'a Chunks,
}

/// Words of a node without its links, and of its value if that is apart.
pub(super) fn words_without_links(key_bytes: usize, value_bytes: usize) -> usize {
    let value_words = value_bytes.div_ceil(WORD);
    let position = usize::from(value_words > INLINE_WORDS);
    HEAD_WORDS + key_bytes.div_ceil(WORD) + position + value_words
}

impl Content<'_> {
    /// Words for its value.
    fn value_words(&self) -> usize {
        let words = self.value.map_or(0, |value| value.len().div_ceil(WORD));
        words.max(self.kept_words.unwrap_or(0) as usize)
    }

    /// Words for its value, if it is apart.
    pub(super) fn words_apart(&self) -> Option<usize> {
        Some(self.value_words()).filter(|words| *words > INLINE_WORDS)
    }

    /// Words of a node of this height.
    pub(super) fn words(&self, height: usize) -> usize {
        let state = usize::from(self.kept_words.is_some());
        let others = words_without_links(self.key.len(), self.value_words() * WORD);
        height + state + others - self.words_apart().unwrap_or(0)
    }

    /// Writes all but the links, over any old content of these words, and of the words for a value
    /// that is `apart`, which has this position. No other thread knows of them.
    pub(super) fn write(
        &self,
        height: usize,
        words: &[AtomicU64],
        apart: Option<(u64, &[AtomicU64])>,
    ) {
        let state = usize::from(self.kept_words.is_some());
        let fixed =
            self.key.len() as u64 | (height as u64) << HEIGHT_AT | (state as u64) << HAS_STATE_AT;
        words[0].store(fixed | value_bits(self.value), Relaxed);
        words[1].store(self.number, Relaxed);
        if let Some(kept) = self.kept_words {
            words[STATE_AT].store(u64::from(kept), Relaxed);
        }
        let content = &words[HEAD_WORDS + state + height..];
        let (key, value) = content.split_at(self.key.len().div_ceil(WORD));
        write(key, self.key);
        let value = match apart {
            Some((position, words)) => {
                value[0].store(position, Relaxed);
                words
            }
            None => value,
        };
        write(value, self.value.unwrap_or(&[]));
    }
}

/// Returns the bits of the first word that describe a value.
fn value_bits(value: Option<&[u8]>) -> u64 {
    value.map_or(0, |value| (value.len() as u64 + 1) << VALUE_AT)
}

impl<'a> Entry<'a> {
    /// The one whose words begin with these, in a list with these values.
    #[inline]
    pub(super) fn at(words: &'a [AtomicU64], values: &'a Chunks) -> Self {
        Self { words, head: words[0].load(Relaxed), values }
    }

    fn height(&self) -> usize {
        (self.head >> HEIGHT_AT & HEIGHT_MASK) as usize
    }

    fn state_words(&self) -> usize {
        (self.head >> HAS_STATE_AT & 1) as usize
    }

    /// Its state, if it may be replaced.
    #[inline]
    pub(super) fn state(&self) -> Option<&'a AtomicU64> {
        (self.state_words() == 1).then(|| &self.words[STATE_AT])
    }

    #[inline]
    pub(super) fn links(&self) -> &'a [AtomicU64] {
        let begin = HEAD_WORDS + self.state_words();
        &self.words[begin..begin + self.height()]
    }

    /// Returns its words from the key on.
    #[inline]
    fn content(&self) -> &'a [AtomicU64] {
        &self.words[HEAD_WORDS + self.state_words() + self.height()..]
    }

    /// Its number. Of one that is being replaced it may be the new one before its value is.
    pub fn number(&self) -> u64 {
        self.words[1].load(Relaxed)
    }

    /// Bytes of its key.
    pub fn key_len(&self) -> usize {
        (self.head & 0xffff) as usize
    }

    /// Bytes of its value, if it has one.
    pub fn value_len(&self) -> Option<usize> {
        // Of one that may be replaced the first word may have changed.
        let head = if self.state_words() == 1 { self.words[0].load(Relaxed) } else { self.head };
        (head >> VALUE_AT).checked_sub(1).map(|bytes| bytes as usize)
    }

    /// Replaces the content of `into` by the key.
    pub fn read_key(&self, into: &mut Vec<u8>) {
        into.clear();
        self.append_key(into);
    }

    /// Appends the key to `into`.
    pub fn append_key(&self, into: &mut Vec<u8>) {
        append(self.key_words(), self.key_len(), into);
    }

    /// Replaces the content of `into` by the value, if it has one; returns whether it has.
    pub fn read_value(&self, into: &mut Vec<u8>) -> bool {
        if self.state_words() == 0 && self.value_len().is_none() {
            return false;
        }
        into.clear();
        self.append_version(into).1
    }

    /// Appends the value unchanged to `into`, if there is one; returns whether there is.
    pub(super) fn append_value(&self, into: &mut Vec<u8>) -> bool {
        let Some(bytes) = self.value_len() else { return false };
        append(&self.value_words()[..bytes.div_ceil(WORD)], bytes, into);
        true
    }

    /// Changes the value and the number, for which its words have room.
    pub(super) fn write_version(&self, number: u64, value: Option<&[u8]>) {
        let fixed = self.head & ((1 << VALUE_AT) - 1);
        self.words[0].store(fixed | value_bits(value), Relaxed);
        self.words[1].store(number, Relaxed);
        write(self.value_words(), value.unwrap_or(&[]));
    }

    /// Whether this is its key.
    pub fn has_key(&self, key: &[u8]) -> bool {
        self.compare_key(key) == Ordering::Equal
    }

    /// Compares its key with the key of another one.
    pub fn compare_keys(&self, other: &Entry<'_>) -> Ordering {
        let words = self.key_words().iter().zip(other.key_words());
        let mut orders = words.map(|(ours, theirs)| ours.load(Relaxed).cmp(&theirs.load(Relaxed)));
        let order = orders.find(|order| *order != Ordering::Equal).unwrap_or(Ordering::Equal);
        order.then_with(|| self.key_len().cmp(&other.key_len()))
    }

    fn key_words(&self) -> &'a [AtomicU64] {
        &self.content()[..self.key_len().div_ceil(WORD)]
    }

    /// Returns the words from the value on.
    fn value_words(&self) -> &'a [AtomicU64] {
        let words = &self.content()[self.key_len().div_ceil(WORD)..];
        // R3: these never change.
        let count = match self.kept_words() {
            Some(kept) => kept as usize,
            None => self.value_len().map_or(0, |bytes| bytes.div_ceil(WORD)),
        };
        if count > INLINE_WORDS { self.values.from(words[0].load(Relaxed)) } else { words }
    }

    #[inline]
    fn compare_key(&self, key: &[u8]) -> Ordering {
        let (words, (whole, rest)) = (self.key_words(), key.as_chunks());
        for (word, part) in words.iter().zip(whole) {
            let order = word.load(Relaxed).cmp(&u64::from_be_bytes(*part));
            if order != Ordering::Equal {
                return order;
            }
        }
        let last = words.get(whole.len()).filter(|_| !rest.is_empty());
        let order = last.map_or(Ordering::Equal, |word| word.load(Relaxed).cmp(&word_of(rest)));
        order.then_with(|| self.key_len().cmp(&key.len()))
    }

    /// Compares it with an entry of this key and number.
    #[inline]
    pub(super) fn compare(&self, key: &[u8], number: u64) -> Ordering {
        self.compare_key(key).then_with(|| number.cmp(&self.number()))
    }
}

/// Less than eight bytes as a word that compares as they do.
fn word_of(part: &[u8]) -> u64 {
    let mut word = [0; WORD];
    word[..part.len()].copy_from_slice(part);
    u64::from_be_bytes(word)
}

fn write(words: &[AtomicU64], bytes: &[u8]) {
    let (whole, rest) = bytes.as_chunks();
    for (word, part) in words.iter().zip(whole) {
        word.store(u64::from_be_bytes(*part), Relaxed);
    }
    if !rest.is_empty() {
        words[whole.len()].store(word_of(rest), Relaxed);
    }
}

fn append(words: &[AtomicU64], bytes: usize, into: &mut Vec<u8>) {
    let begin = into.len();
    into.resize(begin + words.len() * WORD, 0);
    for (part, word) in into[begin..].as_chunks_mut().0.iter_mut().zip(words) {
        *part = word.load(Relaxed).to_be_bytes();
    }
    into.truncate(begin + bytes);
}
