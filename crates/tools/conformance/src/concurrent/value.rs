//! Values that carry a number in every word, so that a torn or mixed-up one shows.

/// Returns the value of `number`, of a length that follows from it.
pub(super) fn encode(number: u64) -> Vec<u8> {
    let words = 1 + (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 59) as usize;
    number.to_le_bytes().repeat(words)
}

/// Returns the number of a value.
///
/// # Errors
/// The words differ.
pub(super) fn decode(value: &[u8]) -> Result<u64, String> {
    let torn = || format!("a torn value: {}", value.escape_ascii());
    let number = value.first_chunk::<8>().map(|word| u64::from_le_bytes(*word)).ok_or_else(torn)?;
    if value == encode(number) { Ok(number) } else { Err(torn()) }
}
