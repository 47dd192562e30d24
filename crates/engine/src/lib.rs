//! The contract that every storage engine answers.
