//! The order of the runs of a comparison.

use std::collections::BTreeMap;

use crate::stores::{check, is_ours};
use crate::workload::Workload;

/// A comparison, as asked for.
#[derive(Clone, Debug)]
pub struct CompareConfig {
    /// Our engine's name.
    pub engine: String,
    /// Other stores' names: theirs, or variants of ours. The text after an `@` in each name, and in
    /// `engine`, is an option of this store's runs alone: `rocksdb@threads=64`.
    pub with: Vec<String>,
    /// Workload names, in order; each may have options of its own, too:
    /// `rw50@distribution=uniform`.
    pub workloads: Vec<String>,
    /// How often each store runs each workload.
    pub rounds: u32,
    /// The first round's seed; each round has the next.
    pub seed: u64,
    /// Options that every run gets, as on the command line, without engine, workload and seed.
    pub options: Vec<String>,
    /// Whether runs of a store begin from copies of one load, if they can.
    pub shares_loads: bool,
    /// Whether a round runs its workloads one after another on one store, which is opened and
    /// warmed up once.
    pub has_one_opening: bool,
    /// Whether each store gets the largest cache with which it keeps the budget, or the one of its
    /// guide.
    pub searches_caches: bool,
    /// The caches with which the searches of some stores begin, as `--cache` takes them. Without
    /// one a search begins with the cache of the store's guide.
    pub first_caches: BTreeMap<String, String>,
    /// Whether another build of ours takes turns with this one.
    pub has_baseline: bool,
}

/// The row of a load that is part of a round.
pub(super) const LOAD: &str = "load";

impl CompareConfig {
    /// Whether each round loads the store and reports the load.
    pub(super) fn measures_loads(&self) -> bool {
        self.has_one_opening && !self.shares_loads
    }

    /// The rows to which the reports of `turn` belong.
    pub(super) fn rows(&self, turn: &Turn) -> Vec<String> {
        let load = self.measures_loads().then(|| LOAD.to_owned());
        load.into_iter().chain(turn.workloads.iter().cloned()).collect()
    }
}

/// The program that runs a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// This one.
    Ours,
    /// The peers'.
    Peers,
    /// Another build of ours.
    Baseline,
}

/// One process of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The store, with its own options, as the comparison names it.
    pub store: String,
    /// The program that runs it.
    pub side: Side,
    /// For a baseline, the name of the same store of this build.
    pub twin: Option<String>,
    /// The workloads, likewise. There are several if a round has one opening.
    pub workloads: Vec<String>,
    /// From 0.
    pub round: u32,
    /// Whether it is a run of the search for a cache, before the rounds.
    pub is_trial: bool,
    /// The options that follow `bench run`.
    pub options: Vec<String>,
}

impl Turn {
    /// The workloads in one word.
    pub fn workload(&self) -> String {
        self.workloads.join(",")
    }
}

/// All runs, in order, by workload, or by round if all workloads share an opening. Within each the
/// stores take turns.
pub fn turns(config: &CompareConfig) -> Vec<Vec<Turn>> {
    let mut stores = vec![(config.engine.clone(), Side::Ours, None)];
    if config.has_baseline {
        let twin = config.engine.clone();
        stores.push((format!("{twin} (baseline)"), Side::Baseline, Some(twin)));
    }
    stores.extend(config.with.iter().map(|store| {
        let side = if is_ours(store) { Side::Ours } else { Side::Peers };
        (store.clone(), side, None)
    }));
    let of_workloads = |workloads: &[String]| {
        let of_round = |round| {
            let turn = move |store: &Store| turn(config, workloads, store, round);
            stores.iter().map(turn).collect::<Vec<_>>()
        };
        (0..config.rounds).flat_map(of_round).collect()
    };
    match config.has_one_opening {
        true => vec![of_workloads(&config.workloads)],
        false => {
            config.workloads.iter().map(|one| of_workloads(std::slice::from_ref(one))).collect()
        }
    }
}

/// A name, the program that runs it, and of a baseline the name of its twin.
type Store = (String, Side, Option<String>);

fn turn(
    config: &CompareConfig,
    workloads: &[String],
    (store, side, twin): &Store,
    round: u32,
) -> Turn {
    let (name, own) = parted(twin.as_ref().unwrap_or(store));
    let seed = config.seed.wrapping_add(u64::from(round));
    // Each of several workloads keeps its own options. The child applies them to that workload
    // alone.
    let (verbs, of_workload) = match workloads {
        [workload] => {
            let (verbs, own) = parted(workload);
            (verbs.to_owned(), own.collect())
        }
        workloads => (workloads.join(","), Vec::new()),
    };
    let options =
        [format!("--engine={name}"), format!("--workload={verbs}"), format!("--seed={seed}")];
    let options = options.into_iter().chain(config.options.iter().cloned());
    Turn {
        store: store.clone(),
        side: *side,
        twin: twin.clone(),
        workloads: workloads.to_vec(),
        round,
        is_trial: false,
        options: merged(options.chain(of_workload).chain(own)),
    }
}

/// Refuses workloads that do not exist, and stores of ours that lack a named option, or cannot do
/// one of the workloads. Nothing is known of theirs here.
pub(crate) fn check_ours<'a>(
    stores: impl Iterator<Item = &'a String> + Clone,
    workloads: &[String],
) -> Result<(), String> {
    for named in workloads {
        let workload: Workload = parted(named).0.parse().map_err(|error| format!("{error}"))?;
        for store in stores.clone().filter(|store| is_ours(store)) {
            check(parted(store).0, &workload).map_err(|error| format!("{store}: {error}"))?;
        }
    }
    Ok(())
}

/// The name of a store or a workload, and the options of its runs alone. A trace has none: its file
/// may be named as it likes.
pub(crate) fn parted(named: &str) -> (&str, impl Iterator<Item = String>) {
    let is_trace = named.starts_with("trace:");
    let mut parts = named.split(move |letter: char| letter == '@' && !is_trace);
    (parts.next().unwrap_or_default(), parts.map(|option| format!("--{option}")))
}

/// Returns the last of the options of each name, in the order of the last.
pub fn merged(options: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for option in options {
        all.retain(|other| name_of(other) != name_of(&option));
        all.push(option);
    }
    all
}

/// `--threads` of `--threads=2`.
fn name_of(option: &str) -> &str {
    option.split('=').next().unwrap_or(option)
}
