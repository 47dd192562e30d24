//! Engine memory: an ordered concurrent map, snapshotted; the oracle of the others.
