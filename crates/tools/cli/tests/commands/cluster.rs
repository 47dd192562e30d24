//! `cluster dev`: the commands of the README, losses of StoCs, and refusals.

use std::path::Path;

use crate::program::{on, run};
use crate::serving::{Served, ask};

fn start(data: &Path) -> (Served, String) {
    let options = ["--port", "0", "--json", "--memory", "512mb"];
    let mut served = Served::start_command(&["cluster", "dev", "--data"], data, &options);
    let addr = served.addr();
    (served, addr)
}

/// Runs it to its end, which is a refusal. Returns its exit code and its message.
fn refused(data: &Path, options: &[&str]) -> (i32, String) {
    let data = data.to_str().unwrap();
    let said = run([&["cluster", "dev", "--port", "0", "--data", data], options].concat());
    assert!(said.code > 0, "{said:?}");
    (said.code, said.err)
}

/// A user sets a key, kills the process, starts it again, and gets the key.
#[test]
fn a_key_survives_a_killed_cluster() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("cluster");
    let mut served = Served::start_command(&["cluster", "dev", "--data"], &data, &["--port", "0"]);
    let (first, second) = (served.line(), served.line());
    let begin = format!("process {} serves the cluster {} at ", served.id(), data.display());
    let addr = first.strip_prefix(&begin).unwrap_or_else(|| panic!("{first}"));
    assert!(second.contains("one process is one failure domain"), "{second}");
    let replies = ask(addr, "SET city Turin\r\nSELECT 5\r\nSET city Lyon\r\n");
    assert_eq!(replies, "+OK\r\n+OK\r\n+OK\r\n");
    served.kill();
    let (served, addr) = start(&data);
    let replies = ask(&addr, "GET city\r\nSELECT 5\r\nGET city\r\n");
    assert_eq!(replies, "$5\r\nTurin\r\n+OK\r\n$4\r\nLyon\r\n");
    let (code, message) = served.interrupt();
    assert_eq!((code, message.as_str()), (Some(0), ""));
}

/// The directory of each StoC in turn is removed while the process is stopped.
#[test]
fn the_directory_of_one_stoc_can_be_removed() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("cluster");
    let mut request = String::new();
    for key in 0..200 {
        request += &format!("SET key{key} value{key}\r\n");
    }
    let (served, addr) = start(&data);
    assert_eq!(ask(&addr, &request), "+OK\r\n".repeat(200));
    served.kill();
    for stoc in [2, 3, 1] {
        let removed = data.join(format!("stoc-{stoc}"));
        std::fs::remove_dir_all(removed).unwrap();
        let (served, addr) = start(&data);
        for key in [0, 99, 199] {
            let reply = ask(&addr, &format!("GET key{key}\r\n"));
            assert!(reply.ends_with(&format!("value{key}\r\n")), "{stoc}: {reply}");
        }
        assert!(ask(&addr, "SAVE\r\n").starts_with("+OK"));
        // Once it is closed, no log depends on the StoC that was lost.
        let (code, warning) = served.interrupt();
        assert_eq!(code, Some(0), "{warning}");
        assert!(warning.contains(&format!("StoC {stoc} has lost its files")), "{warning}");
    }
}

/// `check` reads the marker, the coordinator and all StoCs.
#[test]
fn a_check_names_what_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("cluster");
    let (served, addr) = start(&data);
    let said = on("check", &data, &[]);
    assert_eq!(said.code, 5, "{said:?}");
    assert_eq!(ask(&addr, "SET key value\r\n"), "+OK\r\n");
    served.interrupt();
    let said = on("check", &data, &[]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.contains("checked  StoC 3: "), "{said:?}");
    assert!(said.out.ends_with("everything is whole\n"), "{said:?}");
    // The longest file of a StoC.
    let below = data.join("stoc-2/files/00000001");
    let files = std::fs::read_dir(below).unwrap().map(|entry| entry.unwrap());
    let longest = files.max_by_key(|entry| entry.metadata().unwrap().len()).unwrap().path();
    let bytes = std::fs::metadata(&longest).unwrap().len();
    #[expect(clippy::disallowed_methods, reason = "damages a file")]
    std::fs::File::options().write(true).open(&longest).unwrap().set_len(bytes.min(100)).unwrap();
    let said = on("check", &data, &["--json"]);
    assert_eq!(said.code, 3, "{said:?}");
    let report: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(report["whole"], false);
    assert_eq!(report["stocs"][1]["damage"].as_array().unwrap().len(), 1, "{report}");
    // The cluster works with the other StoCs.
    let (_served, addr) = start(&data);
    assert_eq!(ask(&addr, "GET key\r\n"), "$5\r\nvalue\r\n");
}

#[test]
fn other_directories_and_settings_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("cluster");
    let (served, _) = start(&data);
    let (code, message) = refused(&data, &[]);
    assert_eq!(code, 5, "{message}");
    assert!(message.contains("is open in another process"), "{message}");
    served.interrupt();
    // A cluster is no database, and a database is no cluster.
    let database = dir.path().join("db");
    assert_eq!(on("put", &database, &["key", "value"]).code, 0);
    let (code, message) = refused(&database, &[]);
    assert_eq!(code, 1, "{message}");
    assert!(message.contains("is not a cluster: it has"), "{message}");
    let said = on("get", &data, &["key"]);
    assert!(said.code == 4 && said.err.contains("holds no database"), "{said:?}");
    // A damaged marker.
    let marker = data.join("CLUSTER");
    #[expect(clippy::disallowed_methods, reason = "damages a file")]
    std::fs::write(&marker, "TCLUSTER").unwrap();
    let (code, message) = refused(&data, &[]);
    assert_eq!(code, 3, "{message}");
    let (code, message) = refused(&dir.path().join("new"), &["--engine", "f2"]);
    assert_eq!(code, 2, "{message}");
    assert!(message.contains("a range of a cluster has the engine lsm, and not f2"), "{message}");
}
