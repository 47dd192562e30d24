//! Operations from the lines that they print as.

use std::ops::Bound;
use std::str::FromStr;

use engine::{Direction, KeyRange};

use super::{Operation, Step, Tweak};
use crate::text::Scanner;

impl FromStr for Operation {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let mut text = Scanner::new(line);
        let operation = operation(&mut text)?;
        if text.is_at_end() { Ok(operation) } else { Err(format!("too much on line {line:?}")) }
    }
}

fn operation(text: &mut Scanner<'_>) -> Result<Operation, String> {
    Ok(match text.word()? {
        "write" => Operation::Write(steps(text)?),
        "ingest" => {
            let mut pairs = Vec::new();
            while !text.is_at_end() {
                pairs.push((text.bytes()?, text.bytes()?));
            }
            Operation::Ingest { pairs }
        }
        "rmw" => Operation::Rmw { key: text.bytes()?, tweak: tweak(text)? },
        "get" => Operation::Get { key: text.bytes()? },
        "multi-get" => {
            let mut keys = Vec::new();
            while !text.is_at_end() {
                keys.push(text.bytes()?);
            }
            Operation::MultiGet { keys }
        }
        "scan" => Operation::Scan { direction: direction(text)?, range: range(text)? },
        "pin" => Operation::Pin { slot: text.number()? },
        "unpin" => Operation::Unpin { slot: text.number()? },
        "view-get" => Operation::ViewGet { slot: text.number()?, key: text.bytes()? },
        "view-scan" => Operation::ViewScan {
            slot: text.number()?,
            direction: direction(text)?,
            range: range(text)?,
        },
        "cursor" => Operation::Cursor {
            slot: text.number()?,
            direction: direction(text)?,
            range: range(text)?,
        },
        "advance" => Operation::Advance { slot: text.number()?, pairs: text.number()? },
        "sync" => Operation::Sync,
        "flush" => Operation::Flush,
        "checkpoint" => Operation::Checkpoint,
        "reopen" => Operation::Reopen,
        "lose-tail" => Operation::LoseTail,
        "refusals" => Operation::Refusals,
        other => return Err(format!("{other:?} is no operation")),
    })
}

fn steps(text: &mut Scanner<'_>) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    while !text.is_at_end() {
        if !steps.is_empty() && !text.eat(",") {
            return Err("',' is wanted between steps".to_owned());
        }
        steps.push(match text.word()? {
            "put" => Step::Put { key: text.bytes()?, value: text.bytes()? },
            "delete" => Step::Delete { key: text.bytes()? },
            "delete-range" => Step::DeleteRange { start: text.bytes()?, end: Some(text.bytes()?) },
            "delete-from" => Step::DeleteRange { start: text.bytes()?, end: None },
            other => return Err(format!("{other:?} is no step of a write")),
        });
    }
    Ok(steps)
}

fn tweak(text: &mut Scanner<'_>) -> Result<Tweak, String> {
    Ok(match text.word()? {
        "append" => Tweak::Append(text.bytes()?),
        "invert" => Tweak::Invert,
        "remove" => Tweak::Remove,
        "keep" => Tweak::Keep,
        other => return Err(format!("{other:?} is no change of a value")),
    })
}

fn direction(text: &mut Scanner<'_>) -> Result<Direction, String> {
    match text.word()? {
        "forward" => Ok(Direction::Forward),
        "backward" => Ok(Direction::Backward),
        other => Err(format!("{other:?} is no direction")),
    }
}

fn range(text: &mut Scanner<'_>) -> Result<KeyRange, String> {
    let start = if text.eat("[..") {
        Bound::Unbounded
    } else {
        let included = text.eat("[");
        if !included && !text.eat("(") {
            return Err("'[' or '(' is wanted before a range".to_owned());
        }
        let key = text.bytes()?;
        if !text.eat("..") {
            return Err("'..' is wanted in a range".to_owned());
        }
        if included { Bound::Included(key) } else { Bound::Excluded(key) }
    };
    if text.eat("]") {
        return Ok(KeyRange { start, end: Bound::Unbounded });
    }
    let key = text.bytes()?;
    let end = if text.eat("]") {
        Bound::Included(key)
    } else if text.eat(")") {
        Bound::Excluded(key)
    } else {
        return Err("']' or ')' is wanted after a range".to_owned());
    };
    Ok(KeyRange { start, end })
}
