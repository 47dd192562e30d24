//! Simpler neighbours of an operation, for the shrinker.

use super::{Operation, Step, Tweak};

/// Byte strings simpler than this one.
fn shorter(bytes: &[u8]) -> Vec<Vec<u8>> {
    match bytes.len() {
        0 => Vec::new(),
        1..=4 => vec![Vec::new()],
        len => vec![Vec::new(), bytes[..2].to_vec(), bytes[..len / 2].to_vec()],
    }
}

impl Operation {
    /// Operations that are simpler and might fail in the same way, the simplest first.
    pub(crate) fn simpler(&self) -> Vec<Self> {
        match self {
            Self::Write(steps) => simpler_writes(steps),
            Self::Rmw { key, tweak: Tweak::Append(more) } => {
                let rmw = |more| Self::Rmw { key: key.clone(), tweak: Tweak::Append(more) };
                shorter(more).into_iter().map(rmw).collect()
            }
            Self::Ingest { pairs } => (0..pairs.len())
                .map(|index| {
                    let mut fewer = pairs.clone();
                    fewer.remove(index);
                    Self::Ingest { pairs: fewer }
                })
                .collect(),
            Self::MultiGet { keys } => (0..keys.len())
                .map(|index| {
                    let mut fewer = keys.clone();
                    fewer.remove(index);
                    Self::MultiGet { keys: fewer }
                })
                .collect(),
            Self::LoseTail => vec![Self::Reopen],
            _ => Vec::new(),
        }
    }
}

fn simpler_writes(steps: &[Step]) -> Vec<Operation> {
    let mut simpler = Vec::new();
    for index in 0..steps.len() {
        if steps.len() > 1 {
            let mut fewer = steps.to_vec();
            fewer.remove(index);
            simpler.push(Operation::Write(fewer));
        }
        let replacements = match &steps[index] {
            Step::Put { key, value } => {
                let put = |value| Step::Put { key: key.clone(), value };
                shorter(value).into_iter().map(put).collect()
            }
            Step::Delete { .. } => Vec::new(),
            Step::DeleteRange { start, .. } => vec![Step::Delete { key: start.clone() }],
        };
        for replacement in replacements {
            let mut smaller = steps.to_vec();
            smaller[index] = replacement;
            simpler.push(Operation::Write(smaller));
        }
    }
    simpler
}
