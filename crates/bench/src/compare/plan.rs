//! Who runs when.

use crate::stores::is_ours;

/// A comparison, as asked for.
#[derive(Clone, Debug)]
pub struct CompareConfig {
    /// Our engine's name.
    pub engine: String,
    /// Other stores' names: theirs, or variants of ours.
    pub with: Vec<String>,
    /// Workload names, in order.
    pub workloads: Vec<String>,
    /// How often each store runs each workload.
    pub rounds: u32,
    /// The first round's seed; each round has the next.
    pub seed: u64,
    /// Options that every run gets, as on the command line, without engine, workload and seed.
    pub options: Vec<String>,
}

/// One run of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The store.
    pub store: String,
    /// Whether it is ours.
    pub ours: bool,
    /// The workload.
    pub workload: String,
    /// From 0.
    pub round: u32,
    /// The options that follow `bench run`.
    pub options: Vec<String>,
}

/// All runs, in order: within a workload the stores take turns.
pub fn turns(config: &CompareConfig) -> Vec<Turn> {
    let stores: Vec<(&String, bool)> = std::iter::once((&config.engine, true))
        .chain(config.with.iter().map(|store| (store, is_ours(store))))
        .collect();
    let mut turns = Vec::new();
    for workload in &config.workloads {
        for round in 0..config.rounds {
            for &(store, ours) in &stores {
                let mut options = vec![
                    format!("--engine={store}"),
                    format!("--workload={workload}"),
                    format!("--seed={}", config.seed.wrapping_add(u64::from(round))),
                ];
                options.extend(config.options.iter().cloned());
                let (store, workload) = (store.clone(), workload.clone());
                turns.push(Turn { store, ours, workload, round, options });
            }
        }
    }
    turns
}
