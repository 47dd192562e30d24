//! Late StoCs: which calls wait for them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use device::{Buffer, Device, File, Mode, OnDemandFile, Request as DeviceRequest, SyncKind, Work};
use environment::Environment;
use logc::testing::{MemoryRegistry, RANGE, World, options as stoc_options};
use logc::{Closing, Setup, Stocs};
use stoc::{Epoch, Identity, Kind, Link, OnReply, Request, Response, Stoc};
use sync::{Condvar, Mutex};

use super::{content, device_of};
use crate::node::Content;
use crate::{Options, RangeDevice, open};

type Holds = fn(u32, &Request) -> bool;

/// StoCs with a thread each. They hold requests while the gate is closed.
#[derive(Debug)]
struct Late {
    links: Vec<Arc<dyn Link>>,
    disks: Vec<Arc<dyn Device>>,
    gate: Arc<Gate>,
    /// Choices so far: each begins with the next StoC.
    turn: AtomicUsize,
}

#[derive(Debug)]
struct Gate {
    holds: Mutex<Option<Holds>>,
    opened: Condvar,
    /// Requests that wait.
    waiting: AtomicUsize,
}

struct LateLink {
    identity: Identity,
    requests: Mutex<mpsc::Sender<(Request, OnReply)>>,
}

impl std::fmt::Debug for LateLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LateLink")
    }
}

impl Link for LateLink {
    fn identity(&self) -> Identity {
        self.identity
    }

    fn send(&self, request: Request, on_reply: OnReply) {
        self.requests.lock().send((request, on_reply)).expect("the thread is there");
    }
}

impl Gate {
    fn pass(&self, node: u32, request: &Request) {
        let mut holds = self.holds.lock();
        if !holds.is_some_and(|holds| holds(node, request)) {
            return;
        }
        self.waiting.fetch_add(1, SeqCst);
        while holds.is_some_and(|holds| holds(node, request)) {
            self.opened.wait(&mut holds);
        }
        self.waiting.fetch_sub(1, SeqCst);
    }

    fn close(&self, holds: Holds) {
        *self.holds.lock() = Some(holds);
    }

    fn open(&self) {
        *self.holds.lock() = None;
        self.opened.notify_all();
    }

    /// Waits until `count` requests wait.
    fn wait_for(&self, count: usize) {
        while self.waiting.load(SeqCst) < count {
            Environment::real().sleep(Duration::from_millis(1));
        }
    }
}

impl Late {
    fn new(count: u32) -> Arc<Self> {
        let (holds, opened, waiting) = Default::default();
        let gate = Arc::new(Gate { holds, opened, waiting });
        let disks: Vec<Arc<dyn Device>> = (0..count).map(|_| device::memory()).collect();
        let link = |(node, disk): (u32, &Arc<dyn Device>)| {
            let stoc = Stoc::open(Arc::clone(disk), &stoc_options(node, 1));
            let stoc = stoc.expect("memory takes it");
            let (identity, gate) = (stoc.identity(), Arc::clone(&gate));
            let (requests, received) = mpsc::channel::<(Request, OnReply)>();
            let serve = move || {
                for (request, on_reply) in received {
                    gate.pass(node, &request);
                    on_reply(stoc.serve(&request));
                }
            };
            drop(Environment::real().spawn("late", serve).expect("there is a thread"));
            Arc::new(LateLink { identity, requests: Mutex::new(requests) }) as Arc<dyn Link>
        };
        let links = (1..).zip(&disks).map(link).collect();
        Arc::new(Self { links, disks, gate, turn: AtomicUsize::new(0) })
    }

    fn device(self: &Arc<Self>) -> (RangeDevice, Closing) {
        self.device_with(Duration::from_millis(40))
    }

    /// Opens the device with this limit of a call.
    fn device_with(self: &Arc<Self>, slow: Duration) -> (RangeDevice, Closing) {
        let registry = Arc::new(MemoryRegistry::default());
        registry.raise(1);
        let closing = Closing::default();
        let logs = Setup {
            range: RANGE,
            epoch: Epoch(1),
            registry,
            stocs: Arc::clone(self) as _,
            ensemble: 3,
            quorum: 2,
            mode: logc::Mode::Durable,
            slow,
            backlog_bytes: 16 << 20,
            gives_up_log: false,
            environment: Environment::real(),
            closing: closing.clone(),
        };
        let options = Options { logs, copies: 2, rho: 3 };
        (open(&options).expect("all StoCs are up"), closing)
    }

    /// The copies of tables on all StoCs.
    fn copies(&self) -> usize {
        let list = Request::List { range: RANGE };
        let timing = (Duration::from_secs(20), &Environment::real());
        let replies = stoc::call_all(&self.links, &list, timing).into_iter();
        let files = replies.filter_map(|reply| match reply {
            Ok(Response::Files(files)) => Some(files),
            _ => None,
        });
        files.flatten().filter(|file| file.name.kind == Kind::Data).count()
    }
}

impl Stocs for Late {
    fn link(&self, node: u32) -> Option<Arc<dyn Link>> {
        self.links.iter().find(|link| link.identity().node == node).cloned()
    }

    fn choose(&self, count: usize, avoid: &[u32]) -> Vec<Arc<dyn Link>> {
        let turn = self.turn.fetch_add(1, SeqCst);
        let all = self.links.iter().cycle().skip(turn % self.links.len()).take(self.links.len());
        let free = all.filter(|link| !avoid.contains(&link.identity().node));
        free.take(count).cloned().collect()
    }
}

fn put_table(device: &RangeDevice, name: &str) {
    let table = device.open_blocks(name, Mode::CreateNew).expect("it is new");
    table.write_at(0, &[7; 10_000]).expect("it is on its way");
    table.sync(SyncKind::All).expect("all StoCs are up");
    device.sync_dir("").expect("all StoCs are up");
}

fn copies_of(device: &RangeDevice) -> Vec<usize> {
    let state = device.files().state.lock();
    let copies = state.names.files().filter_map(|(_, node)| match &*node.content.lock() {
        Content::Table(table) => Some(table.placement().fragments.iter().map(Vec::len).sum()),
        _ => None,
    });
    copies.collect()
}

/// An append to the journal that waits holds up no names and no repair, also the first one of a
/// file.
#[test]
fn an_append_that_waits_holds_up_nothing_else() {
    for is_first in [false, true] {
        let late = Late::new(3);
        let (device, _) = late.device();
        device.create_dir("journal").expect("it is in memory");
        let file = device.open("journal/1.journal", Mode::CreateNew).expect("it is new");
        if !is_first {
            file.write_at(0, b"header").expect("all StoCs are up");
        }
        device.sync_dir("journal").expect("all StoCs are up");
        put_table(&device, "table");
        late.gate.close(|_, request| request.is_of_log());
        thread::scope(|scope| {
            let writes = scope.spawn(|| {
                let offset = if is_first { 0 } else { 6 };
                file.write_at(offset, b"group")
            });
            late.gate.wait_for(2);
            assert_eq!(device.exists("table"), Ok(true));
            assert_eq!(device.repair(), Ok(0));
            assert!(!writes.is_finished());
            late.gate.open();
            writes.join().expect("it does not panic").expect("all StoCs are up");
        });
    }
}

/// The first write to a file of the journal and a repair do not wait for each other.
#[test]
fn a_repair_during_the_begin_of_a_file_ends() {
    let world = World::new(3);
    let device = device_of(&world, 1);
    device.create_dir("journal").expect("it is in memory");
    device.sync_dir("").expect("all StoCs are up");
    let (repairing, is_begun) = (device.clone(), AtomicBool::new(false));
    let file = device.open("journal/1.new", Mode::CreateNew).expect("it is new");
    world.registry.on_change(move |_, _| {
        if !is_begun.swap(true, SeqCst) {
            assert_eq!(repairing.repair(), Ok(0));
        }
    });
    file.write_at(0, b"header").expect("all StoCs are up");
    assert_eq!(content(&device, "journal/1.new"), b"header");
}

/// A table has two copies, although a StoC needs longer than the limit of a call to finish one.
#[test]
fn a_slow_finish_is_waited_for() {
    let late = Late::new(3);
    let (device, _) = late.device();
    let table = device.open_blocks("table", Mode::CreateNew).expect("it is new");
    table.write_at(0, &[7; 10_000]).expect("it is on its way");
    late.gate.close(|_, request| matches!(request, Request::Finish { .. }));
    thread::scope(|scope| {
        let syncs = scope.spawn(|| table.sync(SyncKind::All));
        // The third one is begun since the others are slow.
        late.gate.wait_for(3);
        late.gate.open();
        syncs.join().expect("it does not panic").expect("all StoCs are up");
    });
    assert_eq!(copies_of(&device).first().map(|copies| *copies >= 2), Some(true));
    assert_eq!(late.copies(), copies_of(&device).iter().sum::<usize>());
}

/// A StoC that is late to list its files has lost none.
#[test]
fn a_late_list_copies_nothing() {
    let late = Late::new(3);
    let (device, _) = late.device();
    for number in 0..10 {
        put_table(&device, &format!("table-{number}"));
    }
    assert_eq!(late.copies(), 20);
    late.gate.close(|node, request| node == 1 && matches!(request, Request::List { .. }));
    assert_eq!(device.repair(), Ok(0));
    late.gate.open();
    assert_eq!(late.copies(), 20);
    for number in 0..10 {
        device.remove(&format!("table-{number}")).expect("it is there");
    }
    device.sync_dir("").expect("all StoCs are up");
    assert_eq!(late.copies(), 0);
}

/// A repair never releases the last copy that can be read: one has a damage that no read has found,
/// and the StoC of the other one is late.
#[test]
fn f6_a_repair_keeps_the_last_good_copy() {
    let late = Late::new(2);
    let (device, _) = late.device();
    put_table(&device, "table");
    let disk = late.disks.first().expect("there are two");
    let dir = format!("files/{:08x}", RANGE.0);
    let names = disk.list(&dir).expect("it is there").into_iter().map(|entry| entry.name);
    let name = names.into_iter().find(|name| name.starts_with("data-")).expect("it has a copy");
    let file = disk.open(&format!("{dir}/{name}"), Mode::Write).expect("it is there");
    file.write_at(4_096 + 5_000, b"x").expect("memory takes it");
    late.gate.close(|node, request| node == 2 && matches!(request, Request::List { .. }));
    let _repaired = thread::scope(|scope| {
        let repairs = scope.spawn(|| device.repair());
        late.gate.wait_for(1);
        Environment::real().sleep(Duration::from_millis(60));
        late.gate.open();
        repairs.join().expect("it does not panic")
    });
    assert_eq!(content(&device, "table"), [7; 10_000]);
    assert!(device.repair().is_ok());
    assert_eq!(content(&device, "table"), [7; 10_000]);
    assert_eq!(copies_of(&device), [2]);
}

/// A queue counts its reads and waits for no StoC, also on a file that is opened on demand.
#[test]
fn reads_of_a_queue_overlap() {
    let late = Late::new(3);
    let (device, _) = late.device();
    put_table(&device, "table");
    let all: Arc<dyn Device> = Arc::new(device.clone());
    let file = Arc::new(OnDemandFile::new(&all, "table".to_owned(), Mode::Read));
    let before = device.accounting().counts().read_ops;
    let mut queue = device.queue(8).expect("it is in memory");
    late.gate.close(|_, request| matches!(request, Request::Read { .. }));
    for tag in 0..4 {
        let work = Work::Read { offset: tag * 1_000, buffer: Buffer::zeroed(1_000) };
        let request = DeviceRequest { tag, file: Arc::clone(&file) as _, work };
        assert!(queue.submit(request).is_ok());
    }
    assert_eq!(queue.poll(&mut Vec::new()), Ok(0));
    late.gate.open();
    let mut completions = Vec::new();
    while completions.len() < 4 {
        queue.wait(1, &mut completions).expect("all StoCs are up");
    }
    assert!(completions.iter().all(|completion| completion.result.is_ok()));
    assert_eq!(device.accounting().counts().read_ops - before, 4);
}

/// A read that one StoC holds is served by another one, long before the limit of a call. The read
/// of a queue has no limit.
#[test]
fn a_late_read_is_hedged() {
    let late = Late::new(2);
    let (device, _) = late.device_with(Duration::from_secs(3_600));
    put_table(&device, "table");
    let file: Arc<dyn File> = device.open("table", Mode::Read).expect("it is there");
    // The limit follows from these.
    for _ in 0..100 {
        file.read_at(5_000, &mut [0; 100]).expect("all StoCs are up");
    }
    let read_both = || {
        let mut bytes = [0; 100];
        file.read_at(5_000, &mut bytes).expect("one StoC is up");
        assert_eq!(bytes, [7; 100]);
        let mut queue = device.queue(2).expect("it is in memory");
        let work = Work::Read { offset: 9_000, buffer: Buffer::zeroed(500) };
        let request = DeviceRequest { tag: 1, file: Arc::clone(&file), work };
        assert!(queue.submit(request).is_ok());
        let mut completions = Vec::new();
        assert_eq!(queue.wait(1, &mut completions), Ok(1));
        assert!(completions.iter().all(|completion| completion.result.is_ok()));
    };
    let holds: [Holds; 2] = [
        |node, request| node == 1 && matches!(request, Request::Read { .. }),
        |node, request| node == 2 && matches!(request, Request::Read { .. }),
    ];
    for held in holds {
        late.gate.close(held);
        thread::scope(|scope| {
            let reads = scope.spawn(read_both);
            let is_served = (0..2_000).any(|_| {
                Environment::real().sleep(Duration::from_millis(5));
                reads.is_finished()
            });
            late.gate.open();
            assert!(is_served, "only the late StoC was asked");
            reads.join().expect("it does not panic");
        });
    }
}
