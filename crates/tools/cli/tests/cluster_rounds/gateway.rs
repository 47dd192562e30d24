//! Operations of a Redis client through gateways.

use std::fmt::Debug;
use std::io;
use std::iter;
use std::net::SocketAddr;
use std::time::Duration;

use environment::Random;
use rand::RngExt;

use crate::clients::{Attempt, Door, Keys, Recorder, TWINS, Wish, number};
use crate::history::Operation;
use crate::resp::{self, Client, Reply};
use crate::time::{now, sleep};

/// The part of an error by which a gateway says that a command has not happened.
const NOT_DONE: &str = "the owner of the range cannot be reached";
/// Pause after a connection that could not be made.
const PAUSE: Duration = Duration::from_millis(20);

/// A client of one of several gateways. After a lost connection it takes another one.
pub(crate) struct Gateways {
    addresses: Vec<SocketAddr>,
    connection: Option<Client>,
    random: Random,
}

/// The replies to the commands of a request.
type Replies = io::Result<Vec<Reply>>;

impl Gateways {
    pub(crate) fn new(addresses: Vec<SocketAddr>, random: Random) -> Self {
        Self { addresses, connection: None, random }
    }

    /// Connects to a gateway, unless there is a connection. Returns whether there is one now.
    fn connect(&mut self) -> bool {
        if self.connection.is_none() {
            let address = self.addresses[self.random.random_range(0..self.addresses.len())];
            self.connection = Client::connect(address).ok();
        }
        self.connection.is_some()
    }

    /// Sends commands together, and reads their replies.
    fn ask(&mut self, commands: &[&[&[u8]]]) -> Replies {
        let replies = match &mut self.connection {
            Some(connection) => exchange(connection, commands),
            None => Err(io::ErrorKind::NotConnected.into()),
        };
        if replies.is_err() {
            self.connection = None;
        }
        replies
    }

    /// Makes a command of one key. `write` is its effect, and `read` takes the effect from the
    /// reply.
    fn command(
        &mut self,
        (place, recorder): (usize, &mut Recorder<'_>),
        command: &[&[u8]],
        write: Option<Operation>,
        read: impl FnOnce(Reply) -> Result<Operation, String>,
    ) -> Result<(), String> {
        let invoked = now();
        let attempt = outcome(self.ask(&[command]), write, read)?;
        recorder.note(place, invoked, attempt);
        Ok(())
    }

    /// Makes commands as one transaction. `read` takes the effect from the replies to its commands,
    /// of which there are none if a watched key has changed: then it has no effect.
    fn transaction(
        &mut self,
        (place, recorder): (usize, &mut Recorder<'_>),
        commands: &[&[&[u8]]],
        write: Option<Operation>,
        read: impl FnOnce(Vec<Reply>) -> Result<Operation, String>,
    ) -> Result<(), String> {
        let invoked = now();
        let (first, last): (&[&[u8]], &[&[u8]]) = (&[b"MULTI"], &[b"EXEC"]);
        let between = commands.iter().copied();
        let all: Vec<&[&[u8]]> = iter::once(first).chain(between).chain([last]).collect();
        let replies = self.ask(&all);
        if let Ok(replies) = &replies
            && replies.last() == Some(&Reply::Array(None))
        {
            return Ok(());
        }
        let attempt = outcome(replies, write, |reply| match reply {
            Reply::Array(Some(replies)) => read(replies),
            other => Err(unexpected("EXEC", &other)),
        })?;
        recorder.note(place, invoked, attempt);
        Ok(())
    }

    /// Replaces the value of a key, if it is the same when the transaction takes place.
    fn swap(
        &mut self,
        place: usize,
        (key, value): (&[u8], u64),
        recorder: &mut Recorder<'_>,
    ) -> Result<(), String> {
        let invoked = now();
        let replies = self.ask(&[&[b"WATCH", key], &[b"GET", key]]);
        let watches = matches!(replies.as_deref(), Ok([Reply::Line(_), Reply::Bulk(_)]));
        let attempt = outcome(replies, None, seen)?;
        recorder.note(place, invoked, attempt);
        if !watches {
            // A command that was refused leaves the connection with or without a watch.
            self.connection = None;
            return Ok(());
        }
        let text = value.to_string();
        let commands: [&[&[u8]]; 2] = [&[b"GET", key], &[b"SET", key, text.as_bytes()]];
        let write = Operation::Put { value };
        self.transaction((place, recorder), &commands, Some(write), |replies| {
            match replies.as_slice() {
                [Reply::Bulk(old), Reply::Line(_)] => {
                    let expected = number(old.as_deref())?;
                    Ok(Operation::Swap { expected, new: Some(value), is_done: true })
                }
                others => Err(unexpected("a transaction", &others)),
            }
        })
    }
}

/// Sends commands, and reads their replies.
fn exchange(connection: &mut Client, commands: &[&[&[u8]]]) -> Replies {
    let mut request = Vec::new();
    commands.iter().for_each(|command| resp::command(&mut request, command));
    connection.send(&request)?;
    commands.iter().map(|_| connection.reply()).collect()
}

/// Returns the outcome of commands by the reply to the last one.
fn outcome(
    replies: Replies,
    write: Option<Operation>,
    read: impl FnOnce(Reply) -> Result<Operation, String>,
) -> Result<Attempt, String> {
    let last = match replies {
        Ok(mut replies) => replies.pop(),
        Err(error) => return Ok(Attempt::lost(write, error.to_string())),
    };
    match last {
        Some(Reply::Error(text)) if text.contains(NOT_DONE) => Ok(Attempt::Failed(text)),
        Some(Reply::Error(text)) => Ok(Attempt::lost(write, text)),
        Some(reply) => read(reply).map(Attempt::Acknowledged),
        None => Err("there is no reply".to_owned()),
    }
}

/// Returns the error for a reply that no correct gateway gives.
fn unexpected(command: &str, reply: &impl Debug) -> String {
    format!("the reply to {command} is {reply:?}")
}

/// Reads the reply to GET.
fn seen(reply: Reply) -> Result<Operation, String> {
    match reply {
        Reply::Bulk(value) => Ok(Operation::Get { saw: number(value.as_deref())? }),
        other => Err(unexpected("GET", &other)),
    }
}

/// Reads the reply of a command that returns a number.
fn counted(reply: Reply) -> Result<u64, String> {
    match &reply {
        Reply::Line(text) => text.parse().map_err(|_| unexpected("a count", &reply)),
        other => Err(unexpected("a count", other)),
    }
}

/// Checks the reply of a command that returns nothing.
fn done(reply: &Reply, operation: Operation) -> Result<Operation, String> {
    match reply {
        Reply::Line(text) if text == "OK" => Ok(operation),
        other => Err(unexpected("a write", other)),
    }
}

impl Door for Gateways {
    fn perform(
        &mut self,
        wish: Wish,
        keys: &Keys,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), String> {
        if !self.connect() {
            sleep(PAUSE);
            return Ok(());
        }
        let [one, two] = keys.twins();
        match wish {
            Wish::Get(place) => {
                self.command((place, recorder), &[b"GET", keys.single(place)], None, seen)
            }
            Wish::Put(place, value) => {
                let (text, put) = (value.to_string(), Operation::Put { value });
                let command: [&[u8]; 3] = [b"SET", keys.single(place), text.as_bytes()];
                self.command((place, recorder), &command, Some(put), |reply| done(&reply, put))
            }
            Wish::Delete(place) => {
                let command: [&[u8]; 2] = [b"DEL", keys.single(place)];
                let delete = Operation::Delete { had: None };
                self.command((place, recorder), &command, Some(delete), |reply| {
                    Ok(Operation::Delete { had: Some(counted(reply)? > 0) })
                })
            }
            Wish::Increment(place) => {
                let command: [&[u8]; 2] = [b"INCR", keys.single(place)];
                let increment = Operation::Increment { result: None };
                self.command((place, recorder), &command, Some(increment), |reply| {
                    Ok(Operation::Increment { result: Some(counted(reply)?) })
                })
            }
            Wish::Swap(place, value) => self.swap(place, (keys.single(place), value), recorder),
            Wish::Exchange(place, value) => {
                let (text, put) = (value.to_string(), Operation::Put { value });
                let command: [&[u8]; 4] = [b"SET", keys.single(place), text.as_bytes(), b"GET"];
                self.command((place, recorder), &command, Some(put), |reply| match reply {
                    Reply::Bulk(old) => {
                        let expected = number(old.as_deref())?;
                        Ok(Operation::Swap { expected, new: Some(value), is_done: true })
                    }
                    other => Err(unexpected("SET with GET", &other)),
                })
            }
            Wish::ReadTwins => {
                let commands: [&[&[u8]]; 2] = [&[b"GET", one], &[b"GET", two]];
                self.transaction((TWINS, recorder), &commands, None, twins)
            }
            Wish::WriteTwins(value) | Wish::SwapTwins(value) => {
                let (text, put) = (value.to_string(), Operation::Put { value });
                let command: [&[u8]; 5] = [b"MSET", one, text.as_bytes(), two, text.as_bytes()];
                self.command((TWINS, recorder), &command, Some(put), |reply| done(&reply, put))
            }
        }
    }
}

/// Reads both twins, which have one value.
fn twins(replies: Vec<Reply>) -> Result<Operation, String> {
    match replies.as_slice() {
        [Reply::Bulk(one), Reply::Bulk(two)] if one == two => {
            Ok(Operation::Get { saw: number(one.as_deref())? })
        }
        others => Err(unexpected("a read of twins, which have one value,", &others)),
    }
}
