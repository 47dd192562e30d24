//! The kernel's text is read by the right fields.

use super::{Process, parse};

#[test]
fn fields_are_counted_behind_a_name_of_any_kind() {
    let stat = "77 (a) name (x) S 1 77 77 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 9 0 1000 \
                99999999 512 18446744073709551615";
    let process = parse(stat, "Name:\tx\nVmHWM:\t  8192 kB\n").expect("is read");
    assert_eq!(process.resident_bytes, 512 * rustix::param::page_size() as u64);
    assert_eq!(process.resident_bytes_peak, 8 << 20);
    assert_eq!(process.threads, 9);
    assert!((process.user_s - 5.0 * process.system_s).abs() < 1e-9);
    assert!(parse("77 (a) S 1", "").is_none());
    assert!(parse("", "").is_none());
}

#[test]
#[cfg(target_os = "linux")]
fn this_process_has_figures() {
    let process = Process::now().expect("there is /proc/self");
    assert!(process.resident_bytes > 100_000, "{process:?}");
    assert!(process.resident_bytes_peak >= process.resident_bytes, "{process:?}");
    assert!(process.threads >= 2, "{process:?}");
}
