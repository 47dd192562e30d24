//! Metrics of the processes of a cluster, moves of ranges as `cluster status` shows them, and drops
//! of keyspaces.

use std::time::Duration;

use environment::Environment;
use serde_json::Value;

use crate::components::{Client, Cluster, stop};
use crate::program::run;

/// Returns the sum of the numbers of a metric on a page, over the lines with all of these labels.
fn figure(page: &str, name: &str, labels: &[&str]) -> f64 {
    let lines = page.lines().filter_map(|line| line.strip_prefix(name)).filter(|rest| {
        rest.starts_with(['{', ' ']) && labels.iter().all(|label| rest.contains(label))
    });
    let numbers = lines.map(|rest| rest.rsplit(' ').next().unwrap().parse::<f64>().unwrap());
    numbers.sum()
}

/// Waits until a condition holds.
fn wait_until(mut holds: impl FnMut() -> bool) -> bool {
    (0..400).any(|_| {
        Environment::real().sleep(Duration::from_millis(50));
        holds()
    })
}

/// Checks that each of these metrics is on a page, and not zero.
fn check(page: &str, metrics: &[(&str, &[&str])]) {
    for (name, labels) in metrics {
        assert!(figure(page, name, labels) > 0.0, "{name} {labels:?}:\n{page}");
    }
}

/// Checks the metrics of a StoC that has logs.
fn check_stoc(page: &str) {
    check(
        page,
        &[
            ("stoc_files", &[]),
            ("stoc_bytes", &[]),
            ("stoc_free_bytes", &[]),
            ("stoc_requests_total", &["kind=\"CreateLog\""]),
            ("stoc_requests_total", &["kind=\"Append\""]),
            ("stoc_request_seconds_count", &["kind=\"Append\""]),
            ("stoc_received_bytes_total", &[]),
            ("stoc_sent_bytes_total", &[]),
            ("process_resident_memory_bytes", &[]),
        ],
    );
}

/// Checks the metrics of a leader of three StoCs, and of two LTCs with two ranges.
fn check_leader(page: &str) {
    check(
        page,
        &[
            ("coordinator_leads", &[]),
            ("coordinator_term", &[]),
            ("coordinator_ltc_lease_milliseconds", &["ltc=\"1\""]),
            ("coordinator_ltc_lease_milliseconds", &["ltc=\"2\""]),
            ("coordinator_ltc_ranges", &[]),
            ("coordinator_covered_ranges", &[]),
        ],
    );
    for (name, labels, count) in [
        ("coordinator_stocs", &[][..], 3.0),
        ("coordinator_ltcs", &[], 2.0),
        ("coordinator_ranges", &["state=\"Serving\""], 2.0),
    ] {
        assert!((figure(page, name, labels) - count).abs() < 0.5, "{name}:\n{page}");
    }
}

#[test]
fn each_process_has_metrics() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = Cluster::new(dir.path());
    let coordinator = cluster.coordinator();
    let stocs = ["1", "2", "3"].map(|node| cluster.stoc(node));
    let ltcs = ["1", "2"].map(|node| cluster.ltc(node));
    let admin = |command: &[&str]| {
        let said = run([command, &cluster.options()[..]].concat());
        assert_eq!(said.code, 0, "{said:?}");
    };
    admin(&["cluster", "keyspace", "redis-0", "--split-at", "n"]);
    let (gateway, addr) = cluster.gateway();
    let mut client = Client::connect(&addr);
    for key in ["apple", "plum"] {
        assert_eq!(client.run(&format!("SET {key} red")), "+OK");
        assert_eq!(client.run(&format!("GET {key}")), "red");
    }
    stocs.iter().for_each(|stoc| check_stoc(&stoc.metrics()));
    let of_ltcs = || ltcs.each_ref().map(|ltc| ltc.metrics()).concat();
    check(
        &of_ltcs(),
        &[
            ("range_requests_total", &["range=\"1\"", "kind=\"write\""]),
            ("range_requests_total", &["range=\"2\"", "kind=\"get\""]),
            ("range_request_bytes_total", &[]),
            ("range_reply_bytes_total", &[]),
            ("range_epoch", &["range=\"1\""]),
            ("journal_bytes", &["range=\"1\""]),
            ("journal_records_total", &["range=\"2\""]),
            ("database_memory_bytes", &["range=\"2\""]),
            ("keyspace_memory_bytes", &["range=\"2\""]),
            ("ltc_lease_milliseconds", &[]),
            ("ltc_memory_bytes", &[]),
            ("ltc_memory_limit_bytes", &[]),
        ],
    );
    assert!((figure(&of_ltcs(), "range_state", &["state=\"Serving\""]) - 2.0).abs() < 0.5);
    let reported = || figure(&coordinator.metrics(), "coordinator_ltc_ranges", &[]);
    assert!(wait_until(|| reported() > 1.5), "{}", coordinator.metrics());
    check_leader(&coordinator.metrics());
    check(
        &gateway.metrics(),
        &[
            ("client_requests_total", &["outcome=\"done\""]),
            ("client_attempts_total", &["outcome=\"done\""]),
            ("server_commands_total", &[]),
        ],
    );
    // The gateway learns of a move by a refusal, and the coordinator counts the move.
    let owner = cluster.status()["ranges"][0]["owner"].clone();
    let target = if owner == 1 { "2" } else { "1" };
    admin(&["cluster", "move", "1", "--to", target]);
    assert!(wait_until(|| figure(&coordinator.metrics(), "coordinator_moves_total", &[]) > 0.0));
    assert_eq!(client.run("GET apple"), "red");
    let refused = figure(&gateway.metrics(), "client_attempts_total", &["outcome=\"moved\""]);
    assert!(refused > 0.0, "{}", gateway.metrics());
    let refused = figure(&of_ltcs(), "ltc_refusals_total", &["reason=\"moved\""]);
    assert!(refused > 0.0, "{}", of_ltcs());
    // The LTC that had the range shows no metrics of it any more.
    let of_one = figure(&of_ltcs(), "range_state", &["range=\"1\""]);
    assert!((of_one - 1.0).abs() < 0.5, "{}", of_ltcs());
    let [first, second] = ltcs;
    for process in [gateway, first, second, coordinator] {
        stop(process);
    }
}

/// A move to an LTC that is away waits. The status shows that, and the move can be cancelled.
#[test]
fn a_move_that_waits_is_shown_and_cancelled() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = Cluster::new(dir.path());
    let _coordinator = cluster.coordinator();
    let _stocs = ["1", "2", "3"].map(|node| cluster.stoc(node));
    let ltcs = ["1", "2"].map(|node| cluster.ltc(node));
    let say = |command: &[&str]| {
        let said = run([command, &cluster.options()[..]].concat());
        assert_eq!(said.code, 0, "{said:?}");
        said.json()["done"].as_str().unwrap().to_owned()
    };
    say(&["cluster", "keyspace", "users"]);
    let range = || cluster.status()["ranges"][0].clone();
    assert!(wait_until(|| range()["state"] == "Serving" && range()["covered"] == true));
    assert_eq!(range()["trouble"], Value::Null, "{}", range());
    let [first, second] = ltcs;
    let (owner, other, _kept) = match range()["owner"] == 1 {
        true => {
            second.kill();
            ("1", "2", first)
        }
        false => {
            first.kill();
            ("2", "1", second)
        }
    };
    let lease = |ltc: &str| {
        let index = ltc.parse::<usize>().unwrap() - 1;
        cluster.status()["ltcs"][index]["lease_ms"].as_u64().unwrap()
    };
    assert!(lease(owner) > 0);
    assert!(wait_until(|| lease(other) == 0));
    let said = say(&["cluster", "move", "1", "--to", other]);
    assert!(said.contains("waits until that LTC has a lease"), "{said}");
    let shown = range();
    assert_eq!((&shown["state"], shown["target"].to_string()), (&"Moving".into(), other.into()));
    let trouble = shown["trouble"].as_str().unwrap();
    assert!(trouble.contains("has no lease, so the move waits"), "{shown}");
    let options = cluster.options();
    let text = run([&["cluster", "status"], &options[1..]].concat()).out;
    assert!(text.contains("no lease: silent for") && text.contains(trouble), "{text}");
    let said = say(&["cluster", "move", "1", "--cancel"]);
    assert_eq!(said, format!("range 1 stays at LTC {owner}"));
    assert_eq!(range()["state"], "Serving");
    let refused = |command: &[&str], cause: &str| {
        let said = cluster.refused(command);
        assert!(said.err.contains(cause), "{said:?}");
    };
    refused(&["cluster", "move", "1", "--cancel"], "range 1: it does not move: it is Serving");
    refused(&["cluster", "move", "9", "--cancel"], "there is no range 9");
    refused(&["cluster", "move", "1"], "--to");
    refused(&["cluster", "move", "1", "--cancel", "--to", other], "--cancel");
    // A range of an LTC that is drained would move again.
    say(&["cluster", "drain", owner]);
    refused(&["cluster", "move", "1", "--cancel"], "leaves all of its ranges");
    assert_eq!(cluster.status()["ltcs"][owner.parse::<usize>().unwrap() - 1]["draining"], true);
}

/// The owners close the ranges of a dropped keyspace, and StoCs release their files.
#[test]
fn a_keyspace_is_dropped_with_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = Cluster::new(dir.path());
    let _coordinator = cluster.coordinator();
    let stocs = ["1", "2", "3"].map(|node| cluster.stoc(node));
    let _ltc = cluster.ltc("1");
    let admin = |command: &[&str]| run([command, &cluster.options()[..]].concat());
    for name in ["redis-1", "redis-2"] {
        assert_eq!(admin(&["cluster", "keyspace", name, "--split-at", "n"]).code, 0);
    }
    let (gateway, addr) = cluster.gateway();
    let mut client = Client::connect(&addr);
    for command in ["SELECT 1", "SET apple red", "SET plum blue", "SELECT 2", "SET apple red"] {
        assert_eq!(client.run(command), "+OK");
    }
    let serving = || {
        let shown = cluster.status();
        let ranges = shown["ranges"].as_array().unwrap();
        ranges.iter().filter(|range| range["state"] == "Serving").count()
    };
    assert!(wait_until(|| serving() == 4), "{}", cluster.status());
    let files = || {
        let files = stocs.each_ref().map(|stoc| figure(&stoc.metrics(), "stoc_files", &[]));
        files.iter().sum::<f64>()
    };
    let before = files();
    let said = admin(&["cluster", "drop", "users", "--confirm", "users"]);
    assert!(said.code == 1 && said.err.contains("there is no keyspace"), "{said:?}");
    let said = admin(&["cluster", "drop", "redis-1", "--confirm", "redis-2"]);
    assert!(said.code == 2 && said.err.contains("has to repeat its name"), "{said:?}");
    assert_eq!(admin(&["cluster", "drop", "redis-1"]).code, 2);
    assert_eq!(serving(), 4);
    let said = admin(&["cluster", "drop", "redis-1", "--confirm", "redis-1"]);
    assert_eq!(said.json()["done"], "keyspace redis-1 is dropped");
    let ranges = || cluster.status()["ranges"].as_array().unwrap().len();
    assert!(wait_until(|| ranges() == 2), "{}", cluster.status());
    assert!(wait_until(|| files() < before * 0.6), "{before} files, then {}", files());
    // The other keyspace is whole, and the next write makes the dropped one again.
    assert_eq!(client.run("GET apple"), "red");
    assert_eq!(client.run("SELECT 1"), "+OK");
    assert_eq!(client.run("GET apple"), "$-1");
    assert_eq!(client.run("SET apple green"), "+OK");
    assert_eq!(client.run("GET apple"), "green");
    stop(gateway);
}
