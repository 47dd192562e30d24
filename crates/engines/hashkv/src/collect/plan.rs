//! The choice of victims: the segments of a group that a job collects, and in which order.
//!
//! The planner is a pure function. Its tests are text files in `plan/cases`.

use crate::options::Policy;

/// A segment that a job may collect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    /// Its number.
    pub(super) number: u64,
    /// Bytes of the device that collecting it frees.
    pub(super) bytes: u64,
    /// Bytes that collecting it copies.
    pub(super) copied: u64,
    /// Bytes of records that go.
    pub(super) dead: u64,
    /// Writes since its newest record.
    pub(super) age: u64,
}

/// Returns the numbers of the victims, the first ones first. A job ends once it has freed enough.
/// `random` returns a number below its argument.
pub(super) fn plan(
    policy: Policy,
    candidates: &[Candidate],
    random: &mut dyn FnMut(u64) -> u64,
) -> Vec<u64> {
    let mut left: Vec<Candidate> = candidates.iter().copied().filter(is_worth_it).collect();
    match policy {
        Policy::CostBenefit => left.sort_by(|a, b| benefit(b).total_cmp(&benefit(a))),
        Policy::Greedy => left.sort_by_key(|one| one.copied),
        Policy::GreedyRandom => left = greedy_random(left, random),
        // All segments of the group, from the oldest on.
        Policy::Group => left = candidates.to_vec(),
    }
    // On a full device nothing can be copied.
    left.sort_by_key(|one| one.copied > 0);
    left.iter().map(|one| one.number).collect()
}

/// Returns whether collecting a segment frees more than it writes.
fn is_worth_it(candidate: &Candidate) -> bool {
    candidate.dead > 0 && candidate.copied < candidate.bytes
}

/// The benefit of a segment over its cost: free bytes times age, over the bytes that are read and
/// written.
fn benefit(candidate: &Candidate) -> f64 {
    let used = candidate.copied as f64 / candidate.bytes as f64;
    (1.0 - used) * (candidate.age + 1) as f64 / (1.0 + used)
}

/// Each victim is the best of a few that are drawn.
fn greedy_random(mut left: Vec<Candidate>, random: &mut dyn FnMut(u64) -> u64) -> Vec<Candidate> {
    const DRAWN: usize = 5;
    let mut victims = Vec::new();
    while !left.is_empty() {
        let drawn = (0..DRAWN).map(|_| random(left.len() as u64) as usize);
        let best = drawn.min_by_key(|at| left.get(*at).map(|one| one.copied));
        victims.push(left.swap_remove(best.unwrap_or(0).min(left.len() - 1)));
    }
    victims
}

#[cfg(test)]
mod tests;
