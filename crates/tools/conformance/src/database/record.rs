//! A write as the suite's journal holds it: per step a tag, the key, and the value of a put or the
//! end of a range.

use codec::{Corruption, Reader, Writer};

use crate::operation::Step;

const PUT: u8 = 1;
const DELETE: u8 = 2;
const DELETE_RANGE: u8 = 3;
const DELETE_FROM: u8 = 4;

pub(super) fn encode(steps: &[Step], bytes: &mut Vec<u8>) {
    let mut out = Writer::new(bytes);
    for step in steps {
        match step {
            Step::Put { key, value } => {
                out.put_u8(PUT);
                out.put_prefixed(key);
                out.put_prefixed(value);
            }
            Step::Delete { key } => {
                out.put_u8(DELETE);
                out.put_prefixed(key);
            }
            Step::DeleteRange { start, end } => {
                out.put_u8(if end.is_some() { DELETE_RANGE } else { DELETE_FROM });
                out.put_prefixed(start);
                end.iter().for_each(|end| out.put_prefixed(end));
            }
        }
    }
}

pub(super) fn decode(bytes: &[u8]) -> Result<Vec<Step>, Corruption> {
    let mut fields = Reader::new(bytes);
    let mut steps = Vec::new();
    while !fields.is_empty() {
        let tag = fields.take_u8()?;
        let key = fields.take_prefixed()?.to_vec();
        steps.push(match tag {
            PUT => Step::Put { key, value: fields.take_prefixed()?.to_vec() },
            DELETE => Step::Delete { key },
            DELETE_RANGE => {
                Step::DeleteRange { start: key, end: Some(fields.take_prefixed()?.to_vec()) }
            }
            DELETE_FROM => Step::DeleteRange { start: key, end: None },
            _ => return Err(fields.corruption("a step of no known kind")),
        });
    }
    Ok(steps)
}
