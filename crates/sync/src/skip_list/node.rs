//! A node of a skip list: a run of words.
//!
//! | words | what |
//! |---|---|
//! | 1 | bytes of the key (16 bits), links (8 bits), bytes of the value and one more, or zero if there is none (40 bits) |
//! | 1 | the number |
//! | as many as links | the position of the next node on each level, from the bottom; zero at the end |
//! | bytes / 8 | the key, its first byte the highest of a word, zeros behind it |
//! | bytes / 8 | the value, the same way |
//!
//! So keys compare as their words do: where all words that both have are the same, the shorter key is a
//! beginning of the longer one.

use std::cmp::Ordering;

use crate::atomic::{AtomicU64, Ordering::Relaxed};

/// Words before the links.
const HEAD_WORDS: usize = 2;
/// Bytes of a word.
const WORD: usize = size_of::<u64>();

/// What a node is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Content<'a> {
    pub(super) key: &'a [u8],
    pub(super) number: u64,
    pub(super) value: Option<&'a [u8]>,
}

/// An entry of a skip list.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    words: &'a [AtomicU64],
    /// The first word.
    head: u64,
}

/// Words of a node without its links.
pub(super) fn words_without_links(key_bytes: usize, value_bytes: usize) -> usize {
    HEAD_WORDS + key_bytes.div_ceil(WORD) + value_bytes.div_ceil(WORD)
}

impl Content<'_> {
    /// Words of a node of this height.
    pub(super) fn words(&self, height: usize) -> usize {
        height + words_without_links(self.key.len(), self.value.map_or(0, <[u8]>::len))
    }

    /// Writes all but the links, whatever was in these words. Nobody else knows of them.
    pub(super) fn write(&self, height: usize, words: &[AtomicU64]) {
        let value_bits = self.value.map_or(0, |value| value.len() as u64 + 1);
        let head = self.key.len() as u64 | (height as u64) << 16 | value_bits << 24;
        words[0].store(head, Relaxed);
        words[1].store(self.number, Relaxed);
        let (key, value) = words[HEAD_WORDS + height..].split_at(self.key.len().div_ceil(WORD));
        write(key, self.key);
        write(value, self.value.unwrap_or(&[]));
    }
}

impl<'a> Entry<'a> {
    /// The one whose words begin with these.
    #[inline]
    pub(super) fn at(words: &'a [AtomicU64]) -> Self {
        Self { words, head: words[0].load(Relaxed) }
    }

    fn height(&self) -> usize {
        (self.head >> 16 & 0xff) as usize
    }

    #[inline]
    pub(super) fn links(&self) -> &'a [AtomicU64] {
        &self.words[HEAD_WORDS..HEAD_WORDS + self.height()]
    }

    /// Its number.
    pub fn number(&self) -> u64 {
        self.words[1].load(Relaxed)
    }

    /// Bytes of its key.
    pub fn key_len(&self) -> usize {
        (self.head & 0xffff) as usize
    }

    /// Bytes of its value, if it has one.
    pub fn value_len(&self) -> Option<usize> {
        (self.head >> 24).checked_sub(1).map(|bytes| bytes as usize)
    }

    /// The key, in the place of what is in `into`.
    pub fn read_key(&self, into: &mut Vec<u8>) {
        read(self.key_words(), self.key_len(), into);
    }

    /// The value, if it has one, in the place of what is in `into`; answers whether it has.
    pub fn read_value(&self, into: &mut Vec<u8>) -> bool {
        let Some(bytes) = self.value_len() else { return false };
        let begin = HEAD_WORDS + self.height() + self.key_len().div_ceil(WORD);
        read(&self.words[begin..begin + bytes.div_ceil(WORD)], bytes, into);
        true
    }

    /// Whether this is its key.
    pub fn has_key(&self, key: &[u8]) -> bool {
        self.compare_key(key) == Ordering::Equal
    }

    fn key_words(&self) -> &'a [AtomicU64] {
        let begin = HEAD_WORDS + self.height();
        &self.words[begin..begin + self.key_len().div_ceil(WORD)]
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

    /// How it lies to an entry of this key and number.
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

fn read(words: &[AtomicU64], bytes: usize, into: &mut Vec<u8>) {
    into.clear();
    into.resize(words.len() * WORD, 0);
    for (part, word) in into.as_chunks_mut().0.iter_mut().zip(words) {
        *part = word.load(Relaxed).to_be_bytes();
    }
    into.truncate(bytes);
}
