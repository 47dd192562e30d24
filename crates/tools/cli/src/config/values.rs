//! Texts of settings to values; each message names the allowed ones.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ltc::StocChoice;
use thermocline::{Durability, EngineKind, EngineSettings, Io};
pub(crate) use wire::hosts_and_ports;

use super::allowed_memory;

/// Bytes of a name at most.
const NAME_BYTES_MAX: usize = 255;
/// Bytes of `auto` memory if the process may use twice that or more.
const AUTO_MEMORY_BYTES: u64 = 1 << 30;
/// Most copies of a table.
const COPIES_MAX: usize = 3;
/// Most fragments of a table that may be asked for.
const RHO_MAX: u32 = 16;
/// Numbers of StoCs that a log may have.
const LOG_ENSEMBLES: [usize; 2] = [1, 3];

/// A size in bytes: a number, and `kb`, `mb`, `gb` or `tb` in powers of 1024.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let refused = || {
        format!(
            "{text:?} is no size: a whole number above 0, then b, kb, mb, gb or tb \
             (powers of 1024), like 512mb"
        )
    };
    let (number, unit) = split_unit(text);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(refused()),
    };
    let number: u64 = number.parse().map_err(|_| refused())?;
    number.checked_mul(1 << shift).filter(|bytes| *bytes > 0).ok_or_else(refused)
}

/// Returns a size that a database can be opened with: given as such, or as a share of the memory
/// that this process may use; or `auto`.
pub(super) fn memory(text: &str) -> Result<u64, String> {
    memory_of(text, allowed_memory::of_process())
}

/// Returns the same, if the process may use `allowed` bytes.
pub(super) fn memory_of(text: &str, allowed: Option<u64>) -> Result<u64, String> {
    let least = thermocline::Options::MEMORY_BYTES_MIN;
    let bytes = match (text.strip_suffix('%'), allowed) {
        (Some(percent), Some(allowed)) => allowed / 100 * self::percent(percent)?,
        (Some(_), None) => return Err(format!("{text:?}: the system does not say of what")),
        (None, Some(allowed)) if text == "auto" => (allowed / 2).min(AUTO_MEMORY_BYTES).max(least),
        (None, None) if text == "auto" => AUTO_MEMORY_BYTES,
        (None, _) => bytes(text).map_err(|why| why + ", a share like 50%, or auto")?,
    };
    if bytes < least {
        return Err(format!("{text:?} is too little memory: at least {}mb", least >> 20));
    }
    Ok(bytes)
}

fn percent(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|percent| (1..=100).contains(percent));
    number.ok_or_else(|| format!("\"{text}%\" is no share: a whole number from 1 to 100, then %"))
}

/// A size, or `auto`.
pub(super) fn bytes_or_auto(text: &str) -> Result<Option<u64>, String> {
    if text == "auto" { Ok(None) } else { bytes(text).map(Some).map_err(|why| why + ", or auto") }
}

/// A time above zero: a number and `ms`, `s`, `m` or `h`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let refused =
        || format!("{text:?} is no time: a whole number above 0, then ms, s, m or h, like 500ms");
    let (number, unit) = split_unit(text);
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(refused()),
    };
    let number: u64 = number.parse().map_err(|_| refused())?;
    let millis = number.checked_mul(unit_ms).filter(|millis| *millis > 0);
    millis.map(Duration::from_millis).ok_or_else(refused)
}

/// The same, or `off`.
pub(super) fn duration_or_off(text: &str) -> Result<Option<Duration>, String> {
    if text == "off" { Ok(None) } else { duration(text).map(Some).map_err(|why| why + ", or off") }
}

/// A time of whole seconds, or `off`.
pub(super) fn seconds_or_off(text: &str) -> Result<Option<u64>, String> {
    match duration_or_off(text)? {
        None => Ok(None),
        Some(time) if time.subsec_nanos() == 0 => Ok(Some(time.as_secs())),
        Some(_) => Err(format!("{text:?} is no whole number of seconds")),
    }
}

fn split_unit(text: &str) -> (&str, &str) {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at(digits)
}

/// A durability by its name.
pub(super) fn durability(text: &str) -> Result<Durability, String> {
    match text {
        "buffered" => Ok(Durability::Buffered),
        "flushed" => Ok(Durability::Flushed),
        "synced" => Ok(Durability::Synced),
        _ => Err(format!("{text:?} is no durability: one of buffered, flushed, synced")),
    }
}

/// An engine that this version has.
pub(super) fn engine(text: &str) -> Result<EngineKind, String> {
    text.parse().map_err(|error: thermocline::Error| error.to_string())
}

/// The setting of an engine that compresses its data.
const COMPRESSION: &str = "compression";

/// Returns whether an engine can compress its data.
pub(super) fn compresses(engine: EngineKind) -> bool {
    engine.known_settings().iter().any(|setting| setting.name == COMPRESSION)
}

/// How the engines that compress their data do so; no settings of an engine if it is its default.
pub(super) fn compression(text: &str) -> Result<EngineSettings, String> {
    let engines = EngineKind::ALL.iter().filter(|engine| compresses(**engine));
    let mut all = EngineSettings::default();
    for engine in engines {
        let settings = engine.settings().with(COMPRESSION, text);
        let settings = settings.map_err(|error| format!("{text:?}: {error}"))?;
        let mut values = settings.values().zip((engine.driver().defaults)());
        if !values.all(|(value, default)| value.is_none() || value == default) {
            all = all.with(settings);
        }
    }
    Ok(all)
}

/// Returns `all` with the settings of engines that a text has: `none`, or for each engine its name
/// and its settings, as in `hashkv:disk-bytes-max=10gb:reserve-percent=50;f2:chunk-bytes=128`.
pub(super) fn engine_settings(
    text: &str,
    mut all: EngineSettings,
) -> Result<EngineSettings, String> {
    if text == "none" {
        return Ok(all);
    }
    for part in text.split(';') {
        let mut words = part.split(':');
        let engine = engine(words.next().unwrap_or_default())?;
        let mut settings = all.of(engine.driver());
        if !part.contains(':') {
            return Err(format!("{part:?} is no engine with settings, like f2:chunk-bytes=128"));
        }
        for word in words {
            let (name, value) = word.split_once('=').unwrap_or((word, "on"));
            let set = settings.set(name, value);
            // Sizes may have a unit.
            let size = bytes(value).ok().filter(|_| set.is_err());
            let set = size.map_or(set, |bytes| settings.set(name, &bytes.to_string()));
            set.map_err(|error| format!("{word:?}: {error}"))?;
        }
        all = all.with(settings);
    }
    all.check().map_err(|error| error.to_string())?;
    Ok(all)
}

/// How files are read and written.
pub(super) fn io(text: &str) -> Result<Io, String> {
    match text {
        "buffered" => Ok(Io::Buffered),
        "direct" => Ok(Io::DirectBlocks),
        _ => Err(format!("{text:?} is no kind of I/O: one of buffered, direct")),
    }
}

/// The number of copies of a table.
pub(super) fn copies(text: &str) -> Result<usize, String> {
    let parsed = text.parse().ok().filter(|copies| (1..=COPIES_MAX).contains(copies));
    parsed.ok_or_else(|| format!("{text:?} is no number of copies: 1 to {COPIES_MAX}"))
}

/// The most fragments of a table.
pub(super) fn rho(text: &str) -> Result<u32, String> {
    let parsed = text.parse().ok().filter(|rho| (1..=RHO_MAX).contains(rho));
    parsed.ok_or_else(|| format!("{text:?} is no number of fragments: 1 to {RHO_MAX}"))
}

/// The number of StoCs of a log. An opening counts replies by the quorum of the present setting,
/// also for segments of an earlier one. With five StoCs, and so a quorum of three, it would open a
/// segment of three StoCs after too few replies.
pub(super) fn log_ensemble(text: &str) -> Result<usize, String> {
    let parsed = text.parse().ok().filter(|stocs| LOG_ENSEMBLES.contains(stocs));
    parsed.ok_or_else(|| format!("{text:?} is no number of StoCs of a log: 1 or 3"))
}

/// A count, or `off`.
pub(super) fn count_or_off(text: &str) -> Result<Option<u32>, String> {
    if text == "off" {
        return Ok(None);
    }
    let parsed = text.parse().ok().filter(|count| *count > 0).map(Some);
    parsed.ok_or_else(|| format!("{text:?} is no count: a whole number above 0, or off"))
}

/// A number above zero.
pub(super) fn count(text: &str) -> Result<usize, String> {
    let parsed = text.parse().ok().filter(|count| *count > 0);
    parsed.ok_or_else(|| format!("{text:?} is no count: a whole number above 0"))
}

/// A number of threads for background work.
pub(super) fn background_threads(text: &str) -> Result<usize, String> {
    let most = thermocline::Options::BACKGROUND_THREADS_MAX;
    match count(text)? {
        threads if threads > most => Err(format!("{text:?} are too many threads: at most {most}")),
        threads => Ok(threads),
    }
}

/// A count, or `auto`.
pub(super) fn count_or_auto(text: &str) -> Result<Option<usize>, String> {
    if text == "auto" { Ok(None) } else { count(text).map(Some).map_err(|why| why + ", or auto") }
}

/// An IP address.
pub(super) fn address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| {
        format!("{text:?} is no IP address: 127.0.0.1 or ::1 for this machine, 0.0.0.0 for all")
    })
}

/// A port.
pub(super) fn port(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| format!("{text:?} is no port: 0 to 65535"))
}

/// The number of a process of a cluster.
pub(super) fn node(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|node| *node > 0);
    number.ok_or_else(|| format!("{text:?} is no number of a process: 1 to {}", u32::MAX))
}

/// An address that others can reach.
pub(super) fn reachable(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|_| {
        format!("{text:?} is no address with a port, like 10.0.0.7:7400 or [::1]:7400")
    })?;
    match address.ip().is_unspecified() {
        true => Err(format!("{text:?} is all addresses of this machine: others need one of them")),
        false => Ok(address),
    }
}

/// Addresses of an etcd, or `none`.
pub(super) fn urls_or_none(text: &str) -> Result<Vec<String>, String> {
    if text == "none" {
        return Ok(Vec::new());
    }
    let checked = |one: &str| {
        let host = one.strip_prefix("http://").or_else(|| one.strip_prefix("https://"));
        let refused = || format!("{one:?} is no address of an etcd, like https://10.0.0.7:2379");
        if host.is_some_and(|host| !host.is_empty()) { Ok(one.to_owned()) } else { Err(refused()) }
    };
    text.split(',').map(checked).collect()
}

/// A directory.
pub(super) fn dir(text: &str) -> Result<PathBuf, String> {
    match text.is_empty() {
        true => Err("an empty text is no directory".to_owned()),
        false => Ok(PathBuf::from(text)),
    }
}

/// A name, or `none`.
pub(super) fn name_or_none(text: &str) -> Result<Option<String>, String> {
    let is_name = |text: &str| {
        (1..=NAME_BYTES_MAX).contains(&text.len())
            && text.chars().all(|sign| sign.is_ascii_graphic())
    };
    match text {
        "none" => Ok(None),
        name if is_name(name) => Ok(Some(name.to_owned())),
        _ => Err(format!(
            "{text:?} is no name: 1 to {NAME_BYTES_MAX} letters, digits and signs, or none"
        )),
    }
}

/// How an LTC chooses StoCs.
pub(super) fn stoc_choice(text: &str) -> Result<StocChoice, String> {
    match text {
        "power-of-two" => Ok(StocChoice::PowerOfTwo),
        "random" => Ok(StocChoice::Random),
        _ => Err(format!("{text:?} is no choice of StoCs: one of power-of-two, random")),
    }
}

/// An address with a port, or `off`.
pub(super) fn endpoint_or_off(text: &str) -> Result<Option<SocketAddr>, String> {
    if text == "off" {
        return Ok(None);
    }
    let refused = |_| {
        format!("{text:?} is no address with a port, like 127.0.0.1:9121 or [::1]:9121, or off")
    };
    text.parse().map(Some).map_err(refused)
}

/// A path, or `none`.
pub(super) fn file_or_none(text: &str) -> Result<Option<PathBuf>, String> {
    match text {
        "" => Err("a file name is empty: give one, or none".to_owned()),
        "none" => Ok(None),
        path => Ok(Some(PathBuf::from(path))),
    }
}
