//! The engine `nova` in a program without the feature `cluster`: each use is refused.

use std::sync::Arc;

use super::{ClusterSettings, OpenOptions, Store, StoreError};
use crate::run::Config;

fn refused() -> StoreError {
    "this program was built without the feature cluster, which the engine nova needs: `cargo build \
     --release -p thermocline-cli --features cluster` builds it, and needs a C compiler"
        .into()
}

/// Refuses the name of a store.
pub(super) fn check_name(_name: &str) -> Result<(), StoreError> {
    Err(refused())
}

/// Refuses a run.
pub(super) fn check(_config: &Config, _cluster: &ClusterSettings) -> Result<(), StoreError> {
    Err(refused())
}

/// Opens no store.
pub(super) fn open(_name: &str, _options: &OpenOptions) -> Result<Arc<dyn Store>, StoreError> {
    Err(refused())
}
