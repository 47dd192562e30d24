//! Numbers have units, files are whole, and marks keep a run from being quoted.
#![expect(clippy::disallowed_methods, reason = "the files of a report")]

use super::table::{bytes, count, micros};
use super::*;

#[test]
fn numbers_have_units() {
    assert_eq!([count(999.0), count(12_345.0), count(2.5e6)], ["999", "12.3 k", "2.50 M"]);
    assert_eq!([bytes(100), bytes(2048), bytes(3 << 30)], ["100 B", "2.0 KiB", "3.00 GiB"]);
    assert_eq!([micros(1.5), micros(1500.0), micros(2e6)], ["1.50 us", "1.50 ms", "2.00 s"]);
}

#[test]
fn a_report_is_there_whole_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out.json");
    write_json(&path, &Report::default()).unwrap();
    // An interrupted program leaves a file of another name, which the next one replaces.
    std::fs::write(dir.path().join("out.json.partial"), b"{\"engine\":").unwrap();
    assert_eq!(read_reports(&path).unwrap(), [Report::default()]);
    write_json(&path, &Report { ops: 7, ..Report::default() }).unwrap();
    assert_eq!(read_reports(&path).unwrap()[0].ops, 7);
    assert_eq!(dir.path().read_dir().unwrap().count(), 1);
    let taken = dir.path().join("taken");
    std::fs::create_dir_all(taken.join("below")).unwrap();
    assert!(write_json(&taken, &Report::default()).is_err());
    assert_eq!(dir.path().read_dir().unwrap().count(), 2, "no half is left either");
}

#[test]
fn the_store_without_rest_or_budget_may_not_be_quoted() {
    let quiet = Report::default();
    assert!(quiet.is_quotable());
    let wrong = Report { wrong_reads: 1, ..Report::default() };
    let marks = vec![Mark::WroteUnderReads { bytes_per_s: 95e6 }];
    let busy = Report { marks, ..Report::default() };
    assert!(!wrong.is_quotable() && !busy.is_quotable());
    let text = serde_json::to_value(&busy.marks).unwrap();
    assert_eq!(text[0]["kind"], "wrote-under-reads");
    for (resident, fills) in [(94, false), (95, true), (100, true), (101, false)] {
        assert_eq!(fills_budget(resident, 100), fills, "{resident}");
    }
}

/// A report that goes to a device, a pipe or a socket does not replace it.
#[test]
fn a_path_that_is_no_regular_file_is_not_replaced() {
    use std::os::unix::fs::FileTypeExt;
    use std::os::unix::net::UnixListener;
    let dir = tempfile::tempdir().expect("a scratch directory");
    let path = dir.path().join("socket");
    let _listener = UnixListener::bind(&path).expect("it is bound");
    assert!(super::json::write_whole(&path, b"text").is_err(), "nothing can be written to it");
    let found = std::fs::metadata(&path).expect("it is there");
    assert!(found.file_type().is_socket());
    let file = dir.path().join("report");
    super::json::write_whole(&file, b"text").expect("it is written");
    assert_eq!(std::fs::read(&file).expect("it is there"), b"text");
}
