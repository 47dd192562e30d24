//! Tests of the planner, from text.

use super::{Candidate, plan};
use crate::options::Policy;

/// A case of `cases.txt`.
#[derive(Default)]
struct Case {
    line: usize,
    policy: String,
    candidates: Vec<Candidate>,
}

impl Case {
    fn victims(&self) -> Vec<u64> {
        let policy = Policy::ALL.into_iter().find(|policy| policy.name() == self.policy);
        let policy = policy.unwrap_or_else(|| panic!("line {}: a policy", self.line));
        let mut drawn = 0;
        let mut random = |below: u64| {
            drawn += 1;
            drawn % below
        };
        plan(policy, &self.candidates, &mut random)
    }
}

#[test]
fn the_planner_chooses_as_its_cases_say() {
    let mut case = Case::default();
    let mut cases = 0;
    for (line, text) in (1..).zip(include_str!("cases.txt").lines()) {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let numbers = || -> Vec<u64> {
            rest.split_whitespace().map(|word| word.parse().expect("a number")).collect()
        };
        match word {
            "policy" => case = Case { line, policy: rest.to_owned(), ..Case::default() },
            "candidate" => {
                let [number, bytes, copied, dead, age] = numbers()[..] else {
                    panic!("line {line}: five numbers");
                };
                case.candidates.push(Candidate { number, bytes, copied, dead, age });
            }
            "victims" => {
                assert_eq!(case.victims(), numbers(), "the case of line {}", case.line);
                cases += 1;
            }
            "" | "#" => {}
            other => panic!("line {line}: {other}"),
        }
    }
    assert_eq!(cases, 7);
}

/// Drawn at random, each candidate is a victim once.
#[test]
fn a_random_order_has_each_victim_once() {
    let candidate = |number| Candidate { number, bytes: 100, copied: number, dead: 1, age: 1 };
    let candidates: Vec<_> = (0..40).map(candidate).collect();
    let mut state = 1;
    let mut random = |below: u64| {
        state = codec::hash64(state, b"next");
        state % below
    };
    let mut victims = plan(Policy::GreedyRandom, &candidates, &mut random);
    assert_ne!(victims, plan(Policy::Greedy, &candidates, &mut random));
    // Emptier segments come first, by and large.
    assert!(victims[..10].iter().sum::<u64>() < victims[30..].iter().sum());
    victims.sort_unstable();
    assert_eq!(victims, Vec::from_iter(0..40));
}
