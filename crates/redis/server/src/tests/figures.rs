//! The server's figures of itself: INFO and `/metrics`.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::time::Duration;

use thermocline::Db;
use thermocline::environment::Environment;

use super::client::Client;
use super::memory::figure;
use super::{options, serve, start_on_database};
use crate::{Options, Server};

fn wait_until(mut holds: impl FnMut() -> bool) -> bool {
    (0..200).any(|_| {
        Environment::real().sleep(Duration::from_millis(20));
        holds()
    })
}

/// The page at `path` of the server's metrics.
pub(super) fn page(server: &Server, path: &str) -> String {
    let addr = server.metrics_addr().expect("metrics are served");
    let mut stream = std::net::TcpStream::connect(addr).expect("connects");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").expect("sends");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer comes");
    text
}

/// The number of a metric, its labels included in `name`.
fn metric(page: &str, name: &str) -> Option<f64> {
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    Some(line.parse().expect("a number"))
}

#[test]
fn the_metrics_of_the_database_and_the_process_are_served() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Db::open(dir.path(), thermocline::Options::default()).expect("opens");
    let metrics = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let options = Options { metrics, ..options() };
    let server = Server::start(&db, options, Environment::real()).expect("starts");
    let mut client = Client::connect(server.addr());
    let value = "v".repeat(1000);
    (0..100).for_each(|key| assert_eq!(client.run(&format!("SET key:{key} {value}")), "+OK"));
    for number in 1..=5 {
        assert_eq!(client.run("INCR counter"), format!(":{number}"));
    }
    assert_eq!(figure(&mut client, "redis-0_updates_written"), 5);
    assert!(figure(&mut client, "redis-0_updates_written_bytes") >= 5 * 8);
    assert_eq!(client.run("SAVE"), "+OK");
    let first = page(&server, "/metrics");
    for (name, least) in [
        ("device_write_ops_total", 1.0),
        ("device_write_bytes_total", 100_000.0),
        ("device_read_bytes_total", 0.0),
        ("device_syncs_total", 1.0),
        ("journal_records_total", 100.0),
        ("journal_payload_bytes_total", 100_000.0),
        ("journal_group_bytes_total", 100_000.0),
        ("journal_segments", 1.0),
        ("journal_bytes", 100_000.0),
        ("database_writes_total", 100.0),
        ("database_disk_bytes", 100_000.0),
        ("database_memory_bytes", 100_000.0),
        ("keyspace_live_keys{keyspace=\"redis-0\"}", 100.0),
        ("keyspace_live_bytes{keyspace=\"redis-0\"}", 100_000.0),
        ("keyspace_memory_bytes{keyspace=\"redis-0\"}", 100_000.0),
        ("keyspace_updates_written{keyspace=\"redis-0\"}", 5.0),
        ("keyspace_updates_written_bytes{keyspace=\"redis-0\"}", 40.0),
        ("keyspace_engine_figure{figure=\"leaves\",keyspace=\"redis-0\"}", 1.0),
        ("process_resident_memory_bytes", 1_000_000.0),
        ("process_cpu_seconds_total", 0.0),
        ("process_start_time_seconds", 1_700_000_000.0),
        ("process_threads", 4.0),
        ("process_open_fds", 5.0),
    ] {
        let found = metric(&first, name);
        assert!(found.is_some_and(|found| found >= least), "{name} is {found:?}\n{first}");
    }
    let records = |page: &str| metric(page, "journal_records_total").expect("is there");
    let before = records(&first);
    (0..10).for_each(|_| assert_eq!(client.run("SET more v"), "+OK"));
    assert!((records(&page(&server, "/metrics")) - before - 10.0).abs() < 0.5);
    server.stop();
    server.wait().expect("ends well");
    db.close().expect("closes");
}

#[test]
fn info_tells_of_memory_time_and_rates() {
    let (_server, mut client) = serve();
    assert!(figure(&mut client, "used_memory_rss") > 100_000);
    assert_eq!(client.call(&[b"SET", b"k", &vec![b'x'; 1 << 20]]), "+OK");
    // The peak never falls, so a peak that is read after the use is not below it.
    let used = figure(&mut client, "used_memory");
    assert!(figure(&mut client, "used_memory_peak") >= used, "{used}");
    let info = client.run("INFO");
    let text = |name: &str| {
        let found = info.split("\\r\\n").find_map(|line| line.strip_prefix(name));
        found.unwrap_or_else(|| panic!("no {name} in {info}")).to_owned()
    };
    for name in ["used_memory_human:", "used_memory_peak_human:", "used_memory_rss_human:"] {
        assert!(text(name).ends_with(['B', 'K', 'M', 'G']), "{name}{}", text(name));
    }
    for name in ["used_cpu_sys:", "used_cpu_user:"] {
        assert!(text(name).parse::<f64>().is_ok_and(|seconds| seconds >= 0.0), "{name}");
    }
    let busy = wait_until(|| {
        (0..200).for_each(|_| assert_eq!(client.run("PING"), "+PONG"));
        figure(&mut client, "instantaneous_ops_per_sec") > 100
    });
    assert!(busy, "thousands of commands are no rate");
    let quiet = wait_until(|| figure(&mut client, "instantaneous_ops_per_sec") < 100);
    assert!(quiet, "the rate stays");
}

#[test]
fn every_command_that_ran_has_a_time() {
    let (_server, mut client) = serve();
    for line in ["SET a 1", "GET a", "TTL a", "MULTI", "STRLEN a", "APPEND a b", "EXEC"] {
        assert!(!client.run(line).starts_with('-'), "{line}");
    }
    let counted = wait_until(|| client.run("INFO commandstats").contains("cmdstat_exec:"));
    let info = client.run("INFO commandstats");
    assert!(counted, "{info}");
    for name in ["set", "get", "ttl", "multi", "strlen", "append", "exec"] {
        assert!(info.contains(&format!("cmdstat_{name}:calls=1,usec=")), "{name} in {info}");
        assert!(!info.contains(&format!("cmdstat_{name}:calls=1,usec=0,")), "{name} in {info}");
    }
    // Commands that come in turns are all sampled, not always the same one of them.
    let (server, mut client) = serve();
    (0..160).for_each(|_| {
        client.run("GET a");
        client.run("STRLEN a");
    });
    drop(client);
    let stats = &server.shared.stats;
    for command in ["get", "strlen"] {
        let index = crate::commands::table::find(command.as_bytes()).expect("a command");
        let timed = || stats.command(index).latency.distribution().count;
        assert!(wait_until(|| timed() == 10), "{} of 160 {command} were timed", timed());
    }
}

#[test]
fn error_replies_are_counted_by_their_code() {
    let (_server, mut client) = serve();
    assert!(!client.run("INFO errorstats").contains("errorstat_"));
    for line in
        ["GET", "NOPE", "CONFIG BAD", "SET k v EX 0", "MULTI", "GET", "EXEC", "AUTH u p", "HELLO 9"]
    {
        client.run(line);
    }
    for line in ["MULTI", "SET s x", "INCR s", "EXEC"] {
        client.run(line);
    }
    let want = ["ERR:count=6", "EXECABORT:count=1", "NOPROTO:count=1", "WRONGPASS:count=1"];
    let has_all =
        |info: &str| want.iter().all(|line| info.contains(&format!("errorstat_{line}\\r")));
    let counted = wait_until(|| has_all(&client.run("INFO errorstats")));
    let info = client.run("INFO");
    assert!(counted && has_all(&info), "{info}");
    assert!(info.contains("total_error_replies:9\\r"), "{info}");
    // A command that was refused before it ran has not failed.
    let stats = client.run("INFO commandstats");
    let figures = |name: &str| {
        let line = stats.split("\\r\\n").find(|line| line.starts_with(&format!("cmdstat_{name}:")));
        let line = line.unwrap_or_else(|| panic!("no {name} in {stats}"));
        line.split_once(",rejected_calls=").map(|(_, figures)| figures.to_owned())
    };
    assert_eq!(figures("get").as_deref(), Some("2,failed_calls=0"));
    assert_eq!(figures("incr").as_deref(), Some("0,failed_calls=1"));
    // A request that cannot be parsed is an error as well.
    let mut other = Client::connect(_server.addr());
    other.send(b"*1\r\nx\r\n");
    assert!(other.reply().starts_with("-ERR Protocol error"));
    assert!(client.run("INFO errorstats").contains("errorstat_ERR:count=7\\r"));
    assert_eq!(client.run("CONFIG RESETSTAT"), "+OK");
    assert!(!client.run("INFO errorstats").contains("errorstat_"));
}

#[test]
fn writes_since_the_last_save_are_counted() {
    let (_server, mut client) = serve();
    assert_eq!(figure(&mut client, "rdb_changes_since_last_save"), 0);
    for line in ["SET a 1", "INCR a", "DEL a", "GET a"] {
        client.run(line);
    }
    assert_eq!(figure(&mut client, "rdb_changes_since_last_save"), 3);
    assert_eq!(client.run("SAVE"), "+OK");
    assert_eq!(figure(&mut client, "rdb_changes_since_last_save"), 0);
    client.run("SET a 1");
    assert_eq!(client.run("BGSAVE"), "+Background saving started");
    assert_eq!(figure(&mut client, "rdb_changes_since_last_save"), 0);
    assert_eq!(figure(&mut client, "lazyfree_pending_objects"), 0);
    assert!(client.run("INFO").contains("aof_last_write_status:ok\\r"));
}

#[test]
fn keys_with_an_expiry_are_counted() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, db) = start_on_database(dir.path());
    let mut client = Client::connect(server.addr());
    for index in 0..50 {
        client.run(&format!("SET plain:{index} v"));
        client.run(&format!("SET timed:{index} v PX 100000"));
    }
    let mut shows = |want: &str| {
        let mut info = String::new();
        let shown = wait_until(|| {
            info = client.run("INFO keyspace");
            info.contains(want)
        });
        assert!(shown, "{want} in {info}");
        info
    };
    let info = shows("db0:keys=100,expires=50,avg_ttl=");
    let average = info.split("avg_ttl=").nth(1).and_then(|rest| rest.split("\\r").next());
    let average: u64 = average.expect("a figure").parse().expect("a number");
    assert!((90_000..=100_000).contains(&average), "{average}");
    drop((server, db));
    let dir = tempfile::tempdir().expect("a directory");
    let (server, db) = start_on_database(dir.path());
    let mut client = Client::connect(server.addr());
    client.run("SET a 1 EX 1000");
    client.run("SET b 1 EX 1000");
    let counts =
        |client: &mut Client, want: &str| wait_until(|| client.run("INFO keyspace").contains(want));
    assert!(counts(&mut client, "expires=2,"));
    // A key that expires, persists or is removed is no longer counted, though nothing with an
    // expiry was written.
    client.run("PERSIST a");
    assert!(counts(&mut client, "expires=1,"), "{}", client.run("INFO keyspace"));
    drop((server, db));
}

#[test]
fn a_few_expired_keys_among_very_many_are_found_soon() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, db) = start_on_database(dir.path());
    let mut client = Client::connect(server.addr());
    assert_eq!(client.run("SET plain:000000 v"), "+OK");
    let keys = db.existing_keyspace("redis-0").expect("is there");
    for index in 0..200_000 {
        keys.put(format!("plain:{index:06}").as_bytes(), b"v").expect("puts");
    }
    for index in 0..10 {
        assert_eq!(client.run(&format!("SET timed:{index} v PX 50")), "+OK");
    }
    // By 500 keys in a tenth of a second this would take 40 s.
    let swept = (0..500).any(|_| {
        Environment::real().sleep(Duration::from_millis(20));
        keys.live_keys() == Ok(Some(200_000))
    });
    assert!(swept, "{:?} keys are left", keys.live_keys());
    let counted = wait_until(|| client.run("INFO stats").contains("expired_keys:10\\r"));
    assert!(counted, "{}", client.run("INFO stats"));
}
