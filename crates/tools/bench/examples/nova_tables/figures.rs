//! Medians of rounds with their spread, ratios, and goals.

use std::fmt;

/// The median of several rounds, with the smallest and the largest one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    least: f64,
    most: f64,
}

impl Spread {
    /// Returns the spread of `values`; that of nothing is zero.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_unstable_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(0.0);
        let (middle, last) = (values.len() / 2, values.len().saturating_sub(1));
        let is_even = !values.is_empty() && values.len().is_multiple_of(2);
        let below = if is_even { middle - 1 } else { middle };
        Self { median: f64::midpoint(at(below), at(middle)), least: at(0), most: at(last) }
    }

    /// Returns the spread of the ratios of two variants, round by round.
    pub(crate) fn of_ratios(these: &[f64], those: &[f64]) -> Self {
        let ratios = these.iter().zip(those).map(|(this, that)| this / that);
        Self::of(ratios.filter(|ratio| ratio.is_finite()))
    }

    /// Returns the text of operations a second.
    pub(crate) fn rate(&self) -> String {
        let Self { median, least, most } = *self;
        format!("{} ({} - {})", Rate(median), Rate(least), Rate(most))
    }

    /// Returns the text with `digits` behind the point.
    pub(crate) fn digits(&self, digits: usize) -> String {
        let Self { median, least, most } = *self;
        format!("{median:.digits$} ({least:.digits$} - {most:.digits$})")
    }
}

/// Operations a second.
struct Rate(f64);

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            rate if rate >= 1e6 => write!(f, "{:.2} M", rate / 1e6),
            rate if rate >= 1e4 => write!(f, "{:.1} k", rate / 1e3),
            rate => write!(f, "{rate:.0}"),
        }
    }
}

/// A goal of the design.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

impl Goal {
    /// Returns the goal, and whether `measured` reaches it.
    pub(crate) fn judge(self, measured: f64) -> String {
        let (word, goal, is_reached) = match self {
            Self::AtLeast(goal) => ("at least", goal, measured >= goal),
            Self::AtMost(goal) => ("at most", goal, measured <= goal),
        };
        format!("{word} {goal}: {}", if is_reached { "yes" } else { "no" })
    }
}
