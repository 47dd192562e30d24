//! `bench record`.

use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use environment::Environment;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::BenchError;
use crate::record::Recorder;

/// A proxy that writes a trace.
#[derive(Args, Clone, Debug)]
pub struct RecordArgs {
    /// Address that clients connect to
    #[arg(long, default_value = "127.0.0.1:6380")]
    pub listen: String,
    /// The server
    #[arg(long, default_value = "127.0.0.1:6379")]
    pub to: String,
    /// The trace file to write
    #[arg(long)]
    pub out: PathBuf,
    /// Stop after this number of seconds; without it, when the process is interrupted
    #[arg(long, value_parser = seconds)]
    pub seconds: Option<Duration>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?}: want a number of seconds above 0");
    let length = text.parse().ok().and_then(|given| Duration::try_from_secs_f64(given).ok());
    length.filter(|length| !length.is_zero()).ok_or_else(wrong)
}

#[expect(clippy::disallowed_methods, reason = "a trace is the user's file, not the database's")]
pub(super) fn execute(args: &RecordArgs, env: &Environment) -> Result<ExitCode, BenchError> {
    let failed = |error| BenchError::Io(args.out.display().to_string(), error);
    // The trace up to a signal is written nevertheless.
    let mut signals = Signals::new([SIGINT, SIGTERM])
        .map_err(|error| BenchError::Io("signals".to_owned(), error))?;
    let out = File::create(&args.out).map_err(failed)?;
    let recorder = Recorder::start(&args.listen, &args.to, out, env)
        .map_err(|error| BenchError::Io(args.listen.clone(), error))?;
    eprintln!("recording {} for {} into {}", recorder.address(), args.to, args.out.display());
    let start = env.now();
    let length = args.seconds.unwrap_or(Duration::MAX);
    let is_asked = |signals: &mut Signals| signals.pending().next().is_some();
    while recorder.is_running() && env.now() - start < length && !is_asked(&mut signals) {
        env.sleep(Duration::from_millis(100));
    }
    let (commands, untraced) = (recorder.commands(), recorder.untraced());
    recorder.stop().map_err(failed)?;
    eprintln!("{commands} commands, {untraced} connections that could not be followed");
    Ok(ExitCode::SUCCESS)
}
