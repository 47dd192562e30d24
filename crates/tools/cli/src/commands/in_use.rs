//! The advice of each command if another process has the database open.

use crate::arguments::Command;
use crate::failure::{Failure, Kind};

/// Adds the advice of `command` to a failure of the kind [`Kind::InUse`].
pub(super) fn advise(failure: Failure, command: &Command) -> Failure {
    match failure.kind {
        Kind::InUse => {
            Failure { message: format!("{}; {}", failure.message, advice(command)), ..failure }
        }
        _ => failure,
    }
}

fn advice(command: &Command) -> &'static str {
    match command {
        Command::Stats(_) => {
            "stop the process that has it open, or ask a running server: a Redis client prints its \
             figures with INFO thermocline, and `serve --metrics` has them at GET /metrics"
        }
        Command::Get(_) | Command::Put(_) | Command::Del(_) | Command::Scan(_) => {
            "stop the process that has it open, or ask a running server: a Redis client reads and \
             writes the keyspaces redis-0 to redis-15, as databases 0 to 15"
        }
        Command::Backup(_) | Command::Dump(_) | Command::Check(_) => {
            "stop the process that has it open, or have a running server make a backup: BGSAVE of a \
             Redis client does so with `serve --backups DIR`; `check` and `restore` take it"
        }
        Command::Flexspace(_) => "stop the process that has it open, or unmount it",
        _ => "stop the process that has it open",
    }
}
