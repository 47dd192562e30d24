//! The operations of one thread, in order, from a seed.
//!
//! A thread's stream depends on the seed, the thread's index and the options alone, never on other
//! threads' work. It inserts numbers of its own residue class above the loaded keys, and "the
//! latest" are its own inserts and then the loaded keys. So every key that a stream reads has been
//! acknowledged to its own thread, and the same seed gives the same operations.

use std::sync::Arc;

use environment::{Random, Seed};

use super::{Mix, ScanLength, Trace, TraceVerb, Workload};
use crate::distribution::{Choice, Distribution, below, unit};

/// One operation on the key with a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A point read.
    Read(u64),
    /// A blind write, of this number of bytes if not the shape's.
    Put(u64, Option<u32>),
    /// An atomic read-modify-write, to this number of bytes if not the shape's.
    Rmw(u64, Option<u32>),
    /// A delete.
    Delete(u64),
    /// A range read from a key on, of this number of pairs.
    Scan(u64, u32),
}

/// Which of how many threads a stream is for.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// From 0.
    pub thread: usize,
    /// How many there are.
    pub threads: usize,
}

/// The inputs of a stream.
#[derive(Clone, Debug)]
pub struct StreamOptions {
    /// The workload.
    pub workload: Workload,
    /// The trace, if the workload is one.
    pub trace: Option<Arc<Trace>>,
    /// Keys that are loaded before it begins.
    pub keys: u64,
    /// Which keys it touches.
    pub distribution: Distribution,
    /// Zipf's exponent.
    pub theta: f64,
    /// Pairs a scan, if not the workload's own.
    pub scan_length: Option<u32>,
    /// The run's seed.
    pub seed: u64,
}

/// A thread's operations.
#[derive(Debug)]
pub struct Stream {
    place: Place,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Drawn(Box<Drawn>),
    Traced { trace: Arc<Trace>, next: usize },
}

#[derive(Debug)]
struct Drawn {
    mix: Mix,
    scan: ScanLength,
    choice: Choice,
    random: Random,
    keys: u64,
    inserted: u64,
}

impl Stream {
    /// The stream of one thread.
    pub fn new(options: &StreamOptions, place: Place) -> Self {
        let source = match &options.trace {
            Some(trace) => Source::Traced { trace: trace.clone(), next: 0 },
            None => Source::Drawn(Box::new(Drawn::new(options, place))),
        };
        Self { place, source }
    }

    /// The same thread's stream of another workload, which knows the keys that this one has
    /// inserted.
    #[must_use]
    pub fn followed_by(&self, options: &StreamOptions) -> Self {
        let mut next = Self::new(options, self.place);
        if let Source::Drawn(drawn) = &mut next.source {
            drawn.inserted = self.inserted();
        }
        next
    }

    /// Keys that this stream has inserted so far.
    pub fn inserted(&self) -> u64 {
        match &self.source {
            Source::Drawn(drawn) => drawn.inserted,
            Source::Traced { .. } => 0,
        }
    }
}

impl Iterator for Stream {
    type Item = Operation;

    /// The next operation; `None` at the end of a trace.
    fn next(&mut self) -> Option<Operation> {
        match &mut self.source {
            Source::Drawn(drawn) => Some(drawn.next(self.place)),
            Source::Traced { trace, next } => next_traced(trace, next, self.place),
        }
    }
}

impl Drawn {
    fn new(options: &StreamOptions, place: Place) -> Self {
        let Place { thread, threads } = place;
        let keys = options.keys.max(1);
        let first = (u128::from(keys) * thread as u128 / threads as u128) as u64;
        let choice = match options.workload {
            Workload::MixGraphAll { .. } => Choice::mixgraph_all(keys),
            Workload::MixGraphPrefix { .. } => Choice::mixgraph_prefix(keys),
            _ => Choice::new(options.distribution, keys, options.theta, first),
        };
        let scan = match options.scan_length {
            Some(pairs) => ScanLength::Fixed(pairs),
            None => options.workload.scan_length(),
        };
        Self {
            mix: options.workload.mix(),
            scan,
            choice,
            random: Seed::from(options.seed).child(thread as u64).stream("operations"),
            keys,
            inserted: 0,
        }
    }

    fn next(&mut self, place: Place) -> Operation {
        let Mix { read, update, insert, rmw, .. } = self.mix;
        let share = below(&mut self.random, 100) as u32;
        if share < read {
            return Operation::Read(self.existing(place));
        }
        let share = share - read;
        if share < update {
            return Operation::Put(self.existing(place), None);
        }
        let share = share - update;
        if share < insert {
            let number = self.number_of_insert(self.inserted, place);
            self.inserted += 1;
            return Operation::Put(number, None);
        }
        if share - insert < rmw {
            return Operation::Rmw(self.existing(place), None);
        }
        let number = self.existing(place);
        Operation::Scan(number, self.scan_pairs())
    }

    /// A loaded key, or one that this stream has inserted.
    fn existing(&mut self, place: Place) -> u64 {
        let item = self.choice.draw(self.inserted, &mut self.random);
        if item < self.keys { item } else { self.number_of_insert(item - self.keys, place) }
    }

    fn number_of_insert(&self, index: u64, place: Place) -> u64 {
        self.keys + index * place.threads as u64 + place.thread as u64
    }

    fn scan_pairs(&mut self) -> u32 {
        match self.scan {
            ScanLength::Fixed(pairs) => pairs,
            ScanLength::UpTo(max) => 1 + below(&mut self.random, u64::from(max)) as u32,
            ScanLength::Pareto(lengths) => (lengths.quantile(unit(&mut self.random)) as u32).max(1),
        }
    }
}

/// The next operation of the trace on a key of this thread: keys are dealt out to threads, so that
/// the operations of one key keep their order.
fn next_traced(trace: &Trace, next: &mut usize, place: Place) -> Option<Operation> {
    loop {
        let traced = trace.operations().get(*next)?;
        *next += 1;
        if traced.number % place.threads as u64 != place.thread as u64 {
            continue;
        }
        let number = traced.number;
        return Some(match traced.verb {
            TraceVerb::Get => Operation::Read(number),
            TraceVerb::Put => Operation::Put(number, traced.amount),
            TraceVerb::Rmw => Operation::Rmw(number, traced.amount),
            TraceVerb::Delete => Operation::Delete(number),
            TraceVerb::Scan => Operation::Scan(number, traced.amount.unwrap_or(1)),
        });
    }
}
