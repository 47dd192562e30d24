//! Registering, counting from many threads, snapshots and the Prometheus text.

use std::thread;
use std::time::Duration;

use thermocline_telemetry::{Registry, Snapshot, Unit, Value};

#[test]
fn asking_again_gives_the_same_metric() {
    let registry = Registry::default();
    registry.counter("writes_total", "Writes.").add(2);
    registry.clone().counter("writes_total", "Writes.").add(3);
    registry.gauge("memory_bytes", "Memory.").set(-4);
    registry.gauge("memory_bytes", "Memory.").add(1);
    let snapshot = registry.snapshot();
    assert_eq!(snapshot.counter("writes_total"), 5);
    assert_eq!(snapshot.gauge("memory_bytes"), -3);
    assert_eq!(snapshot.metrics.len(), 2);
}

#[test]
fn labels_tell_metrics_apart_and_add_up() {
    let registry = Registry::default();
    let ours = registry.with_labels(&[("engine", "f2")]);
    for (keyspace, count) in [("a", 1), ("b", 10)] {
        let labelled = ours.with_labels(&[("keyspace", keyspace)]);
        labelled.counter("writes_total", "Writes.").add(count);
    }
    let snapshot = registry.snapshot();
    assert_eq!(snapshot.counter("writes_total"), 11);
    let b = snapshot.named("writes_total").find(|metric| metric.labels["keyspace"] == "b").unwrap();
    assert_eq!(b.value, Value::Counter(10));
    assert_eq!(b.labels["engine"], "f2");
}

#[test]
fn what_is_gone_is_forgotten_and_nothing_else() {
    let registry = Registry::default();
    let dropped = registry.with_labels(&[("keyspace", "dropped")]);
    dropped.counter("writes_total", "Writes.").add(1);
    dropped.with_labels(&[("level", "0")]).gauge("files", "Files.").set(1);
    registry.with_labels(&[("keyspace", "kept")]).counter("writes_total", "Writes.").add(2);
    dropped.forget();
    let snapshot = registry.snapshot();
    assert_eq!(snapshot.counter("writes_total"), 2);
    assert_eq!(snapshot.metrics.len(), 1);
}

#[test]
#[should_panic(expected = "metric writes_total is registered as Counter, it cannot be Gauge")]
fn one_name_is_one_kind() {
    let registry = Registry::default();
    registry.counter("writes_total", "Writes.");
    registry.with_labels(&[("other", "labels")]).gauge("writes_total", "Writes.");
}

#[test]
#[should_panic(expected = "\"le\" cannot name a label")]
fn the_histograms_own_label_is_refused() {
    let _ = Registry::default().with_labels(&[("le", "1")]);
}

#[test]
fn threads_count_together() {
    const THREADS: u64 = 4;
    const EACH: u64 = 10_000;
    let registry = Registry::default();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let counter = registry.counter("events_total", "Events.");
            let histogram = registry.histogram("event_bytes", "Sizes.", Unit::Bytes);
            scope.spawn(move || {
                for index in 0..EACH {
                    counter.increment();
                    histogram.record(thread * EACH + index);
                }
            });
        }
    });
    let total = THREADS * EACH;
    assert_eq!(registry.snapshot().counter("events_total"), total);
    let values = registry.histogram("event_bytes", "Sizes.", Unit::Bytes).distribution();
    assert_eq!((values.count, values.max), (total, total - 1));
    assert_eq!(values.sum, total * (total - 1) / 2);
    for quantile in [0.1, 0.5, 0.99, 0.999] {
        let exact = (quantile * total as f64).ceil() as u64 - 1;
        let found = values.quantile(quantile);
        assert!((exact..=exact + exact / 16).contains(&found), "{quantile}: {found}, not {exact}");
    }
}

#[test]
fn no_values_have_no_quantiles() {
    let values = Registry::default().histogram("empty", "None.", Unit::Count).distribution();
    assert_eq!((values.quantile(0.5), values.mean()), (0, 0.0));
}

#[test]
fn a_snapshot_survives_json() {
    let registry = Registry::default().with_labels(&[("keyspace", "a\"b\n")]);
    registry.counter("writes_total", "Writes.").add(u64::MAX);
    registry.histogram("write_seconds", "Times.", Unit::Seconds).record(7);
    let snapshot = registry.snapshot();
    let text = serde_json::to_string(&snapshot).unwrap();
    assert_eq!(serde_json::from_str::<Snapshot>(&text).unwrap(), snapshot);
}

#[test]
fn prometheus_reads_what_is_rendered() {
    let registry = Registry::default();
    registry.gauge("memory_bytes", "Memory in use,\nwith a \\.").set(7);
    let labelled = registry.with_labels(&[("keyspace", "a\\b\"c\nd")]);
    labelled.counter("writes_total", "Writes.").add(3);
    registry.counter("writes_total", "Writes.").add(4);
    let times = registry.histogram("write_seconds", "Times.", Unit::Seconds);
    times.record_duration(Duration::from_nanos(1023));
    times.record_duration(Duration::from_nanos(1024));
    times.record_duration(Duration::from_secs(1_000));
    let text = registry.snapshot().render_prometheus();
    let expected_start = "\
# HELP memory_bytes Memory in use,\\nwith a \\\\.
# TYPE memory_bytes gauge
memory_bytes 7
# HELP write_seconds Times.
# TYPE write_seconds histogram
write_seconds_bucket{le=\"0.000001023\"} 1
write_seconds_bucket{le=\"0.000002047\"} 2
";
    assert!(text.starts_with(expected_start), "{text}");
    let expected_end = "\
write_seconds_bucket{le=\"68.719476735\"} 2
write_seconds_bucket{le=\"+Inf\"} 3
write_seconds_sum 1000.000002047
write_seconds_count 3
# HELP writes_total Writes.
# TYPE writes_total counter
writes_total 4
writes_total{keyspace=\"a\\\\b\\\"c\\nd\"} 3
";
    assert!(text.ends_with(expected_end), "{text}");
}

/// The lines of one name are adjacent, as Prometheus wants it, also if two registries have it.
#[test]
fn snapshots_of_two_registries_become_one() {
    let [first, second] = [Registry::default(), Registry::default()];
    first.counter("writes_total", "Writes.").add(3);
    first.set_gauges(&[("bytes", "Bytes.", 7), ("files", "Files.", u64::MAX)]);
    second.with_labels(&[("range", "2")]).counter("writes_total", "Writes.").add(4);
    second.counter("reads_total", "Reads.").add(5);
    let both = first.snapshot().join(second.snapshot());
    let names: Vec<&str> = both.metrics.iter().map(|metric| metric.name.as_str()).collect();
    assert_eq!(names, ["bytes", "files", "reads_total", "writes_total", "writes_total"]);
    assert_eq!((both.counter("writes_total"), both.gauge("files")), (7, i64::MAX));
}
