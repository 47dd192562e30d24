//! The choice of StoCs for new tables and segments of logs. (Nova-LSM, section 4.4)
//!
//! 1. Ready StoCs are chosen first. Slow ones follow if too few are ready, and failed ones come
//!    last.
//! 2. *Power-of-d*: two random StoCs are compared for each one that is wanted. If these have too
//!    few failure domains, random StoCs of other domains are added.
//! 3. The StoC with the shortest wait is taken, among those whose domain has the fewest parts so
//!    far. This is repeated until there are enough.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use environment::Random;
use rand::seq::SliceRandom;

/// How an LTC chooses the StoCs for new tables and segments of logs. Each way spreads them over
/// failure domains, and takes StoCs that have failed a short time ago last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StocChoice {
    /// Two random StoCs are compared by their load for each one that is wanted.
    #[default]
    PowerOfTwo,
    /// Random StoCs, whatever their load is.
    Random,
}

/// A failure domain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Domain {
    /// A domain that StoCs share.
    Named(String),
    /// The domain of one StoC, by its number.
    Own(u32),
}

/// Whether a StoC should get something new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Ready,
    /// It is much slower than the others.
    Slow,
    /// A request has failed a short time ago.
    Failed,
}

/// A StoC that can be chosen.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) node: u32,
    pub(crate) domain: Domain,
    pub(crate) standing: Standing,
    /// The expected time until the StoC has served all that it was sent, in seconds.
    pub(crate) wait: f64,
}

impl Domain {
    /// Returns the domain of a StoC that names `name`, or none.
    pub(crate) fn of(node: u32, name: Option<String>) -> Self {
        name.map_or(Self::Own(node), Self::Named)
    }
}

/// Returns at most `count` StoCs. `taken` has the domains of other parts of the same thing.
pub(crate) fn choose(
    choice: StocChoice,
    mut candidates: Vec<Candidate>,
    count: usize,
    taken: impl IntoIterator<Item = Domain>,
    random: &mut Random,
) -> Vec<u32> {
    candidates.shuffle(random);
    let mut parts: BTreeMap<Domain, usize> = BTreeMap::new();
    taken.into_iter().for_each(|domain| *parts.entry(domain).or_default() += 1);
    let mut chosen = Vec::new();
    for standing in [Standing::Ready, Standing::Slow, Standing::Failed] {
        let group = candidates.iter().filter(|candidate| choice.standing(candidate) == standing);
        let mut compared = compared(choice, group, count - chosen.len(), &parts);
        if choice == StocChoice::PowerOfTwo {
            compared.sort_by(|one, other| one.wait.total_cmp(&other.wait));
        }
        while chosen.len() < count {
            let parts_of = |candidate: &Candidate| parts.get(&candidate.domain).copied();
            let best = compared.iter().enumerate().min_by_key(|(_, candidate)| parts_of(candidate));
            let Some((at, _)) = best else { break };
            let candidate = compared.remove(at);
            *parts.entry(candidate.domain.clone()).or_default() += 1;
            chosen.push(candidate.node);
        }
    }
    chosen
}

/// Returns the StoCs of a group that are compared, for `wanted` parts. The group is in a random
/// order.
fn compared<'c>(
    choice: StocChoice,
    group: impl Iterator<Item = &'c Candidate>,
    wanted: usize,
    parts: &BTreeMap<Domain, usize>,
) -> Vec<&'c Candidate> {
    let draws = wanted.saturating_mul(choice.draws());
    let (mut compared, mut domains) = (Vec::new(), BTreeSet::new());
    for candidate in group {
        let is_new = !parts.contains_key(&candidate.domain) && !domains.contains(&candidate.domain);
        if compared.len() < draws || (is_new && domains.len() < wanted) {
            if is_new {
                domains.insert(&candidate.domain);
            }
            compared.push(candidate);
        }
    }
    compared
}

impl StocChoice {
    /// Returns the number of StoCs that are compared for each one that is wanted.
    fn draws(self) -> usize {
        match self {
            Self::PowerOfTwo => 2,
            Self::Random => 1,
        }
    }

    /// Returns whether a StoC should get something new. A random choice depends on no load.
    fn standing(self, candidate: &Candidate) -> Standing {
        match (self, candidate.standing) {
            (Self::Random, Standing::Slow) => Standing::Ready,
            (_, standing) => standing,
        }
    }
}
