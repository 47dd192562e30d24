//! The memory device against the shared suite.

crate::device_suite!(memory, || (crate::memory(), ()));
