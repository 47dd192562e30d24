//! The memory device against the shared suite.

crate::tests::suite!(memory, || (crate::memory(), ()));
