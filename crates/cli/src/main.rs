//! The thermocline command.

fn main() {}
