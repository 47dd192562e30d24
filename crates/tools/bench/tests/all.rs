//! The tests that need no process of their own, as one program that is linked once.
//!
//! A new file of tests becomes a module here; `./dev check` fails if one is left out.

mod clusters;
mod install;
mod ours;
mod runs;
mod small_run;
mod stores;
