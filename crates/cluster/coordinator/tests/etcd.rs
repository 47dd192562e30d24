//! The store in a real etcd, which the test starts on loopback. Without the program `etcd` the test
//! says so, and fails in CI.
#![cfg(feature = "etcd")]
#![expect(clippy::unwrap_used, reason = "a test: what is missing fails it")]

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use environment::Environment;
use stoc::Epoch;
use thermocline_coordinator::{
    Compare, Coordinator, Election as _, EtcdOptions, EtcdStore, Owner, Store, StoreError, Write,
};

/// A limit that only a fault reaches.
const LONG: Duration = Duration::from_secs(30);

/// An etcd of one member, killed when dropped.
struct Etcd {
    process: Child,
    client: String,
}

/// Returns whether a coordinator leads after an attempt.
fn leads(store: &EtcdStore, name: &str) -> bool {
    store.campaign(name).is_ok_and(|led| led.is_some())
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Etcd {
    fn start(dir: &Path) -> Self {
        let (client, peer) = (free_port(), free_port());
        Self::start_at(dir, client, peer)
    }

    fn start_at(dir: &Path, client: u16, peer: u16) -> Self {
        let (client, peer) =
            (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
        let process = Command::new("etcd")
            .args(["--data-dir".as_ref(), dir.as_os_str()])
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program etcd is installed: apt-get install etcd-server");
        let etcd = Self { process, client };
        let store = etcd.store(1, 2);
        await_that("etcd serves", || store.get("x").is_ok());
        etcd
    }

    fn store(&self, cluster: u64, lease_s: u64) -> EtcdStore {
        EtcdStore::new(&EtcdOptions {
            endpoints: vec![self.client.clone()],
            tls: None,
            cluster,
            lease: Duration::from_secs(lease_s),
            call: Duration::from_secs(2),
            environment: Environment::real(),
        })
        .unwrap()
    }

    /// Returns a store whose coordinator leads.
    fn leading(&self, cluster: u64, lease_s: u64) -> EtcdStore {
        let store = self.store(cluster, lease_s);
        await_that("it leads", || leads(&store, "leading"));
        store
    }

    fn signal(&self, signal: &str) {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn await_that(what: &str, is_so: impl Fn() -> bool) {
    let environment = Environment::real();
    let until = environment.now() + LONG;
    while !is_so() {
        assert!(environment.now() < until, "{what}: not within {LONG:?}");
        environment.sleep(Duration::from_millis(50));
    }
}

fn put(key: &str, value: &str) -> Write {
    Write::put(key, value.as_bytes().to_vec())
}

/// C1: a commit compares, writes all or none, and gives revisions that grow.
#[test]
fn c1_commits_are_whole_and_compare() {
    let dir = tempfile::tempdir().unwrap();
    let etcd = Etcd::start(dir.path());
    let store = etcd.leading(7, 5);
    let none = |key: &str| Compare::unchanged(key, None);
    assert_eq!(store.commit(&[none("a")], &[put("a", "1"), put("b", "1")]), Ok(true));
    let (one, two) = (store.get("a").unwrap().unwrap(), store.get("b").unwrap());
    assert_eq!(one.value, b"1");
    assert_eq!(store.commit(&[none("a")], &[put("a", "2")]), Ok(false));
    let half = [Compare::unchanged("a", Some(&one)), none("b")];
    assert_eq!(store.commit(&half, &[put("a", "3"), Write::remove("b")]), Ok(false));
    assert_eq!((store.get("a"), store.get("b")), (Ok(Some(one.clone())), Ok(two.clone())));
    let both = [Compare::unchanged("a", Some(&one)), Compare::unchanged("b", two.as_ref())];
    assert_eq!(store.commit(&both, &[put("a", "3"), Write::remove("b")]), Ok(true));
    assert_eq!(store.get("b"), Ok(None));
    assert!(store.get("a").unwrap().unwrap().revision > one.revision);
    // Bytes of all values, an empty one too.
    let bytes: Vec<u8> = (0..=255).collect();
    let writes = [Write::put("x/1", bytes.clone()), Write::put("x/2", Vec::new()), put("y", "y")];
    assert_eq!(store.commit(&[], &writes), Ok(true));
    let listed = store.list("x/").unwrap();
    let listed: Vec<_> = listed.into_iter().map(|(key, record)| (key, record.value)).collect();
    assert_eq!(listed, [("x/1".to_owned(), bytes), ("x/2".to_owned(), Vec::new())]);
    let all = store.list("").unwrap();
    assert_eq!(
        all.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(),
        ["a", "x/1", "x/2", "y"]
    );
    // Another cluster in the same etcd.
    let other = etcd.leading(8, 5);
    assert_eq!(other.list(""), Ok(Vec::new()));
}

/// A coordinator over etcd keeps C2 and C4, also after etcd was killed.
#[test]
fn a_coordinator_over_etcd_survives_a_killed_etcd() {
    let dir = tempfile::tempdir().unwrap();
    let (client, peer) = (free_port(), free_port());
    let etcd = Etcd::start_at(dir.path(), client, peer);
    let store = Arc::new(etcd.leading(7, 60));
    let coordinator = Coordinator::found(Arc::clone(&store) as _, 7).unwrap();
    let range = coordinator.create_keyspace("users", b"", &[]).unwrap().ranges[0];
    let owner = |ltc| Owner { ltc, start: 1 };
    assert_eq!(coordinator.take(range, owner(1)).unwrap().epoch, Epoch(1));
    let ids = thread::scope(|scope| {
        let take = || (0..10).map(|_| coordinator.next_client().unwrap()).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<BTreeSet<_>>()
    });
    assert_eq!(ids.len(), 40, "no id is given twice");
    drop(etcd);
    assert!(coordinator.next_client().is_err());
    let _etcd = Etcd::start_at(dir.path(), client, peer);
    await_that("it goes on", || coordinator.take(range, owner(2)).is_ok());
    let taken = coordinator.range(range).unwrap();
    assert!(taken.epoch >= Epoch(2) && taken.owner == Some(owner(2)), "{taken:?}");
    assert!(!ids.contains(&coordinator.next_client().unwrap()));
}

/// One coordinator leads at a time. One that has lost its lease commits nothing.
#[test]
fn an_old_leader_commits_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let etcd = Etcd::start(dir.path());
    let (one, two) = (etcd.store(7, 2), etcd.store(7, 2));
    assert_eq!(one.commit(&[], &[put("a", "0")]), Err(StoreError::NotLeader));
    let first = one.campaign("one").unwrap();
    assert!(first.is_some() && one.leads());
    assert_eq!((leads(&two, "two"), two.leads()), (false, false));
    assert_eq!(two.leader(), Ok(Some("one".to_owned())));
    assert_eq!(one.commit(&[], &[put("a", "1")]), Ok(true));
    assert_eq!(two.commit(&[], &[put("a", "2")]), Err(StoreError::NotLeader));
    // The key of the leader is no record.
    assert_eq!(one.commit(&[], &[put("leader", "two"), put("../leader", "two")]), Ok(true));
    assert_eq!(two.leader(), Ok(Some("one".to_owned())));
    // It renews its lease.
    for _ in 0..6 {
        Environment::real().sleep(Duration::from_millis(600));
        assert_eq!((leads(&one, "one"), leads(&two, "two")), (true, false));
    }
    // It does not, so the other one takes over. The first one has not noticed this.
    await_that("the other one leads", || leads(&two, "two"));
    assert!(!one.leads(), "its lease is over by its own clock before");
    assert_eq!(two.commit(&[], &[put("a", "3")]), Ok(true));
    assert_eq!(one.commit(&[], &[put("a", "4")]), Err(StoreError::NotLeader));
    assert_eq!(one.get("a").unwrap().unwrap().value, b"3");
    assert!(!leads(&one, "one"));
    // Without a pause.
    assert_eq!(two.resign(), Ok(()));
    let again = one.campaign("one").unwrap();
    assert!(again.is_some() && again != first, "another leadership");
    assert_eq!(two.commit(&[], &[put("a", "5")]), Err(StoreError::NotLeader));
}

/// An etcd that does not reply, one that is not there, and one that is none.
#[test]
fn an_etcd_that_cannot_be_used_is_unavailable() {
    let dir = tempfile::tempdir().unwrap();
    let etcd = Etcd::start(dir.path());
    let store = etcd.leading(7, 60);
    etcd.signal("-STOP");
    assert!(matches!(store.get("a"), Err(StoreError::Unavailable(_))));
    // etcd may make it after this call has ended, so it is of another key.
    assert!(matches!(store.commit(&[], &[put("b", "1")]), Err(StoreError::Unavailable(_))));
    etcd.signal("-CONT");
    await_that("it replies again", || store.commit(&[], &[put("a", "2")]) == Ok(true));
    let mut options = EtcdOptions {
        endpoints: vec![format!("http://127.0.0.1:{}", free_port()), etcd.client.clone()],
        tls: None,
        cluster: 7,
        lease: Duration::from_secs(2),
        call: Duration::from_secs(2),
        environment: Environment::real(),
    };
    let second = EtcdStore::new(&options).unwrap();
    assert!(matches!(second.get("a"), Err(StoreError::Unavailable(_))), "the first is away");
    assert_eq!(second.get("a").unwrap().unwrap().value, b"2", "the next call takes the second");
    options.endpoints.clear();
    let none = EtcdStore::new(&options).unwrap();
    assert!(matches!(none.get("a"), Err(StoreError::Unavailable(_))));
}
