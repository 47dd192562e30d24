//! A write as the suite's journal holds it: per step a tag, the key, and the value of a put.

use codec::{Corruption, Reader, Writer};

use crate::operation::Step;

const PUT: u8 = 1;
const DELETE: u8 = 2;

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
            _ => return Err(fields.corruption("a step of no known kind")),
        });
    }
    Ok(steps)
}
