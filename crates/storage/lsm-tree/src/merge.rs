//! Many walks as one, in the order of entries.
//!
//! The same version may be in two places: a write that was applied again after a crash, and had
//! reached a table before it. The walk yields both, in sequence, and a reader that compares keys
//! sees no difference.

#[cfg(all(test, not(shuttle)))]
mod tests;

use engine::Result;

use crate::entry::{Aim, Entry, EntryCursor, Target};
use crate::table::{Missing, Piece};

/// The merged walk.
pub struct Merged {
    sources: Vec<Box<dyn EntryCursor>>,
    /// The source whose entry comes next.
    at: Option<usize>,
}

impl Merged {
    /// Makes a walk without a position.
    pub fn new(sources: Vec<Box<dyn EntryCursor>>) -> Self {
        Self { sources, at: None }
    }

    /// Finds the source that is first in the direction of the walk. There are few.
    fn choose(&mut self, forward: bool) {
        let mut best: Option<(usize, Target<'_>)> = None;
        for (index, source) in self.sources.iter().enumerate() {
            let Some(entry) = source.entry() else { continue };
            let target = entry.target();
            let is_better =
                best.is_none_or(|(_, best)| if forward { target < best } else { target > best });
            if is_better {
                best = Some((index, target));
            }
        }
        self.at = best.map(|(index, _)| index);
    }

    fn advance(
        &mut self,
        forward: bool,
        step: impl FnOnce(&mut dyn EntryCursor) -> Result<()>,
    ) -> Result<()> {
        let Some(source) = self.at.and_then(|at| self.sources.get_mut(at)) else { return Ok(()) };
        step(source.as_mut())?;
        self.choose(forward);
        Ok(())
    }
}

impl Merged {
    /// Moves to `aim`. Before that, `read_all` may do together the reads that several sources would
    /// otherwise do sequentially.
    pub fn go_to(&mut self, aim: Aim<'_>, read_all: &dyn Fn(&[Missing])) -> Result<()> {
        let mut missing = Vec::new();
        for source in &mut self.sources {
            missing.extend(source.aim(aim)?);
        }
        let is_metadata = |it: &Missing| it.piece == Piece::Metadata;
        if missing.len() > 1 && missing.iter().any(is_metadata) {
            read_all(&missing);
            missing.clear();
            for source in &mut self.sources {
                // After metadata there is a block to read, and nothing after that.
                missing.extend(source.aim(aim)?.filter(|it| !is_metadata(it)));
            }
        }
        if missing.len() > 1 {
            read_all(&missing);
        }
        match aim {
            Aim::At(to) => self.seek(to),
            Aim::Before(to) => self.seek_before(to),
        }
    }
}

impl EntryCursor for Merged {
    fn allow_reads(&mut self, is_allowed: bool) {
        self.sources.iter_mut().for_each(|source| source.allow_reads(is_allowed));
    }

    fn seek(&mut self, to: Target<'_>) -> Result<()> {
        self.at = None;
        for source in &mut self.sources {
            source.seek(to)?;
        }
        self.choose(true);
        Ok(())
    }

    fn seek_before(&mut self, to: Option<Target<'_>>) -> Result<()> {
        self.at = None;
        for source in &mut self.sources {
            source.seek_before(to)?;
        }
        self.choose(false);
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.advance(true, |source| source.next())
    }

    fn previous(&mut self) -> Result<()> {
        self.advance(false, |source| source.previous())
    }

    fn entry(&self) -> Option<Entry<'_>> {
        self.at.and_then(|at| self.sources.get(at)).and_then(|source| source.entry())
    }
}
