//! `serve` on a device that becomes full under EXEC: clients get MISCONF and can read, writes
//! continue once there is room again, and the exit code of a later stop says that a write failed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;

use thermocline::EngineKind;

use crate::program::Small;
use crate::serving::Served;

/// SETs in a transaction, and the length of each value.
const SETS: usize = 8;
const VALUE_BYTES: usize = 4000;
/// More transactions than the device has room for.
const TRANSACTIONS_MAX: usize = 4000;

/// A value that no engine makes shorter.
fn incompressible(seed: u64) -> String {
    use rand::{Rng as _, SeedableRng as _};
    let mut random = environment::Random::seed_from_u64(seed);
    let mut letter = || char::from(b'a' + (random.next_u32() % 26) as u8);
    (0..VALUE_BYTES).map(|_| letter()).collect()
}

struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(addr: &str) -> Self {
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
        Self(BufReader::new(stream))
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Runs a command whose reply is one line or one bulk string.
    fn run(&mut self, request: &str) -> String {
        self.0.get_mut().write_all(format!("{request}\r\n").as_bytes()).unwrap();
        let line = self.line();
        let Some(bytes) = line.strip_prefix('$').and_then(|bytes| bytes.parse::<usize>().ok())
        else {
            return line;
        };
        let mut bulk = vec![0; bytes + 2];
        self.0.read_exact(&mut bulk).unwrap();
        String::from_utf8(bulk).unwrap()
    }

    /// Sets the keys of transaction `number` by MULTI and EXEC. Returns the error, if there is one.
    fn transaction(&mut self, number: usize) -> Result<(), String> {
        assert_eq!(self.run("MULTI"), "+OK");
        for at in 0..SETS {
            let value = incompressible((number * SETS + at) as u64);
            let queued = self.run(&format!("SET {number}:{at} {value}"));
            if queued.starts_with('-') {
                let _ = self.run("DISCARD");
                return Err(queued);
            }
        }
        let reply = self.run("EXEC");
        match reply == format!("*{SETS}") {
            true => (0..SETS).for_each(|_| assert_eq!(self.line(), "+OK")),
            false => return Err(reply),
        }
        Ok(())
    }

    /// Makes transactions until one is refused. Returns how many there were, and why it was.
    fn fill(&mut self) -> (usize, String) {
        let failed = (0..TRANSACTIONS_MAX).find_map(|at| Some((at, self.transaction(at).err()?)));
        failed.expect("the device becomes full")
    }
}

/// A server of `engine` on a file system of 64 MiB at `mount`, in which a file takes 16 MiB.
fn serve(engine: &str, mount: &Path) -> (Served, Client) {
    let options = ["--port", "0", "--json", "--memory", "32mb", "--journal-max", "4mb"];
    let options = [&options[..], &["--engine", engine]].concat();
    let mut served = Served::start(&mount.join("db"), &options);
    let addr = served.addr();
    (served, Client::connect(&addr))
}

#[expect(clippy::disallowed_methods, reason = "a file that is no part of a database")]
fn with_filler(mount: &Path) -> Option<Small> {
    std::fs::create_dir(mount).unwrap();
    let small = Small::mount(mount, "64m")?;
    std::fs::write(mount.join("filler"), vec![1; 16 << 20]).unwrap();
    Some(small)
}

#[test]
#[expect(clippy::disallowed_methods, reason = "removes a file that is no part of a database")]
fn writes_continue_once_there_is_room_again() {
    for engine in EngineKind::ALL.iter().map(|engine| engine.name()) {
        let dir = tempfile::tempdir().unwrap();
        let mount = dir.path().join("mount");
        let Some(_small) = with_filler(&mount) else { return };
        let (served, mut client) = serve(engine, &mount);
        let (count, why) = client.fill();
        // `memory` may have no room in its budget first.
        if engine == "memory" && why.starts_with("-OOM") {
            continue;
        }
        assert!(why.starts_with("-MISCONF"), "{engine}, after {count}: {why}");
        assert_eq!(client.run("GET 0:0").len(), VALUE_BYTES + 2, "{engine}: reads continue");
        let info = client.run("INFO persistence");
        assert!(info.contains("aof_last_write_status:err"), "{engine}: {info}");

        std::fs::remove_file(mount.join("filler")).unwrap();
        let mut tries = 0;
        while let Err(why) = client.transaction(count) {
            tries += 1;
            assert!(tries < 600 && why.starts_with("-MISCONF"), "{engine}: {why}");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        for number in 0..=count {
            let value = client.run(&format!("GET {number}:{}", SETS - 1));
            assert_eq!(value.len(), VALUE_BYTES + 2, "{engine}: transaction {number} of {count}");
        }
        let info = client.run("INFO persistence");
        assert!(info.contains("aof_last_write_status:ok"), "{engine}: {info}");
        drop(client);
        let (code, said) = served.interrupt();
        assert_eq!(code, Some(1), "{engine}: {said}");
        assert!(said.contains("no space"), "{engine}: {said}");
    }
}

#[test]
fn a_stop_while_the_device_is_full_is_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    let mount = dir.path().join("mount");
    let Some(_small) = with_filler(&mount) else { return };
    let (served, mut client) = serve("f2", &mount);
    let (count, why) = client.fill();
    assert!(why.starts_with("-MISCONF"), "after {count}: {why}");
    drop(client);
    let (code, said) = served.interrupt();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("no space"), "{said}");
}
