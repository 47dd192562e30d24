//! The write-ahead journal: hash-chained records, group commit, three durabilities.
