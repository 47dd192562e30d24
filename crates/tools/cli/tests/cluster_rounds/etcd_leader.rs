//! Asks the members of an etcd which one of them leads.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// Time that a member has for its reply.
const REPLY: Duration = Duration::from_secs(2);

/// Returns the place in `clients` of the member that leads, if it replies. `clients` has the
/// addresses of all members, like `http://127.0.0.1:2379`.
pub(crate) fn leader(clients: &[String]) -> Option<usize> {
    clients.iter().position(|client| {
        let status = status(client).unwrap_or_default();
        let own = &status["header"]["member_id"];
        !own.is_null() && *own == status["leader"]
    })
}

/// Returns the state of a member.
fn status(client: &str) -> io::Result<Value> {
    let place = client.strip_prefix("http://").unwrap_or(client);
    let mut stream = TcpStream::connect(place)?;
    stream.set_read_timeout(Some(REPLY))?;
    let request = format!(
        "POST /v3/maintenance/status HTTP/1.0\r\nHost: {place}\r\nContent-Length: 2\r\n\r\n{{}}"
    );
    stream.write_all(request.as_bytes())?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    let body = reply.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    serde_json::from_str(body).map_err(io::Error::other)
}
