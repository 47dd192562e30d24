//! Every setting: its key, its default, what it does, and how its text is checked.

use super::{engines, values};

/// The reader of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Every command that opens a database.
    Store,
    /// `serve` alone.
    Server,
    /// Processes of a cluster.
    Member,
    /// `serve` and the processes of a cluster. No command has this scope.
    Process,
    /// A StoC, which is a process of a cluster.
    Stoc,
    /// An LTC: a process of a cluster that opens databases.
    Ltc,
}

impl Scope {
    /// Returns whether a command of this scope reads the settings of another one.
    pub(crate) fn includes(self, other: Self) -> bool {
        let others: &[Self] = match self {
            Self::Server => &[Self::Store, Self::Process],
            Self::Member => &[Self::Process],
            Self::Stoc => &[Self::Member, Self::Process],
            Self::Ltc => &[Self::Store, Self::Member, Self::Process],
            Self::Store | Self::Process => &[],
        };
        self == other || others.contains(&other)
    }
}

/// One setting. Its flag is `--key`, its variable `THERMOCLINE_KEY` with underscores.
#[derive(Debug)]
pub struct Setting {
    /// Its name in a file and as a flag.
    pub key: &'static str,
    /// Its default, as text.
    pub default: &'static str,
    /// The name of the value in `--help`.
    pub(crate) placeholder: &'static str,
    /// One line for `--help`, in which names of engines are placeholders ([`engines::filled`]).
    pub(crate) help: &'static str,
    pub(crate) scope: Scope,
    /// Refuses a text that is not allowed, and names the allowed ones.
    pub(crate) check: fn(&str) -> Result<(), String>,
}

impl Setting {
    /// Its text for `--help`, with its default.
    pub(crate) fn full_help(&self) -> String {
        format!("{} [default: {}]", engines::filled(self.help), self.default)
    }

    /// The environment variable that sets it.
    pub(crate) fn variable(&self) -> String {
        format!("THERMOCLINE_{}", self.key.to_ascii_uppercase().replace('-', "_"))
    }
}

/// The setting of that key.
pub(crate) fn find(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.key == key)
}

/// All of them, in the order in which they are shown.
pub(crate) const SETTINGS: &[Setting] = &[
    Setting {
        key: "memory",
        default: "auto",
        placeholder: "SIZE",
        help: "Memory for data, indexes, caches and clients together, at least 8mb; data far above \
               it are not opened. A size, or a share, like 50%, of the memory that the machine or a \
               control group lets the process use; auto is 1gb, or half of that memory if it is \
               less",
        scope: Scope::Store,
        check: |text| values::memory(text).map(drop),
    },
    Setting {
        key: "durability",
        default: "flushed",
        placeholder: "LEVEL",
        help: "Durability that a write waits for: buffered, flushed (survives a killed process) or \
               synced (survives a power cut)",
        scope: Scope::Store,
        check: |text| values::durability(text).map(drop),
    },
    Setting {
        key: "sync-interval",
        default: "1s",
        placeholder: "TIME",
        help: "How often the journal is synced in the background, or off",
        scope: Scope::Store,
        check: |text| values::duration_or_off(text).map(drop),
    },
    Setting {
        key: "engine",
        default: "memory",
        placeholder: "NAME",
        help: "Engine of new keyspaces (existing keyspaces keep their engine): {engines}",
        scope: Scope::Store,
        check: |text| values::engine(text).map(drop),
    },
    Setting {
        key: "compression",
        default: "lz4",
        placeholder: "NAMES",
        help: "Compression of the data of {compressing engines}: none, lz4 or zstd; or one for each level from 0 \
               on, with commas, of which the last holds for those below",
        scope: Scope::Store,
        check: |text| values::compression(text).map(drop),
    },
    Setting {
        key: "engine-settings",
        default: "none",
        placeholder: "SETTINGS",
        help: "Settings of engines (docs/settings.md), with colons between them, and semicolons \
               between engines: hashkv:disk-bytes-max=10gb:reserve-percent=50;f2:chunk-bytes=128",
        scope: Scope::Store,
        check: |text| values::engine_settings(text, Default::default()).map(drop),
    },
    Setting {
        key: "io",
        default: "direct",
        placeholder: "KIND",
        help: "File access of {larger engines}: direct (past the page cache) or buffered \
               (through it, so that idle memory serves as a cache)",
        scope: Scope::Store,
        check: |text| values::io(text).map(drop),
    },
    Setting {
        key: "journal-max",
        default: "256mb",
        placeholder: "SIZE",
        help: "Journal that a keyspace may hold back before it is flushed",
        scope: Scope::Store,
        check: |text| values::bytes(text).map(drop),
    },
    Setting {
        key: "background-threads",
        default: "6",
        placeholder: "COUNT",
        help: "Threads for background work, at most 256",
        scope: Scope::Store,
        check: |text| values::background_threads(text).map(drop),
    },
    Setting {
        key: "listen",
        default: "127.0.0.1",
        placeholder: "ADDRESS",
        help: "Address that clients connect to; it needs a password unless it is loopback",
        scope: Scope::Server,
        check: |text| values::address(text).map(drop),
    },
    Setting {
        key: "port",
        default: "6379",
        placeholder: "PORT",
        help: "Port that clients connect to; 0 takes a free one",
        scope: Scope::Server,
        check: |text| values::port(text).map(drop),
    },
    Setting {
        key: "metrics",
        default: "off",
        placeholder: "ADDRESS:PORT",
        help: "Address that serves GET /metrics, without a password; or off",
        scope: Scope::Process,
        check: |text| values::endpoint_or_off(text).map(drop),
    },
    Setting {
        key: "password-file",
        default: "none",
        placeholder: "FILE",
        help: "File whose first line clients must give to AUTH, or none",
        scope: Scope::Server,
        check: |text| values::file_or_none(text).map(drop),
    },
    Setting {
        key: "threads",
        default: "auto",
        placeholder: "COUNT",
        help: "Threads that serve clients; auto is one a core, at most 4",
        scope: Scope::Server,
        check: |text| values::count_or_auto(text).map(drop),
    },
    Setting {
        key: "clients-max",
        default: "10000",
        placeholder: "COUNT",
        help: "Clients at a time",
        scope: Scope::Server,
        check: |text| values::count(text).map(drop),
    },
    Setting {
        key: "idle-timeout",
        default: "off",
        placeholder: "TIME",
        help: "After which a silent client is disconnected, in whole seconds, or off",
        scope: Scope::Server,
        check: |text| values::seconds_or_off(text).map(drop),
    },
    Setting {
        key: "auth-deadline",
        default: "10s",
        placeholder: "TIME",
        help: "How long a client may take to authenticate where a password is set",
        scope: Scope::Server,
        check: |text| values::duration(text).map(drop),
    },
    Setting {
        key: "value-max",
        default: "64mb",
        placeholder: "SIZE",
        help: "Largest argument, and so the largest value",
        scope: Scope::Server,
        check: |text| values::bytes(text).map(drop),
    },
    Setting {
        key: "output-max",
        default: "256mb",
        placeholder: "SIZE",
        help: "Output that a client may leave unread; a longer reply of several values is refused",
        scope: Scope::Server,
        check: |text| values::bytes(text).map(drop),
    },
    Setting {
        key: "client-memory",
        default: "auto",
        placeholder: "SIZE",
        help: "Share of it for what all clients together send and have not read; auto is a quarter",
        scope: Scope::Server,
        check: |text| values::bytes_or_auto(text).map(drop),
    },
    Setting {
        key: "backups",
        default: "none",
        placeholder: "DIR",
        help: "Directory of backups to which BGSAVE adds one, or none: then it does as SAVE",
        scope: Scope::Server,
        check: |text| values::file_or_none(text).map(drop),
    },
    Setting {
        key: "node",
        default: "1",
        placeholder: "NUMBER",
        help: "Number of this process among those of its role",
        scope: Scope::Member,
        check: |text| values::node(text).map(drop),
    },
    Setting {
        key: "address",
        default: "127.0.0.1:0",
        placeholder: "ADDRESS:PORT",
        help: "Address at which the other processes of the cluster reach this one; port 0 takes a \
               free one, which a coordinator cannot use",
        scope: Scope::Member,
        check: |text| values::reachable(text).map(drop),
    },
    Setting {
        key: "coordinators",
        default: "127.0.0.1:7400",
        placeholder: "HOST:PORT,...",
        help: "Addresses of the coordinators, with commas between them",
        scope: Scope::Member,
        check: |text| values::hosts_and_ports(text).map(drop),
    },
    Setting {
        key: "certificates",
        default: "./certs",
        placeholder: "DIR",
        help: "Directory of ca.pem, and of ROLE-NODE.pem or ROLE.pem with its key (thermocline \
               cluster certs)",
        scope: Scope::Member,
        check: |text| values::dir(text).map(drop),
    },
    Setting {
        key: "data-dir",
        default: "auto",
        placeholder: "DIR",
        help: "Directory of this process's data; auto is ./ROLE-NODE",
        scope: Scope::Member,
        check: |text| values::dir(text).map(drop),
    },
    Setting {
        key: "etcd",
        default: "none",
        placeholder: "URL,...",
        help: "Addresses of an etcd, in which coordinators keep the records, with commas between \
               them; or none: the only coordinator keeps them in its own directory",
        scope: Scope::Member,
        check: |text| values::urls_or_none(text).map(drop),
    },
    Setting {
        key: "etcd-ca",
        default: "none",
        placeholder: "FILE",
        help: "Certificate of the authority of etcd's servers, or none for addresses with http",
        scope: Scope::Member,
        check: |text| values::file_or_none(text).map(drop),
    },
    Setting {
        key: "etcd-certificate",
        default: "none",
        placeholder: "FILE",
        help: "Certificate that the coordinator shows to etcd, or none",
        scope: Scope::Member,
        check: |text| values::file_or_none(text).map(drop),
    },
    Setting {
        key: "etcd-key",
        default: "none",
        placeholder: "FILE",
        help: "Key of that certificate, or none",
        scope: Scope::Member,
        check: |text| values::file_or_none(text).map(drop),
    },
    Setting {
        key: "domain",
        default: "none",
        placeholder: "NAME",
        help: "Failure domain of this StoC, such as its rack: copies go to StoCs of distinct \
               domains if there are enough; or none: the StoC is a domain of its own",
        scope: Scope::Stoc,
        check: |text| values::name_or_none(text).map(drop),
    },
    Setting {
        key: "stoc-choice",
        default: "power-of-two",
        placeholder: "KIND",
        help: "Choice of the StoCs for new tables and logs: power-of-two (compares twice as many \
               random StoCs as are needed, by their load) or random",
        scope: Scope::Ltc,
        check: |text| values::stoc_choice(text).map(drop),
    },
    Setting {
        key: "throttle-mb-per-s",
        default: "off",
        placeholder: "COUNT",
        help: "For measurements only: megabytes (of a million bytes) a second of the slow disk that \
               the StoC is to seem to have, or off",
        scope: Scope::Stoc,
        check: |text| values::count_or_off(text).map(drop),
    },
    Setting {
        key: "throttle-ms-per-operation",
        default: "off",
        placeholder: "COUNT",
        help: "For measurements only: milliseconds of each operation of that disk, or off",
        scope: Scope::Stoc,
        check: |text| values::count_or_off(text).map(drop),
    },
    Setting {
        key: "copies",
        default: "2",
        placeholder: "COUNT",
        help: "StoCs that store each table, 1 to 3; with 1, a lost StoC loses tables",
        scope: Scope::Ltc,
        check: |text| values::copies(text).map(drop),
    },
    Setting {
        key: "rho",
        default: "3",
        placeholder: "COUNT",
        help: "Most fragments of a table, 1 to 16: a table has one for each 2 MiB, and each \
               fragment has its copies",
        scope: Scope::Ltc,
        check: |text| values::rho(text).map(drop),
    },
    Setting {
        key: "log-ensemble",
        default: "3",
        placeholder: "COUNT",
        help: "StoCs that store each log: 3, of which two acknowledge an append, or 1; with 1, a \
               lost StoC loses acknowledged writes",
        scope: Scope::Ltc,
        check: |text| values::log_ensemble(text).map(drop),
    },
    Setting {
        key: "stoc-timeout",
        default: "1s",
        placeholder: "TIME",
        help: "Time after which a StoC that does not reply to an append of a log has failed, and the \
               log continues with others",
        scope: Scope::Ltc,
        check: |text| values::duration(text).map(drop),
    },
];
