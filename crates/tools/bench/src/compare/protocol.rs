//! The agreement of two programs before one of them runs stores for the other.
//!
//! A comparison asks each program by `bench protocol`, before anything is loaded. A program that is
//! missing, or has another [`PROTOCOL`], is an error of the comparison as a whole: its options and
//! its reports would not mean the same.

use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::ChildError;
use crate::stores::Catalog;

/// The number of this protocol: the options of `bench run` and `bench prepare`, and the fields of a
/// report. It grows whenever an older program would not understand an option, or would report a
/// figure of another meaning.
pub const PROTOCOL: u32 = 2;

/// The stores of a program, and the protocol by which it runs them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Abilities {
    /// [`PROTOCOL`] of the program.
    pub protocol: u32,
    /// The stores that it opens.
    pub stores: Vec<StoreAbilities>,
}

/// One of its stores.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreAbilities {
    /// The name, without settings.
    pub name: String,
    /// Whether `--cache` decides how much it keeps resident.
    pub sizes_cache: bool,
}

impl Abilities {
    /// Returns the protocol of a program with the stores of `catalog`.
    pub fn of(catalog: &dyn Catalog) -> Self {
        let store = |name: &&str| StoreAbilities {
            name: (*name).to_owned(),
            sizes_cache: catalog.sizes_cache(name),
        };
        Self { protocol: PROTOCOL, stores: catalog.names().iter().map(store).collect() }
    }

    /// Asks `program`.
    ///
    /// # Errors
    /// It cannot be started, or speaks another protocol.
    pub fn ask(program: &Path) -> Result<Self, ChildError> {
        let output = Command::new(program)
            .args(["bench", "protocol"])
            .stdin(Stdio::null())
            .output()
            .map_err(|error| ChildError::Start(program.to_owned(), error))?;
        let abilities: Option<Self> = serde_json::from_slice(&output.stdout).ok();
        match abilities.filter(|it| it.protocol == PROTOCOL && output.status.success()) {
            Some(abilities) => Ok(abilities),
            None => Err(ChildError::Protocol(program.to_owned())),
        }
    }

    /// Whether the store `name`, with or without settings, obeys `--cache`.
    pub fn sizes_cache(&self, name: &str) -> bool {
        let plain = name.split(':').next().unwrap_or(name);
        self.stores.iter().any(|store| store.name == plain && store.sizes_cache)
    }
}
