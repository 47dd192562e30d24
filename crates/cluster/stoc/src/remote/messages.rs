//! The requests of a StoC as messages, and the replies to them.
//!
//! # Format
//! `docs/formats/wire.md`.

use std::sync::Arc;

use codec::{Corruption, Reader, Writer};
use wire::{Body, Kind as Message};

use crate::error::{Error, Result};
use crate::name::{Epoch, FileName, Kind, RangeId};
use crate::range::{Fenced, Listed};
use crate::request::{Request, Response};
use crate::store::Stats;

/// Bytes of a name.
const NAME_BYTES: usize = 4 + 1 + 8 + 8 + 2;

/// The first byte of a reply to a call that has succeeded.
const DONE: u8 = 0;
/// The first byte of an error.
const FAILED: u8 = 1;

fn put_name(fields: &mut Writer<'_>, name: &FileName) {
    fields.put_u32(name.range.0);
    fields.put_u8(name.kind.code());
    fields.put_u64(name.number);
    fields.put_u64(name.nonce);
    fields.put_u16(name.part);
}

fn take_name(fields: &mut Reader<'_>) -> std::result::Result<FileName, Corruption> {
    let range = RangeId(fields.take_u32()?);
    let code = fields.take_u8()?;
    let kind = Kind::of_code(code);
    let kind = kind.ok_or_else(|| fields.corruption(format!("{code} is no kind of file")))?;
    let (number, nonce) = (fields.take_u64()?, fields.take_u64()?);
    Ok(FileName { range, kind, number, nonce, part: fields.take_u16()? })
}

fn take_epoch(fields: &mut Reader<'_>) -> std::result::Result<Epoch, Corruption> {
    fields.take_u64().map(Epoch)
}

/// Encodes a request. Its bytes are shared, and not copied.
pub fn encode_request(request: &Request) -> (Message, Body) {
    let mut head = Vec::new();
    let mut fields = Writer::new(&mut head);
    let mut put = |name: &FileName, epoch: Epoch, number: u64| {
        put_name(&mut fields, name);
        fields.put_u64(epoch.0);
        fields.put_u64(number);
    };
    let (kind, tail) = match request {
        Request::Append { name, epoch, start, offset, bytes } => {
            put(name, *epoch, *offset);
            // No start has the number 0.
            fields.put_u64(start.unwrap_or(0));
            (Message::Append, Some(Arc::clone(bytes)))
        }
        Request::Write { name, epoch, offset, bytes } => {
            put(name, *epoch, *offset);
            (Message::Write, Some(Arc::clone(bytes)))
        }
        Request::Seal { name, epoch, length } => {
            put(name, *epoch, *length);
            (Message::Seal, None)
        }
        Request::Finish { name, epoch, length } => {
            put(name, *epoch, *length);
            (Message::Finish, None)
        }
        Request::CreateLog { name, epoch, in_memory } => {
            put(name, *epoch, u64::from(*in_memory));
            (Message::CreateLog, None)
        }
        Request::CreateTable { name, epoch, stripe } => {
            put(name, *epoch, u64::from(*stripe));
            (Message::CreateTable, None)
        }
        Request::Read { name, offset, bytes } => {
            put_name(&mut fields, name);
            fields.put_u64(*offset);
            fields.put_u64(*bytes);
            (Message::Read, None)
        }
        Request::Verify { name } => {
            put_name(&mut fields, name);
            (Message::Verify, None)
        }
        Request::Release { name, by, epoch } => {
            put_name(&mut fields, name);
            fields.put_u32(by.0);
            fields.put_u64(epoch.0);
            (Message::Release, None)
        }
        Request::Fence { range, epoch } => {
            fields.put_u32(range.0);
            fields.put_u64(epoch.0);
            (Message::Fence, None)
        }
        Request::AddReferences { range, epoch, others } => {
            fields.put_u32(range.0);
            fields.put_u64(epoch.0);
            fields.put_varint(others.len() as u64);
            others.iter().for_each(|other| fields.put_u32(other.0));
            (Message::AddReferences, None)
        }
        Request::List { range } => {
            fields.put_u32(range.0);
            (Message::List, None)
        }
        Request::Stats => (Message::Stats, None),
    };
    (kind, Body { head, tail })
}

/// Decodes a request.
///
/// # Errors
/// The damage; a message of another kind.
pub fn decode_request(kind: Message, body: &[u8]) -> std::result::Result<Request, Corruption> {
    let mut fields = Reader::new(body);
    let f = &mut fields;
    let request = match kind {
        Message::Append => {
            let (name, epoch, offset) = (take_name(f)?, take_epoch(f)?, f.take_u64()?);
            let start = Some(f.take_u64()?).filter(|start| *start != 0);
            let bytes = f.take_bytes(f.remaining())?.into();
            Request::Append { name, epoch, start, offset, bytes }
        }
        Message::Write => {
            let (name, epoch, offset) = (take_name(f)?, take_epoch(f)?, f.take_u64()?);
            let bytes = f.take_bytes(f.remaining())?.into();
            Request::Write { name, epoch, offset, bytes }
        }
        Message::Seal => {
            Request::Seal { name: take_name(f)?, epoch: take_epoch(f)?, length: f.take_u64()? }
        }
        Message::Finish => {
            Request::Finish { name: take_name(f)?, epoch: take_epoch(f)?, length: f.take_u64()? }
        }
        Message::CreateLog => {
            let (name, epoch) = (take_name(f)?, take_epoch(f)?);
            let in_memory = match f.take_u64()? {
                0 => false,
                1 => true,
                other => return Err(f.corruption(format!("{other} is no place of a log"))),
            };
            Request::CreateLog { name, epoch, in_memory }
        }
        Message::CreateTable => {
            let (name, epoch, number) = (take_name(f)?, take_epoch(f)?, f.take_u64()?);
            let stripe = u32::try_from(number);
            let stripe = stripe.map_err(|_| f.corruption(format!("{number} is no stripe")))?;
            Request::CreateTable { name, epoch, stripe }
        }
        Message::Read => {
            Request::Read { name: take_name(f)?, offset: f.take_u64()?, bytes: f.take_u64()? }
        }
        Message::Verify => Request::Verify { name: take_name(f)? },
        Message::Release => {
            let (name, by) = (take_name(f)?, RangeId(f.take_u32()?));
            Request::Release { name, by, epoch: take_epoch(f)? }
        }
        Message::Fence => Request::Fence { range: RangeId(f.take_u32()?), epoch: take_epoch(f)? },
        Message::AddReferences => {
            let (range, epoch) = (RangeId(f.take_u32()?), take_epoch(f)?);
            let count = f.take_count(4)?;
            let others = (0..count)
                .map(|_| f.take_u32().map(RangeId))
                .collect::<std::result::Result<_, _>>()?;
            Request::AddReferences { range, epoch, others }
        }
        Message::List => Request::List { range: RangeId(f.take_u32()?) },
        Message::Stats => Request::Stats,
        other => return Err(f.corruption(format!("{other:?} is no request to a StoC"))),
    };
    fields.finish()?;
    Ok(request)
}

/// Encodes the reply to a request.
pub fn encode_response(response: &Result<Response>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut fields = Writer::new(&mut bytes);
    match response {
        Ok(response) => {
            fields.put_u8(DONE);
            put_response(&mut fields, response);
        }
        Err(error) => {
            fields.put_u8(FAILED);
            put_error(&mut fields, error);
        }
    }
    bytes
}

fn put_response(fields: &mut Writer<'_>, response: &Response) {
    match response {
        Response::Done => {}
        Response::Bytes(bytes) => fields.put_bytes(bytes),
        Response::Fenced(Fenced { before, logs }) => {
            fields.put_u64(before.0);
            fields.put_varint(logs.len() as u64);
            for (name, length) in logs {
                put_name(fields, name);
                put_length(fields, *length);
            }
        }
        Response::Files(files) => {
            fields.put_varint(files.len() as u64);
            for Listed { name, epoch, length, is_finished, references } in files {
                put_name(fields, name);
                fields.put_u64(epoch.0);
                put_length(fields, *length);
                fields.put_u8(u8::from(*is_finished));
                fields.put_varint(references.len() as u64);
                references.iter().for_each(|range| fields.put_u32(range.0));
            }
        }
        Response::Stats(Stats { files, bytes, damaged_files, free_bytes }) => {
            let figures = [files, bytes, damaged_files, free_bytes];
            figures.into_iter().for_each(|figure| fields.put_u64(*figure));
        }
    }
}

fn put_length(fields: &mut Writer<'_>, length: Option<u64>) {
    fields.put_u8(u8::from(length.is_some()));
    fields.put_u64(length.unwrap_or(0));
}

fn take_length(fields: &mut Reader<'_>) -> std::result::Result<Option<u64>, Corruption> {
    let (is_some, length) = (fields.take_flag()?, fields.take_u64()?);
    if !is_some && length != 0 {
        return Err(fields.corruption(format!("a file without a length has {length} bytes")));
    }
    Ok(is_some.then_some(length))
}

fn take_response(
    kind: Message,
    fields: &mut Reader<'_>,
) -> std::result::Result<Response, Corruption> {
    Ok(match kind {
        Message::Read => Response::Bytes(fields.take_bytes(fields.remaining())?.to_vec()),
        Message::Fence => {
            let before = take_epoch(fields)?;
            let count = fields.take_count(NAME_BYTES + 9)?;
            let mut logs = Vec::with_capacity(count);
            for _ in 0..count {
                logs.push((take_name(fields)?, take_length(fields)?));
            }
            Response::Fenced(Fenced { before, logs })
        }
        Message::List => {
            let count = fields.take_count(NAME_BYTES + 19)?;
            let mut files = Vec::with_capacity(count);
            for _ in 0..count {
                let (name, epoch) = (take_name(fields)?, take_epoch(fields)?);
                let (length, is_finished) = (take_length(fields)?, fields.take_flag()?);
                let references = fields.take_count(4)?;
                let references = (0..references).map(|_| fields.take_u32().map(RangeId));
                let references = references.collect::<std::result::Result<_, _>>()?;
                files.push(Listed { name, epoch, length, is_finished, references });
            }
            Response::Files(files)
        }
        Message::Stats => Response::Stats(Stats {
            files: fields.take_u64()?,
            bytes: fields.take_u64()?,
            damaged_files: fields.take_u64()?,
            free_bytes: fields.take_u64()?,
        }),
        _ => Response::Done,
    })
}

/// Decodes the reply to a request of this kind.
///
/// # Errors
/// The damage.
pub fn decode_response(
    kind: Message,
    body: &[u8],
) -> std::result::Result<Result<Response>, Corruption> {
    let mut fields = Reader::new(body);
    let response = match fields.take_u8()? {
        DONE => Ok(take_response(kind, &mut fields)?),
        FAILED => Err(take_error(&mut fields)?),
        code => return Err(fields.corruption(format!("a reply begins with {code}"))),
    };
    fields.finish()?;
    Ok(response)
}

/// The codes of errors, each with its fields. Other errors are texts.
fn put_error(fields: &mut Writer<'_>, error: &Error) {
    let mut of_file = |code: u8, name: &FileName, number: u64| {
        fields.put_u8(code);
        put_name(fields, name);
        fields.put_u64(number);
    };
    match error {
        Error::NotAtEnd { name, length } => of_file(2, name, *length),
        Error::OtherBytes { name, offset } => of_file(3, name, *offset),
        Error::NoFile { name } => of_file(4, name, 0),
        Error::Exists { name } => of_file(5, name, 0),
        Error::OtherKind { name } => of_file(6, name, 0),
        Error::PastEnd { name, length } => of_file(7, name, *length),
        Error::Fenced { range, promise } => {
            fields.put_u8(1);
            fields.put_u32(range.0);
            fields.put_u64(promise.0);
        }
        Error::NoRoom { bytes } => {
            fields.put_u8(8);
            fields.put_u64(*bytes);
        }
        Error::OtherStart { wanted, present } => {
            fields.put_u8(11);
            fields.put_u64(*wanted);
            fields.put_u64(*present);
        }
        Error::Damaged(Corruption { what, file, offset, .. }) => {
            fields.put_u8(9);
            fields.put_prefixed(what.as_bytes());
            fields.put_prefixed(file.as_bytes());
            fields.put_u64(*offset);
        }
        Error::Failed { what, is_fatal } => put_failure(fields, what, *is_fatal),
        other => put_failure(fields, &other.to_string(), other.is_fatal()),
    }
}

fn put_failure(fields: &mut Writer<'_>, what: &str, is_fatal: bool) {
    fields.put_u8(10);
    fields.put_u8(u8::from(is_fatal));
    fields.put_prefixed(what.as_bytes());
}

fn take_error(fields: &mut Reader<'_>) -> std::result::Result<Error, Corruption> {
    let code = fields.take_u8()?;
    if let 2..=7 = code {
        let (name, number) = (take_name(fields)?, fields.take_u64()?);
        return Ok(match code {
            2 => Error::NotAtEnd { name, length: number },
            3 => Error::OtherBytes { name, offset: number },
            4 => Error::NoFile { name },
            5 => Error::Exists { name },
            6 => Error::OtherKind { name },
            _ => Error::PastEnd { name, length: number },
        });
    }
    Ok(match code {
        1 => Error::Fenced { range: RangeId(fields.take_u32()?), promise: take_epoch(fields)? },
        8 => Error::NoRoom { bytes: fields.take_u64()? },
        11 => Error::OtherStart { wanted: fields.take_u64()?, present: fields.take_u64()? },
        9 => {
            let (what, file) = (fields.take_text()?, fields.take_text()?);
            Error::Damaged(Corruption::new(what, 0).at(&file, fields.take_u64()?))
        }
        10 => {
            let is_fatal = fields.take_flag()?;
            Error::Failed { what: fields.take_text()?, is_fatal }
        }
        other => return Err(fields.corruption(format!("{other} is no error"))),
    })
}
