//! The Redis protocol: a client, and `redis-benchmark`.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use environment::{Environment, JoinHandle};
use sync::locks::Mutex;

use crate::Outcome;
use crate::plan::Plan;
use crate::process;

/// Time that a reply has.
const REPLY_MAX: Duration = Duration::from_secs(120);
/// Time that a run of `redis-benchmark` has.
const LIMIT: Duration = Duration::from_secs(600);
/// Connections of `redis-benchmark`.
pub(crate) const CONNECTIONS: u32 = 64;
/// Keys, and bytes of a value.
pub(crate) const KEYS: u64 = 10_000;
pub(crate) const VALUE_BYTES: usize = 1_000;
/// Requests by which the speed is estimated first.
const ESTIMATE: u64 = 5_000;

/// A connection.
pub(crate) struct Client {
    out: TcpStream,
    input: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> io::Result<Self> {
        let out = TcpStream::connect(address)?;
        out.set_nodelay(true)?;
        out.set_read_timeout(Some(REPLY_MAX))?;
        let input = BufReader::new(out.try_clone()?);
        Ok(Self { out, input })
    }

    /// Sends commands together, and waits for their replies.
    ///
    /// # Errors
    /// The connection's; a reply that is an error.
    pub(crate) fn run(&mut self, commands: &[&[&[u8]]]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for command in commands {
            write!(bytes, "*{}\r\n", command.len())?;
            for word in *command {
                write!(bytes, "${}\r\n", word.len())?;
                bytes.extend_from_slice(word);
                bytes.extend_from_slice(b"\r\n");
            }
        }
        self.out.write_all(&bytes)?;
        commands.iter().try_for_each(|_| self.skip_reply())
    }

    /// Reads a reply that has one line, or is one string.
    fn skip_reply(&mut self) -> io::Result<()> {
        let mut line = String::new();
        if self.input.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end();
        match line.split_at_checked(1) {
            Some(("-", error)) => Err(io::Error::other(error.to_owned())),
            Some(("$", length)) => {
                let length: i64 = length.parse().map_err(io::Error::other)?;
                let bytes = usize::try_from(length).map_or(0, |length| length + 2);
                self.input.read_exact(&mut vec![0; bytes])
            }
            _ => Ok(()),
        }
    }
}

/// Writes all keys of `redis-benchmark` one time.
pub(crate) fn fill(address: SocketAddr) -> Outcome<()> {
    const TOGETHER: u64 = 100;
    let mut client = Client::connect(address)?;
    let value = vec![b'v'; VALUE_BYTES];
    for first in (0..KEYS).step_by(TOGETHER as usize) {
        let keys: Vec<String> =
            (first..first + TOGETHER).map(|key| format!("key:{key:012}")).collect();
        let commands: Vec<[&[u8]; 3]> =
            keys.iter().map(|key| [b"SET".as_slice(), key.as_bytes(), &value]).collect();
        let commands: Vec<&[&[u8]]> = commands.iter().map(<[&[u8]; 3]>::as_slice).collect();
        client.run(&commands)?;
    }
    Ok(())
}

/// Returns the operations a second of `test`, which is `set` or `get`. It runs for the measured
/// time of the plan: the number of requests follows from a short run.
pub(crate) fn measure(
    plan: &Plan,
    address: SocketAddr,
    (test, pipeline): (&str, u32),
) -> Outcome<f64> {
    let requests = ESTIMATE * u64::from(pipeline.min(4));
    let estimate = benchmark(plan, address, (test, pipeline), requests, KEYS)?;
    let requests = (estimate * plan.seconds as f64) as u64;
    benchmark(plan, address, (test, pipeline), requests.max(ESTIMATE), KEYS)
}

/// Runs `redis-benchmark` for a number of requests on random keys of `keys`. Returns operations a
/// second.
pub(crate) fn benchmark(
    plan: &Plan,
    address: SocketAddr,
    (test, pipeline): (&str, u32),
    requests: u64,
    keys: u64,
) -> Outcome<f64> {
    let mut command = Command::new("redis-benchmark");
    command
        .args(["-h", &address.ip().to_string(), "-p", &address.port().to_string()])
        .args(["-t", test, "-P", &pipeline.to_string(), "-c", &CONNECTIONS.to_string()])
        .args(["-n", &requests.to_string(), "-r", &keys.to_string()])
        .args(["-d", &VALUE_BYTES.to_string(), "--csv"]);
    let output = process::run(plan, "redis-benchmark", command, LIMIT)?;
    // "SET","31250.00","1.2",...
    let line = output.lines().find(|line| line.to_lowercase().starts_with(&format!("\"{test}\"")));
    let rate = line.and_then(|line| line.split(',').nth(1));
    let rate = rate.ok_or_else(|| format!("redis-benchmark prints no rate: {output}"))?;
    Ok(rate.trim_matches('"').parse()?)
}

/// Returns whether `redis-benchmark` is installed.
pub(crate) fn has_benchmark() -> bool {
    Command::new("redis-benchmark").arg("--version").output().is_ok()
}

/// A client that writes one key in a loop, and notes the longest time without a reply.
pub(crate) struct Probe {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    /// The longest time between two replies since the last look, and the error that ended the loop.
    longest: Mutex<(Duration, Option<String>)>,
    is_stopping: AtomicBool,
}

impl Probe {
    pub(crate) fn start(environment: &Environment, address: SocketAddr) -> Outcome<Self> {
        let mut client = Client::connect(address)?;
        let shared = Arc::new(Shared::default());
        let (of_thread, clock) = (Arc::clone(&shared), environment.clone());
        let work = move || {
            let (mut last, mut number) = (clock.now(), 0_u64);
            while !of_thread.is_stopping.load(SeqCst) {
                number += 1;
                let done = client.run(&[&[b"SET", b"probe", number.to_string().as_bytes()]]);
                let now = clock.now();
                let mut longest = of_thread.longest.lock();
                longest.0 = longest.0.max(now - last);
                last = now;
                if let Err(error) = done {
                    longest.1 = Some(error.to_string());
                    return;
                }
            }
        };
        Ok(Self { shared, thread: Some(environment.spawn("probe", work)?) })
    }

    /// Returns the longest time without a reply since the last call.
    ///
    /// # Errors
    /// A reply was an error, or the connection ended.
    pub(crate) fn take_longest(&self) -> Outcome<Duration> {
        let mut longest = self.shared.longest.lock();
        match &longest.1 {
            Some(error) => Err(format!("a client of the gateway: {error}").into()),
            None => Ok(std::mem::take(&mut longest.0)),
        }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.shared.is_stopping.store(true, SeqCst);
        // The gateway is still there, so the last reply comes.
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}
