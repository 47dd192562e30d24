//! The layers of the configuration, and which of them each value came from.
//!
//! 1. Defaults of the table.
//! 2. The file named by `--config` or `THERMOCLINE_CONFIG`; there is none otherwise.
//! 3. Variables that begin with `THERMOCLINE_`.
//! 4. Flags.
//!
//! Every layer is checked whole, also the values that a later layer replaces: a mistake that does
//! not matter today would tomorrow.

use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use ltc::StocChoice;

use super::nearest::nearest;
use super::settings::{SETTINGS, Scope, Setting, find};
use super::values;

/// The variable that names the file.
const FILE_VARIABLE: &str = "THERMOCLINE_CONFIG";
/// Bytes of a megabyte of a disk's rate.
const MEGABYTE: u64 = 1_000_000;

/// Settings given as flags: key and text.
pub(crate) type Flags = Vec<(&'static str, String)>;

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    File(String),
    Variable(String),
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "file {path}"),
            Self::Variable(name) => write!(f, "variable {name}"),
            Self::Flag => f.write_str("flag"),
        }
    }
}

/// The settings of a process of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// Its number among those of its role.
    pub(crate) node: u32,
    /// The address at which the others reach it.
    pub(crate) address: SocketAddr,
    /// The address of its metrics.
    pub(crate) metrics: Option<SocketAddr>,
    /// The addresses of the coordinators.
    pub(crate) coordinators: Vec<String>,
    /// The directory of certificates.
    pub(crate) certificates: PathBuf,
    /// The directory of its data.
    pub(crate) data_dir: PathBuf,
    /// The addresses of an etcd; none if the coordinator has a store of its own.
    pub(crate) etcd: Vec<String>,
    /// The file of the authority of etcd's certificates.
    pub(crate) etcd_ca: Option<PathBuf>,
    /// The files of the certificate for etcd, and of its key.
    pub(crate) etcd_certificate: Option<PathBuf>,
    pub(crate) etcd_key: Option<PathBuf>,
    /// The failure domain that a StoC shares with others.
    pub(crate) domain: Option<String>,
    /// How an LTC chooses StoCs.
    pub(crate) stoc_choice: StocChoice,
}

/// The configuration after all layers.
#[derive(Debug)]
pub(crate) struct Effective {
    entries: Vec<(&'static Setting, String, Origin)>,
}

impl Effective {
    /// Lays the layers over each other. `file` is the path given by flag, if any.
    ///
    /// # Errors
    /// One line that names the place of the mistake and the allowed values.
    pub(crate) fn gather(
        file: Option<&str>,
        variables: impl Iterator<Item = (String, String)>,
        flags: &Flags,
    ) -> Result<Self, String> {
        let mut named_file = None;
        let mut from_variables = Vec::new();
        for (name, text) in variables.filter(|(name, _)| name.starts_with("THERMOCLINE_")) {
            if name == FILE_VARIABLE {
                named_file = Some(text);
            } else {
                from_variables.push((variable(&name)?, text, Origin::Variable(name)));
            }
        }
        let mut effective = Self {
            entries: SETTINGS
                .iter()
                .map(|setting| (setting, setting.default.to_owned(), Origin::Default))
                .collect(),
        };
        if let Some(path) = file.map(str::to_owned).or(named_file) {
            let text =
                std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
            let settings = parse_file(&text).map_err(|why| format!("{path}: {why}"))?;
            for (setting, text) in settings {
                effective.lay(setting, text, Origin::File(path.clone()))?;
            }
        }
        for (setting, text, origin) in from_variables {
            effective.lay(setting, text, origin)?;
        }
        for (key, text) in flags {
            let setting = find(key).ok_or_else(|| unknown("flag", key))?;
            effective.lay(setting, text.clone(), Origin::Flag)?;
        }
        Ok(effective)
    }

    fn lay(&mut self, new: &Setting, text: String, origin: Origin) -> Result<(), String> {
        (new.check)(&text).map_err(|why| match &origin {
            Origin::Variable(name) => format!("variable {name}: {why}"),
            Origin::File(path) => format!("{path}: {}: {why}", new.key),
            Origin::Flag | Origin::Default => format!("--{}: {why}", new.key),
        })?;
        for (setting, old_text, old_origin) in &mut self.entries {
            if setting.key == new.key {
                (*old_text, *old_origin) = (text, origin);
                break;
            }
        }
        Ok(())
    }

    /// The values that a command with this scope reads, in the table's order.
    pub(crate) fn entries(&self, scope: Scope) -> impl Iterator<Item = (&str, &str, &Origin)> {
        let wanted = move |setting: &Setting| scope.includes(setting.scope);
        let entries = self.entries.iter().filter(move |(setting, ..)| wanted(setting));
        entries.map(|(setting, text, origin)| (setting.key, text.as_str(), origin))
    }

    /// The text of a setting; empty only for a key that is not in the table.
    fn text(&self, key: &str) -> &str {
        let entry = self.entries.iter().find(|(setting, ..)| setting.key == key);
        debug_assert!(entry.is_some(), "{key} is in the table");
        entry.map_or("", |(_, text, _)| text)
    }

    /// Refuses flags that `command` does not use. A file and variables may serve several commands.
    ///
    /// # Errors
    /// One line that names the flag.
    #[cfg_attr(
        not(feature = "cluster"),
        expect(dead_code, reason = "only the processes of a cluster refuse flags")
    )]
    pub(crate) fn refuse_flags(&self, keys: &[&str], command: &str) -> Result<(), String> {
        let mut given = self.entries.iter().filter(|(_, _, origin)| *origin == Origin::Flag);
        match given.find(|(setting, ..)| keys.contains(&setting.key)) {
            Some((setting, ..)) => Err(format!("{command} has no use for --{}", setting.key)),
            None => Ok(()),
        }
    }

    /// How a process of a cluster takes part. `role` names its files.
    pub(crate) fn member(&self, role: &str) -> Result<Member, String> {
        let node = values::node(self.text("node"))?;
        let data_dir = match self.text("data-dir") {
            "auto" => PathBuf::from(format!("./{role}-{node}")),
            dir => values::dir(dir)?,
        };
        let address = values::reachable(self.text("address"))?;
        Ok(Member {
            node,
            address,
            metrics: self.metrics(address)?,
            coordinators: values::hosts_and_ports(self.text("coordinators"))?,
            certificates: values::dir(self.text("certificates"))?,
            data_dir,
            etcd: values::urls_or_none(self.text("etcd"))?,
            etcd_ca: values::file_or_none(self.text("etcd-ca"))?,
            etcd_certificate: values::file_or_none(self.text("etcd-certificate"))?,
            etcd_key: values::file_or_none(self.text("etcd-key"))?,
            domain: values::name_or_none(self.text("domain"))?,
            stoc_choice: values::stoc_choice(self.text("stoc-choice"))?,
        })
    }

    /// Returns the disk that a StoC is to seem to have, if it is throttled.
    #[cfg_attr(
        not(any(feature = "cluster", test)),
        expect(dead_code, reason = "only the processes of a cluster read it")
    )]
    pub(crate) fn throttle(&self) -> Result<Option<stoc::ThrottleOptions>, String> {
        let megabytes = values::count_or_off(self.text("throttle-mb-per-s"))?;
        let operation_ms = values::count_or_off(self.text("throttle-ms-per-operation"))?;
        let bytes = |megabytes| NonZeroU64::new(u64::from(megabytes) * MEGABYTE);
        let operation = Duration::from_millis(operation_ms.unwrap_or(0).into());
        let options = stoc::ThrottleOptions { bytes_per_s: megabytes.and_then(bytes), operation };
        Ok((options != stoc::ThrottleOptions::default()).then_some(options))
    }

    /// Returns how an LTC stores the files of ranges.
    #[cfg_attr(
        not(any(feature = "cluster", test)),
        expect(dead_code, reason = "only the processes of a cluster read it")
    )]
    pub(crate) fn ranges(&self) -> Result<ltc::RangeOptions, String> {
        let ensemble = values::log_ensemble(self.text("log-ensemble"))?;
        Ok(ltc::RangeOptions {
            ensemble,
            quorum: ensemble / 2 + 1,
            copies: values::copies(self.text("copies"))?,
            rho: values::rho(self.text("rho"))?,
            slow: values::duration(self.text("stoc-timeout"))?,
        })
    }

    /// How a database is opened.
    pub(crate) fn database(&self) -> Result<thermocline::Options, String> {
        Ok(thermocline::Options {
            memory_bytes: values::memory(self.text("memory"))?,
            durability: values::durability(self.text("durability"))?,
            sync_interval: values::duration_or_off(self.text("sync-interval"))?,
            io: values::io(self.text("io"))?,
            journal_bytes: values::bytes(self.text("journal-max"))?,
            background_threads: values::background_threads(self.text("background-threads"))?,
            engines: values::engine_settings(
                self.text("engine-settings"),
                values::compression(self.text("compression"))?,
            )?,
            ..thermocline::Options::default()
        })
    }

    /// How `serve` opens its database and serves it. Reads the password's file.
    ///
    /// `memory` is for the whole process, so the clients' share comes out of the database's.
    pub(crate) fn serving(&self) -> Result<(thermocline::Options, server::Options), String> {
        let mut database = self.database()?;
        let whole = database.memory_bytes;
        let clients = self.client_memory()?.unwrap_or(whole / 4);
        if clients >= whole {
            return Err(format!(
                "client-memory, {clients} bytes, is a share of memory and has to be smaller than \
                 its {whole} bytes"
            ));
        }
        database.memory_bytes = whole - clients;
        let least = thermocline::Options::MEMORY_BYTES_MIN;
        if database.memory_bytes < least {
            return Err(format!(
                "memory, {whole} bytes, less client-memory, {clients} bytes, is too little for a \
                 database: --memory {}mb would do",
                self.memory_to_serve(least)? >> 20
            ));
        }
        Ok((database, self.server(clients)?))
    }

    /// The least memory, in whole MiB, of which `database_bytes` are left for the database that is
    /// served.
    pub(crate) fn memory_to_serve(&self, database_bytes: u64) -> Result<u64, String> {
        let whole = match self.client_memory()? {
            Some(clients) => database_bytes.saturating_add(clients),
            // A quarter is for the clients.
            None => database_bytes.saturating_add(database_bytes.div_ceil(3)),
        };
        Ok(whole.checked_next_multiple_of(1 << 20).unwrap_or(whole))
    }

    fn client_memory(&self) -> Result<Option<u64>, String> {
        values::bytes_or_auto(self.text("client-memory"))
    }

    /// Returns the address of the metrics of a process that listens at `listen`.
    fn metrics(&self, listen: SocketAddr) -> Result<Option<SocketAddr>, String> {
        let metrics = values::endpoint_or_off(self.text("metrics"))?;
        match metrics == Some(listen) && listen.port() != 0 {
            true => Err(format!("clients and metrics cannot both have {listen}")),
            false => Ok(metrics),
        }
    }

    fn server(&self, client_memory: u64) -> Result<server::Options, String> {
        let threads = server::Options::default().threads;
        let listen = (values::address(self.text("listen"))?, values::port(self.text("port"))?);
        let listen = SocketAddr::from(listen);
        let metrics = self.metrics(listen)?;
        let fits = |key: &str, bytes: u64| {
            usize::try_from(bytes).map_err(|_| format!("{key}: {bytes} bytes are too many here"))
        };
        let size = |key| fits(key, values::bytes(self.text(key))?);
        let password = values::file_or_none(self.text("password-file"))?;
        Ok(server::Options {
            listen,
            metrics,
            password: password.map(|path| read_password(&path)).transpose()?,
            durability: values::durability(self.text("durability"))?,
            engine: values::engine(self.text("engine"))?,
            threads: values::count_or_auto(self.text("threads"))?.unwrap_or(threads),
            clients_max: values::count(self.text("clients-max"))?,
            idle_timeout_s: values::seconds_or_off(self.text("idle-timeout"))?.unwrap_or(0),
            auth_deadline: values::duration(self.text("auth-deadline"))?,
            value_bytes_max: size("value-max")?,
            output_bytes_max: size("output-max")?,
            client_memory_bytes: fits("client-memory", client_memory)?,
            backups: values::file_or_none(self.text("backups"))?,
        })
    }

    /// Returns the engine that the command line itself names.
    pub(crate) fn engine_flag(&self) -> Result<Option<thermocline::EngineKind>, String> {
        self.engine_from(|origin| *origin == Origin::Flag)
    }

    /// Returns the engine that any layer names.
    pub(crate) fn engine_chosen(&self) -> Result<Option<thermocline::EngineKind>, String> {
        self.engine_from(|origin| *origin != Origin::Default)
    }

    fn engine_from(
        &self,
        is_asked: impl Fn(&Origin) -> bool,
    ) -> Result<Option<thermocline::EngineKind>, String> {
        let mut entries = self.entries.iter();
        let asked = entries.find(|(setting, _, from)| setting.key == "engine" && is_asked(from));
        asked.map(|(_, text, _)| values::engine(text)).transpose()
    }

    /// How keyspaces are made.
    pub(crate) fn keyspace(&self) -> Result<thermocline::KeyspaceOptions, String> {
        let engine = values::engine(self.text("engine"))?;
        Ok(thermocline::KeyspaceOptions { engine, ..thermocline::KeyspaceOptions::default() })
    }
}

/// Reads a configuration file: each setting in it, with its text.
///
/// # Errors
/// The mistake, on one line: no TOML, an unknown key (with the nearest known one), a value that is
/// neither text nor number, or one that the setting does not allow.
pub fn parse_file(text: &str) -> Result<Vec<(&'static Setting, String)>, String> {
    let table: toml::Table = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| {
            text.as_bytes().iter().take(span.start).filter(|byte| **byte == b'\n').count() + 1
        });
        format!("line {line}: {}", error.message())
    })?;
    let mut settings = Vec::new();
    for (key, value) in table {
        let setting = find(&key).ok_or_else(|| unknown("key", &key))?;
        let text = match value {
            toml::Value::String(text) => text,
            toml::Value::Integer(number) => number.to_string(),
            _ => return Err(format!("{key}: wants text or a whole number")),
        };
        (setting.check)(&text).map_err(|why| format!("{key}: {why}"))?;
        settings.push((setting, text));
    }
    Ok(settings)
}

/// The first line of a file; messages never quote it.
fn read_password(path: &std::path::Path) -> Result<server::Secret, String> {
    let failed = |why: &dyn fmt::Display| format!("password file {}: {why}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
    match text.lines().next() {
        Some(password) if !password.is_empty() => Ok(server::Secret::new(password)),
        _ => Err(failed(&"its first line is empty; a password is at least one character")),
    }
}

fn variable(name: &str) -> Result<&'static Setting, String> {
    if let Some(setting) = SETTINGS.iter().find(|setting| setting.variable() == name) {
        return Ok(setting);
    }
    let known: Vec<String> = SETTINGS.iter().map(Setting::variable).collect();
    let near = nearest(name, known.iter().map(String::as_str)).unwrap_or(FILE_VARIABLE);
    Err(format!("unknown variable {name}; the nearest known one is {near}"))
}

fn unknown(what: &str, key: &str) -> String {
    let near = nearest(key, SETTINGS.iter().map(|setting| setting.key)).unwrap_or_default();
    format!("unknown {what} {key:?}; the nearest known one is {near:?}")
}
