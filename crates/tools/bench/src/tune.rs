//! The search for the size of pairs from which `hashkv` separates values (HashKV, section 3.5).
//!
//! 1. Stores of pairs of one size each are loaded and updated three times: once with all values in
//!    segments, and once with all values in the index. The throughput of the last updates counts.
//! 2. The size is chosen that costs least: for each measured size, the loss against the better of
//!    the two ways.
//!
//! The sizes in the middle come first. So a search that ends early, since its time is over or the
//! user interrupts it, has the most useful ones.

use std::fmt;

/// Bytes of a key.
pub const KEY_BYTES: u32 = 24;
/// Bytes of the pairs that are measured, key included, in the order of the search.
pub const SIZES: [u32; 8] = [192, 512, 96, 1024, 128, 384, 64, 256];
/// The largest value of the setting: all smaller pairs are in the index.
pub const SEPARATION_BYTES_MAX: u32 = 64 << 10;

/// How the values of a store are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// In segments, by hash.
    Separated,
    /// In the index.
    Inline,
}

impl Way {
    /// Returns the setting that keeps all values so.
    pub fn separation_bytes(self) -> u32 {
        match self {
            Self::Separated => 0,
            Self::Inline => SEPARATION_BYTES_MAX,
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Separated => "separated",
            Self::Inline => "in the index",
        })
    }
}

/// The measurement of one size: updates a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Bytes of a pair.
    pub pair_bytes: u32,
    /// With values in segments.
    pub separated: f64,
    /// With values in the index.
    pub inline: f64,
}

impl Point {
    /// Returns the part of the better throughput that a way loses.
    fn loss(&self, is_separated: bool) -> f64 {
        let better = self.separated.max(self.inline).max(f64::MIN_POSITIVE);
        let own = if is_separated { self.separated } else { self.inline };
        1.0 - own / better
    }
}

/// Measures one size after the other, until `measure` returns `None`. Calls `done` after each size.
/// A size counts only if both ways were measured.
///
/// # Errors
/// Those of `measure`. The sizes before were passed to `done`.
pub fn search<E>(
    measure: &mut dyn FnMut(u32, Way) -> Result<Option<f64>, E>,
    done: &mut dyn FnMut(&[Point]),
) -> Result<(), E> {
    let mut points = Vec::new();
    for pair_bytes in SIZES {
        let Some(separated) = measure(pair_bytes, Way::Separated)? else { return Ok(()) };
        let Some(inline) = measure(pair_bytes, Way::Inline)? else { return Ok(()) };
        points.push(Point { pair_bytes, separated, inline });
        points.sort_by_key(|point| point.pair_bytes);
        done(&points);
    }
    Ok(())
}

/// Returns the size from which values are separated, if there is a measurement: a measured size,
/// zero or [`SEPARATION_BYTES_MAX`]. `points` are in the order of their sizes.
pub fn threshold(points: &[Point]) -> Option<u32> {
    let smallest = points.first()?.pair_bytes;
    let loss = |least: u32| -> f64 {
        points.iter().map(|point| point.loss(point.pair_bytes >= least)).sum()
    };
    let sizes = points.iter().map(|point| point.pair_bytes).chain([SEPARATION_BYTES_MAX]);
    let best = sizes.min_by(|a, b| loss(*a).total_cmp(&loss(*b)))?;
    // Pairs that are smaller still were not measured: the index is the better place for them.
    Some(best.max(smallest))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn point(pair_bytes: u32, separated: f64, inline: f64) -> Point {
        Point { pair_bytes, separated, inline }
    }

    #[test]
    fn the_threshold_is_where_separation_begins_to_pay() {
        let points = [point(64, 1.0, 3.0), point(128, 2.0, 2.5), point(192, 3.0, 2.0)];
        assert_eq!(threshold(&points), Some(192));
        let points = [point(64, 2.0, 1.0), point(1024, 2.0, 1.0)];
        assert_eq!(threshold(&points), Some(64));
        let points = [point(64, 1.0, 2.0), point(1024, 1.0, 2.0)];
        assert_eq!(threshold(&points), Some(SEPARATION_BYTES_MAX));
        assert_eq!(threshold(&[]), None);
    }

    /// One disturbed measurement moves it little.
    #[test]
    fn the_threshold_costs_least_over_all_sizes() {
        let points =
            [point(64, 1.0, 2.0), point(128, 1.0, 2.0), point(192, 2.0, 1.0), point(256, 1.9, 2.0)];
        assert_eq!(threshold(&points), Some(192));
    }

    #[test]
    fn a_search_that_ends_early_has_the_sizes_so_far() {
        let (mut runs, mut found) = (0, Vec::new());
        let mut measure = |pair_bytes: u32, way: Way| {
            runs += 1;
            let speed = f64::from(pair_bytes) * if way == Way::Inline { 1.0 } else { 0.9 };
            Ok::<_, Infallible>((runs < 6).then_some(speed))
        };
        let done = &mut |points: &[Point]| found = points.to_vec();
        assert_eq!(search(&mut measure, done), Ok(()));
        let sizes: Vec<u32> = found.iter().map(|point| point.pair_bytes).collect();
        assert_eq!(sizes, [192, 512]);
        assert_eq!(runs, 6, "the second way of the third size ends it");
        assert_eq!(threshold(&found), Some(SEPARATION_BYTES_MAX));
    }
}
