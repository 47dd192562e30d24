//! The tests that need no process of their own, as one program that is linked once.
//!
//! A new file of tests becomes a module here; `./dev check` fails if one is left out.
#![cfg(not(any(loom, shuttle)))]

mod channel;
mod epoch;
mod locks;
