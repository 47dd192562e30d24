//! Writes metrics as the text that Prometheus scrapes.
//!
//! # Format
//! Exposition format 0.0.4: `# HELP` and `# TYPE` once per name, then one line per number. A
//! histogram's buckets are cumulative and at fixed bounds, so that rates and sums over machines
//! mean something; the finer buckets stay in the snapshot.

use std::fmt::{self, Write};

use crate::snapshot::{Distribution, Metric, Value};
use crate::{Unit, registry::HISTOGRAM_BOUND_LABEL};

/// Returns exponents of the bounds, which are one below `2^exponent`, as the bounds of the
/// histogram's own buckets.
fn bound_exponents(unit: Unit) -> impl Iterator<Item = u32> {
    match unit {
        // 1 us to 69 s.
        Unit::Seconds => (10..=36).step_by(1),
        // 0 to 4 Gi.
        Unit::Bytes | Unit::Count => (0..=32).step_by(2),
    }
}

pub(crate) fn render(metrics: &[Metric]) -> String {
    let mut text = String::new();
    let mut name = "";
    for metric in metrics {
        // Writing to a string cannot fail.
        if metric.name != name {
            name = &metric.name;
            let _ = write_head(&mut text, metric);
        }
        let _ = write_metric(&mut text, metric);
    }
    text
}

fn write_head(text: &mut String, metric: &Metric) -> fmt::Result {
    let kind = match metric.value {
        Value::Counter(_) => "counter",
        Value::Gauge(_) => "gauge",
        Value::Histogram(_) => "histogram",
    };
    let help = metric.help.replace('\\', "\\\\").replace('\n', "\\n");
    writeln!(text, "# HELP {} {help}", metric.name)?;
    writeln!(text, "# TYPE {} {kind}", metric.name)
}

fn write_metric(text: &mut String, metric: &Metric) -> fmt::Result {
    match &metric.value {
        Value::Counter(count) => write_line(text, metric, "", None, count),
        Value::Gauge(level) => write_line(text, metric, "", None, level),
        Value::Histogram(distribution) => write_histogram(text, metric, distribution),
    }
}

fn write_histogram(text: &mut String, metric: &Metric, values: &Distribution) -> fmt::Result {
    for exponent in bound_exponents(values.unit) {
        let bound = (1_u64 << exponent) - 1;
        let shown = Shown { value: bound, unit: values.unit }.to_string();
        write_line(text, metric, "_bucket", Some(&shown), &values.count_up_to(bound))?;
    }
    write_line(text, metric, "_bucket", Some("+Inf"), &values.count)?;
    write_line(text, metric, "_sum", None, &Shown { value: values.sum, unit: values.unit })?;
    write_line(text, metric, "_count", None, &values.count)
}

fn write_line(
    text: &mut String,
    metric: &Metric,
    suffix: &str,
    bound: Option<&str>,
    number: &dyn fmt::Display,
) -> fmt::Result {
    write!(text, "{}{suffix}", metric.name)?;
    let labels = metric.labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let bound = bound.map(|bound| (HISTOGRAM_BOUND_LABEL, bound));
    let mut opened = false;
    for (name, value) in labels.chain(bound) {
        text.push(if opened { ',' } else { '{' });
        opened = true;
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        write!(text, "{name}=\"{value}\"")?;
    }
    if opened {
        text.push('}');
    }
    writeln!(text, " {number}")
}

/// A recorded value in the unit it is shown in.
struct Shown {
    value: u64,
    unit: Unit,
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.unit {
            Unit::Seconds => {
                write!(f, "{}.{:09}", self.value / 1_000_000_000, self.value % 1_000_000_000)
            }
            Unit::Bytes | Unit::Count => self.value.fmt(f),
        }
    }
}
