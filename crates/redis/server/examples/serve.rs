//! A server in a few lines: opens a database and serves it until a client says SHUTDOWN.
//!
//! `cargo run -p thermocline-server --example serve -- DIR [ADDR]`

use std::net::SocketAddr;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let dir = args.next().ok_or("which directory?")?;
    let listen: SocketAddr = args.next().as_deref().unwrap_or("127.0.0.1:6379").parse()?;
    let environment = thermocline::environment::Environment::real();
    let db = thermocline::Db::open(&dir, thermocline::Options::default())?;
    let options = thermocline_server::Options { listen, ..Default::default() };
    let server = thermocline_server::Server::start(&db, options, environment)?;
    println!("serving {dir} on {}", server.addr());
    server.wait()?;
    db.close()?;
    Ok(())
}
