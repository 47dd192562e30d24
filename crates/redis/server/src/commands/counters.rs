//! INCR and its relatives: strings that are numbers.

use thermocline::Expiring;

use super::{Call, Failure, Outcome};
use crate::key_marks::Encoding;
use crate::protocol::decimal::Decimal;
use crate::protocol::number::parse_i64;
use crate::store::Change;

pub(crate) fn incr(call: &mut Call<'_>) -> Outcome {
    add(call, 1)
}

pub(crate) fn decr(call: &mut Call<'_>) -> Outcome {
    add(call, -1)
}

pub(crate) fn incrby(call: &mut Call<'_>) -> Outcome {
    let amount = parse_i64(call.args.at(2)).ok_or(Failure::NOT_AN_INTEGER)?;
    add(call, amount)
}

pub(crate) fn decrby(call: &mut Call<'_>) -> Outcome {
    let amount = parse_i64(call.args.at(2)).ok_or(Failure::NOT_AN_INTEGER)?;
    let amount = amount.checked_neg().ok_or(Failure::Text("ERR decrement would overflow"))?;
    add(call, amount)
}

fn add(call: &mut Call<'_>, amount: i64) -> Outcome {
    let sum = call.update(call.args.at(1), |stored| {
        let old = stored.unwrap_or(Expiring { value: b"0", expiry_ms: None });
        let number = parse_i64(old.value).ok_or(Failure::NOT_AN_INTEGER)?;
        let sum = number.checked_add(amount);
        let sum = sum.ok_or(Failure::Text("ERR increment or decrement would overflow"))?;
        let mut digits = itoa::Buffer::new();
        let payload = digits.format(sum).as_bytes();
        Ok((Change::Put(Expiring { value: payload, expiry_ms: old.expiry_ms }.to_stored()), sum))
    })?;
    call.reply.integer(sum);
    Ok(())
}

pub(crate) fn incrbyfloat(call: &mut Call<'_>) -> Outcome {
    let amount = Decimal::parse(call.args.at(2)).ok_or(Failure::NOT_A_FLOAT)?;
    let sum = call.update(call.args.at(1), |stored| {
        let expiry_ms = stored.and_then(|stored| stored.expiry_ms);
        let number = match stored {
            Some(stored) => Decimal::parse(stored.value).ok_or(Failure::NOT_A_FLOAT)?,
            None => Decimal::ZERO,
        };
        let sum = number.add(&amount);
        let sum = sum.ok_or(Failure::Text("ERR increment would produce NaN or Infinity"))?;
        let text = sum.to_text();
        let new = Expiring { value: text.as_bytes(), expiry_ms }.to_stored();
        Ok((Change::Put(new), text))
    })?;
    call.note_value(call.args.at(1), Encoding::Text);
    call.reply.bulk(sum.as_bytes());
    Ok(())
}
