//! The content of a page of results, as written down in TOML.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use crate::compare::{CompareConfig, check_ours, merged};
use crate::memory::parse_bytes;
use crate::stores::is_ours;

/// A page.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// The page's title.
    pub title: String,
    /// A paragraph below it.
    #[serde(default)]
    pub about: String,
    /// Paragraphs at the end.
    #[serde(default)]
    pub notes: String,
    /// Options of every run, as `--threads=2`.
    #[serde(default)]
    pub options: Vec<String>,
    /// How often each store runs each workload.
    pub rounds: u32,
    /// Whether each store is loaded once in a comparison, for all its runs that begin alike.
    #[serde(default)]
    pub share_loads: bool,
    /// Whether a round runs all workloads of a comparison on one store, which is opened and warmed
    /// up once.
    #[serde(default)]
    pub one_opening: bool,
    /// Whether each store gets the cache of its own guide, and none is searched for.
    #[serde(default)]
    pub default_caches: bool,
    /// Another build of ours, which takes turns with this one in every comparison.
    pub baseline: Option<PathBuf>,
    /// The comparisons, in order.
    pub comparison: Vec<Wanted>,
}

/// One comparison.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// Its heading.
    pub title: String,
    /// A paragraph below it.
    #[serde(default)]
    pub about: String,
    /// Our engine. It and the other stores may have options of their own, as `f2@depth=64`.
    pub engine: String,
    /// The other stores.
    #[serde(default)]
    pub with: Vec<String>,
    /// The workloads; each may have options of its own, as `rw50@distribution=uniform`.
    pub workloads: Vec<String>,
    /// How often each store runs each of them, if not as often as in the rest of the suite.
    pub rounds: Option<u32>,
    /// In place of the suite's.
    pub share_loads: Option<bool>,
    /// In place of the suite's.
    pub one_opening: Option<bool>,
    /// The caches with which the searches of some stores begin.
    #[serde(default)]
    pub first_caches: BTreeMap<String, String>,
    /// Another page in the same directory. Its comparison of the same title has the figures, and
    /// nothing is run.
    pub from: Option<String>,
    /// Options of its runs, in place of the suite's if both have one.
    #[serde(default)]
    pub options: Vec<String>,
}

/// A suite that cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    /// The file is not what it should be.
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    /// A comparison names something that does not exist.
    #[error("comparison {title:?}: {problem}")]
    Comparison {
        /// Which.
        title: String,
        /// In words.
        problem: String,
    },
}

impl Suite {
    /// Reads a suite, and checks the names of its workloads and of our stores.
    ///
    /// # Errors
    /// It is no suite, or a comparison has nothing to do, or an unknown workload or setting.
    pub fn parse(text: &str) -> Result<Self, SuiteError> {
        let suite: Self = toml::from_str(text)?;
        if suite.rounds == 0 {
            let (title, problem) = (suite.title, "no rounds".to_owned());
            return Err(SuiteError::Comparison { title, problem });
        }
        for wanted in &suite.comparison {
            let refused =
                |problem: String| SuiteError::Comparison { title: wanted.title.clone(), problem };
            if wanted.rounds == Some(0) {
                return Err(refused("no rounds".to_owned()));
            }
            if wanted.workloads.is_empty() {
                return Err(refused("no workloads".to_owned()));
            }
            if !is_ours(&wanted.engine) {
                return Err(refused(format!("{:?} is none of our engines", wanted.engine)));
            }
            if let Some(cache) = wanted.first_caches.values().find(|it| parse_bytes(it).is_err()) {
                return Err(refused(format!("{cache:?} is no size of a cache")));
            }
            let stores = std::iter::once(&wanted.engine).chain(&wanted.with);
            check_ours(stores, &wanted.workloads).map_err(refused)?;
        }
        Ok(suite)
    }

    /// Returns the configuration of a comparison. `rounds` and `more` replace the suite's rounds,
    /// and its options of the same name.
    pub fn config(&self, wanted: &Wanted, rounds: Option<u32>, more: &[String]) -> CompareConfig {
        let rounds = rounds.or(wanted.rounds).unwrap_or(self.rounds);
        let options = merged(self.options.iter().chain(&wanted.options).chain(more).cloned());
        CompareConfig {
            engine: wanted.engine.clone(),
            with: wanted.with.clone(),
            workloads: wanted.workloads.clone(),
            rounds,
            seed: 1,
            options,
            shares_loads: wanted.share_loads.unwrap_or(self.share_loads),
            has_one_opening: wanted.one_opening.unwrap_or(self.one_opening),
            searches_caches: !self.default_caches,
            first_caches: wanted.first_caches.clone(),
            has_baseline: self.baseline.is_some(),
        }
    }
}
