//! The pool that runs background work, and its hand-cranked twin for tests.
