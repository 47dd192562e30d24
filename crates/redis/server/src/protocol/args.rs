//! The arguments of one command, as places in the bytes that were received.

/// The place of an argument, counted from the command's first byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) len: u32,
}

/// Bytes of the longest argument that is looked up as a word.
const WORD_BYTES: usize = 128;

/// A command's arguments, its name first. Borrowed, and free to copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Args<'a> {
    bytes: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Args<'a> {
    /// Makes the arguments at `spans` of `bytes`.
    pub(crate) fn new(bytes: &'a [u8], spans: &'a [Span]) -> Self {
        Self { bytes, spans }
    }

    /// Bytes of all of them.
    pub(crate) fn total_bytes(&self) -> usize {
        self.spans.iter().map(|span| span.len as usize).sum()
    }

    /// How many there are, the name counted.
    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    /// Returns argument `index` (0 is the name), or an empty one if there is none: the dispatcher
    /// has checked the arity, so a handler asks only for arguments that are there.
    pub(crate) fn at(&self, index: usize) -> &'a [u8] {
        self.get(index).unwrap_or_default()
    }

    /// Argument `index`, if there is one.
    pub(crate) fn get(&self, index: usize) -> Option<&'a [u8]> {
        let span = self.spans.get(index)?;
        let start = span.start as usize;
        self.bytes.get(start..start + span.len as usize)
    }

    /// Returns the arguments from `first` on as those of a command of their own.
    pub(crate) fn behind(&self, first: usize) -> Self {
        Self { bytes: self.bytes, spans: self.spans.get(first..).unwrap_or_default() }
    }

    /// The arguments from `first` on.
    pub(crate) fn from(&self, first: usize) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let all = *self;
        (first.min(all.len())..all.len()).map(move |index| all.at(index))
    }

    /// Returns argument `index` in lower case, for a word that is looked up: bytes beyond the
    /// longest word are cut off.
    pub(crate) fn word(&self, index: usize) -> String {
        let arg = self.at(index);
        let front = arg.get(..arg.len().min(WORD_BYTES)).unwrap_or_default();
        String::from_utf8_lossy(front).to_ascii_lowercase()
    }

    /// Returns whether argument `index` is `word`, in upper or lower case.
    pub(crate) fn is(&self, index: usize, word: &str) -> bool {
        self.at(index).eq_ignore_ascii_case(word.as_bytes())
    }
}

/// Arguments that outlive the buffer they came in, for a queued command.
#[derive(Debug, Default)]
pub(crate) struct OwnedArgs {
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

impl OwnedArgs {
    /// The arguments at `spans` of a command at the end of `bytes`, which is `len` bytes long.
    pub(crate) fn at_end(bytes: Vec<u8>, len: usize, mut spans: Vec<Span>) -> Self {
        // The input is bounded as a command is.
        let begin = bytes.len().saturating_sub(len) as u32;
        spans.iter_mut().for_each(|span| span.start += begin);
        Self { bytes, spans }
    }

    /// Copies of arguments, the name first.
    pub(crate) fn of<'a>(args: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut copy = Self::default();
        args.for_each(|arg| copy.push(arg));
        copy
    }

    /// A copy of `args`.
    pub(crate) fn copy(args: Args<'_>) -> Self {
        let mut copy = Self { bytes: Vec::with_capacity(args.total_bytes()), spans: Vec::new() };
        for arg in args.from(0) {
            copy.push(arg);
        }
        copy
    }

    fn push(&mut self, arg: &[u8]) {
        // A command is bounded far below 4 GiB (`Bounds::COMMAND_BYTES_MAX`).
        self.spans.push(Span { start: self.bytes.len() as u32, len: arg.len() as u32 });
        self.bytes.extend_from_slice(arg);
    }

    /// The arguments.
    pub(crate) fn args(&self) -> Args<'_> {
        Args::new(&self.bytes, &self.spans)
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.spans.capacity() * size_of::<Span>()
    }
}
