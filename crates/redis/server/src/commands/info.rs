//! INFO: the server's figures as text, section by section.

use std::fmt::{Display, Write as _};
use std::sync::atomic::Ordering::Relaxed;

use super::connection::REDIS_VERSION;
use super::{COMMANDS, Call, Outcome};
use crate::process::Process;
use crate::stats::Total;
use crate::store::DB_COUNT;

/// The sections in the order they are shown, and whether INFO without arguments shows them.
const SECTIONS: [(&str, bool, Section); 13] = [
    ("Server", true, server),
    ("Clients", true, clients),
    ("Memory", true, memory),
    ("Persistence", true, persistence),
    ("Stats", true, stats),
    ("Replication", true, replication),
    ("CPU", true, cpu),
    ("Modules", true, |_, _| Ok(())),
    ("Commandstats", false, commandstats),
    ("Errorstats", true, errorstats),
    ("Cluster", true, |_, lines| {
        lines.line("cluster_enabled", 0);
        Ok(())
    }),
    ("Keyspace", true, keyspace),
    ("Thermocline", true, thermocline),
];

type Section = fn(&Call<'_>, &mut Lines) -> Outcome;

/// `name:value` lines.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn line(&mut self, name: &str, value: impl Display) {
        // Writing to a string cannot fail.
        let _ = write!(self.0, "{name}:{value}\r\n");
    }

    fn total(&mut self, name: &str, total: &Total) {
        self.line(name, total.get());
    }
}

pub(crate) fn info(call: &mut Call<'_>) -> Outcome {
    let wanted = |name: &str, by_default: bool| {
        if call.args.len() == 1 {
            return by_default;
        }
        call.args.from(1).any(|asked| {
            let is = |word: &str| asked.eq_ignore_ascii_case(word.as_bytes());
            is(name) || is("all") || is("everything") || by_default && is("default")
        })
    };
    let mut lines = Lines::default();
    for (name, by_default, section) in SECTIONS {
        if wanted(name, by_default) {
            if !lines.0.is_empty() {
                lines.0.push_str("\r\n");
            }
            let _ = write!(lines.0, "# {name}\r\n");
            section(call, &mut lines)?;
        }
    }
    call.reply.text(&lines.0);
    Ok(())
}

fn server(call: &Call<'_>, lines: &mut Lines) -> Outcome {
    let shared = call.shared;
    let uptime_s = shared.run.uptime(shared.environment.now()).as_secs();
    lines.line("redis_version", REDIS_VERSION);
    lines.line("thermocline_version", env!("CARGO_PKG_VERSION"));
    lines.line("redis_mode", "standalone");
    lines.line("os", std::env::consts::OS);
    lines.line("arch_bits", usize::BITS);
    lines.line("multiplexing_api", "epoll");
    lines.line("process_id", std::process::id());
    lines.line("run_id", &shared.run.id);
    lines.line("tcp_port", shared.run.addr.port());
    lines.line("server_time_usec", shared.environment.wall().as_micros());
    lines.line("uptime_in_seconds", uptime_s);
    lines.line("uptime_in_days", uptime_s / 86_400);
    lines.line("io_threads_active", u8::from(shared.options.threads > 1));
    Ok(())
}

fn clients(call: &Call<'_>, lines: &mut Lines) -> Outcome {
    let shared = call.shared;
    lines.line("connected_clients", shared.clients.count());
    lines.line("maxclients", shared.settings.clients_max.load(Relaxed));
    lines.line("blocked_clients", 0);
    lines.line("client_memory_bytes", shared.clients.memory.used());
    lines.line("client_memory_limit_bytes", shared.clients.memory.limit());
    Ok(())
}

/// Bytes in the largest unit below them, as Redis writes them.
fn human(bytes: u64) -> String {
    let units = [(1_u64 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    match units.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.2}{name}", bytes as f64 / *unit as f64),
        None => format!("{bytes}B"),
    }
}

fn memory(call: &Call<'_>, lines: &mut Lines) -> Outcome {
    let (used, limit) = call.shared.store.memory();
    let clients = call.shared.clients.memory.used() as u64;
    let all = used + clients;
    let peak = call.shared.stats.rates.note_memory(all);
    let process = Process::now();
    let resident = process.map_or(all, |process| process.resident_bytes);
    lines.line("used_memory", all);
    lines.line("used_memory_human", human(all));
    lines.line("used_memory_rss", resident);
    lines.line("used_memory_rss_human", human(resident));
    if let Some(process) = process {
        lines.line("used_memory_rss_peak", process.resident_bytes_peak);
    }
    lines.line("used_memory_peak", peak);
    lines.line("used_memory_peak_human", human(peak));
    lines.line("used_memory_dataset", used);
    lines.line("used_memory_clients", clients);
    lines.line("maxmemory", limit);
    lines.line("maxmemory_human", human(limit));
    lines.line("mem_fragmentation_ratio", format!("{:.2}", resident as f64 / all.max(1) as f64));
    lines.line("maxmemory_policy", "noeviction");
    // Memory of removed keys is free when the command that removed them returns.
    lines.line("lazyfree_pending_objects", 0);
    lines.line("lazyfreed_objects", 0);
    Ok(())
}

fn persistence(call: &Call<'_>, lines: &mut Lines) -> Outcome {
    lines.line("loading", 0);
    lines.line("aof_enabled", 1);
    let saving = &call.shared.saving;
    lines.line("rdb_bgsave_in_progress", u8::from(saving.is_running()));
    let status = if saving.has_failed() && !saving.is_running() { "err" } else { "ok" };
    lines.line("rdb_last_bgsave_status", status);
    lines.line("rdb_last_save_time", saving.last_s());
    let last = call.shared.store.last();
    lines.line("rdb_changes_since_last_save", saving.writes_since(last));
    let is_failing = call.shared.write_status.is_failing();
    lines.line("aof_last_write_status", if is_failing { "err" } else { "ok" });
    if let Some(cause) = call.shared.write_status.first_failure() {
        lines.line("first_write_failure", cause.replace(['\r', '\n'], " "));
    }
    lines.line("durability", format!("{:?}", call.shared.options.durability).to_lowercase());
    Ok(())
}

fn stats(call: &Call<'_>, lines: &mut Lines) -> Outcome {
    let stats = &call.shared.stats;
    lines.total("total_connections_received", &stats.connections);
    lines.total("total_commands_processed", &stats.executed);
    let rates = call.shared.stats.rates.per_second();
    lines.line("instantaneous_ops_per_sec", rates.executed);
    lines.line("instantaneous_input_kbps", format!("{:.2}", rates.input_bytes as f64 / 1024.0));
    lines.line("instantaneous_output_kbps", format!("{:.2}", rates.output_bytes as f64 / 1024.0));
    lines.total("total_net_input_bytes", &stats.input_bytes);
    lines.total("total_net_output_bytes", &stats.output_bytes);
    lines.total("rejected_connections", &stats.connections_refused);
    lines.line("expired_keys", stats.expired.get() + stats.removed.get());
    lines.line("evicted_keys", 0);
    lines.total("evicted_clients", &stats.evicted);
    lines.total("keyspace_hits", &stats.hits);
    lines.total("keyspace_misses", &stats.misses);
    lines.line("total_error_replies", stats.errors().map(|(_, count)| count).sum::<u64>());
    lines.total("waited_commands", &stats.waited);
    lines.total("acl_access_denied_auth", &stats.auth_failures);
    lines.total("client_output_buffer_limit_disconnections", &stats.output_limit_disconnects);
    Ok(())
}

fn replication(call: &Call<'_>, lines: &mut Lines) -> Outcome {
    lines.line("role", "master");
    lines.line("connected_slaves", 0);
    lines.line("master_replid", &call.shared.run.id);
    lines.line("master_repl_offset", 0);
    Ok(())
}

fn cpu(_call: &Call<'_>, lines: &mut Lines) -> Outcome {
    let clock = |id| {
        let time = rustix::time::clock_gettime(id);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    lines.line("used_cpu", format!("{:.6}", clock(rustix::time::ClockId::ProcessCPUTime)));
    if let Some(process) = Process::now() {
        lines.line("used_cpu_sys", format!("{:.6}", process.system_s));
        lines.line("used_cpu_user", format!("{:.6}", process.user_s));
    }
    Ok(())
}

fn commandstats(call: &Call<'_>, lines: &mut Lines) -> Outcome {
    for (index, command) in call.shared.stats.called() {
        let calls = command.calls.get();
        let us_per_call = command.latency.distribution().mean() / 1000.0;
        let value = format!(
            "calls={calls},usec={},usec_per_call={us_per_call:.2},rejected_calls={},\
             failed_calls={}",
            (us_per_call * calls as f64).ceil(),
            command.rejected.get(),
            command.failed.get()
        );
        lines.line(&format!("cmdstat_{}", COMMANDS[index].name), value);
    }
    Ok(())
}

fn errorstats(call: &Call<'_>, lines: &mut Lines) -> Outcome {
    for (code, count) in call.shared.stats.errors().filter(|(_, count)| *count > 0) {
        lines.line(&format!("errorstat_{code}"), format!("count={count}"));
    }
    Ok(())
}

fn keyspace(call: &Call<'_>, lines: &mut Lines) -> Outcome {
    for db in 0..DB_COUNT {
        let known = call.store.expiry(db)?.unwrap_or_default();
        // If the engine does not count keys, the last known number: INFO is called often, and a
        // walk costs much.
        let keys = call.store.counted_keys(db)?.unwrap_or(known.keys);
        if keys > 0 {
            let expires = known.keys_with_expiry.min(keys);
            let average_ms = known.mean_left_ms;
            let figures = format!("keys={keys},expires={expires},avg_ttl={average_ms}");
            lines.line(&format!("db{db}"), figures);
        }
    }
    Ok(())
}

fn thermocline(call: &Call<'_>, lines: &mut Lines) -> Outcome {
    for (name, value) in call.shared.store.figures() {
        lines.line(&name, value);
    }
    Ok(())
}
