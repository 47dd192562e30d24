//! A bug in the notes of ingestions for transactions.

use thermocline::planted::{Planted, must_be_found};

use super::a_transaction_that_has_read_what_is_replaced_is_in_conflict;

#[test]
fn an_ingestion_in_silence_is_found() {
    let test = a_transaction_that_has_read_what_is_replaced_is_in_conflict;
    must_be_found(Planted::IngestedUnnoted, "is_conflict", test);
}
