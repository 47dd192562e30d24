//! `thermocline flexspace mount`: spaces as files, until they are unmounted or a signal comes.

use environment::Environment;
use flexspace::space::Options as SpaceOptions;
use mount::{Error, Options};
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::Context;
use super::arguments::Mount;
use crate::failure::{Failure, Kind, Outcome};
use crate::output;

pub(super) fn run(context: &Context, arguments: &Mount) -> Outcome {
    let environment = Environment::real();
    let segment_bytes = u32::try_from(arguments.segment).unwrap_or(u32::MAX);
    SpaceOptions { segment_bytes, ..SpaceOptions::default() }.check().map_err(Failure::usage)?;
    let options = Options {
        segment_bytes,
        allow_other: arguments.allow_other,
        read_only: arguments.read_only,
        report: Box::new(|what| eprintln!("thermocline: {what}")),
    };
    let mut signals =
        Signals::new([SIGINT, SIGTERM]).map_err(|error| Failure::io("signals", &error))?;
    let mounted = mount::mount(&arguments.source, &arguments.at, &environment, options);
    let mounted = mounted.map_err(|error| failed(&error))?;
    let stopper = mounted.stopper();
    let listening = signals.handle();
    let waiting = environment
        .spawn("signals", move || {
            if signals.forever().next().is_some() {
                stopper.stop();
            }
        })
        .map_err(|error| Failure::io("a thread for signals", &error))?;
    let (source, at) = (arguments.source.display(), mounted.at().display());
    if context.shared.json {
        let line = json!({ "source": source.to_string(), "mounted": at.to_string() });
        output::json_line(&line)?;
    } else if !context.shared.quiet {
        eprintln!("mounted {source} at {at}; Ctrl-C or umount ends it");
    }
    let ended = mounted.wait();
    listening.close();
    let _ = waiting.join();
    ended.map_err(|error| failed(&error))
}

fn failed(error: &Error) -> Failure {
    let kind = match error {
        Error::NotFound { .. } => Kind::NotFound,
        Error::Busy { .. } => Kind::InUse,
        Error::Mountpoint { .. } | Error::Owned { .. } => Kind::Usage,
        _ => Kind::Error,
    };
    Failure::new(kind, error)
}
