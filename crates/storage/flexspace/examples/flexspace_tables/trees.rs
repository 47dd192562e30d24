//! Table 1: operations of a FlexTree, next to a B+-tree without shifts and a sorted array.

#[path = "../../benches/flex_tree/index.rs"]
mod index;
#[path = "../../benches/flex_tree/rivals.rs"]
mod rivals;

use std::hint::black_box;

use environment::Random;
use flexspace::FlexTree;
use index::{Index, LENGTH, address, appended, inserted, offsets};
use rand::RngExt;
use rivals::{SortedArray, UnshiftedTree};

use crate::{Outcome, Plan, median};

/// Lookups, and ranges, of one round.
const LOOKUPS: usize = 200_000;
/// Extents of a range.
const RANGE: u64 = 50;
/// Inserts of one round into an index without shifts.
const SLOW_INSERTS: u64 = 200;

/// One index at one size, in millions of operations a second.
pub(crate) struct Row {
    pub(crate) extents: u64,
    pub(crate) name: &'static str,
    pub(crate) insert: Option<f64>,
    pub(crate) append: f64,
    pub(crate) lookup: f64,
    pub(crate) range: f64,
    /// Bytes of memory an extent, after appends and after inserts.
    pub(crate) bytes: Option<(f64, f64)>,
}

pub(crate) fn measure(plan: &Plan) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    for &extents in &plan.extents {
        let random = &mut plan.environment.random("trees");
        let mut flex = row::<FlexTree>(plan, extents, random)?;
        let bytes = |tree: &FlexTree| -> Outcome<f64> {
            Ok(tree.check().map_err(|wrong| format!("the tree is not sound: {wrong}"))?.bytes
                as f64)
        };
        let after_appends = bytes(&appended(extents))? / extents as f64;
        let after_inserts = bytes(&inserted(extents, random))? / extents as f64;
        flex.bytes = Some((after_appends, after_inserts));
        rows.push(flex);
        rows.push(row::<UnshiftedTree>(plan, extents, random)?);
        rows.push(row::<SortedArray>(plan, extents, random)?);
    }
    Ok(rows)
}

fn row<I: Index>(plan: &Plan, extents: u64, random: &mut Random) -> Outcome<Row> {
    let mut found: [Vec<f64>; 4] = Default::default();
    for _ in 0..plan.rounds {
        found[0].extend(inserts::<I>(plan, extents, random)?);
        let (took, index) = plan.seconds(|| Ok(appended::<I>(extents)))?;
        found[1].push(extents as f64 / took / 1e6);
        let places = offsets(extents, random);
        let places = &places[..LOOKUPS];
        let (took, _) = plan.seconds(|| {
            let sum = places.iter().map(|&offset| index.get(offset)).fold(0, u64::wrapping_add);
            Ok(black_box(sum))
        })?;
        found[2].push(LOOKUPS as f64 / took / 1e6);
        let (took, _) = plan.seconds(|| {
            let range = |&offset: &u64| index.sum(offset, offset + RANGE * u64::from(LENGTH));
            Ok(black_box(places.iter().map(range).fold(0, u64::wrapping_add)))
        })?;
        found[3].push(LOOKUPS as f64 / took / 1e6);
    }
    let [insert, append, lookup, range] = found;
    let insert = (!insert.is_empty()).then(|| median(insert));
    let (append, lookup, range) = (median(append), median(lookup), median(range));
    Ok(Row { extents, name: I::NAME, insert, append, lookup, range, bytes: None })
}

/// Random inserts, from nothing on. An index without shifts gets only some, when half of the
/// extents are there: these cost the average.
fn inserts<I: Index>(plan: &Plan, extents: u64, random: &mut Random) -> Outcome<Option<f64>> {
    if extents > I::INSERTS_MAX {
        return Ok(None);
    }
    if I::IS_SHIFTED {
        let (took, index) = plan.seconds(|| Ok(inserted::<I>(extents, random)))?;
        drop(index);
        return Ok(Some(extents as f64 / took / 1e6));
    }
    let half = extents / 2;
    let mut index = appended::<I>(half);
    let (took, ()) = plan.seconds(|| {
        for number in 0..SLOW_INSERTS {
            let offset = random.random_range(0..half) * u64::from(LENGTH);
            index.insert(offset, address(half + number));
        }
        Ok(())
    })?;
    Ok(Some(SLOW_INSERTS as f64 / took / 1e6))
}

pub(crate) fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "## Table 1: the index alone, in memory

Extents of 4 KiB; millions of operations a second.

- *Insert*: each new extent between two random ones, from nothing on. Into an index without shifts, 200 extents when half of all are there.
- *Append*: from nothing on.
- *Lookup*: of a random offset.
- *Range*: 50 extents from a random offset on.

| extents | index | insert | append | lookup | range | bytes an extent after appends, inserts |
|---:|---|---:|---:|---:|---:|---:|
",
    );
    for row in rows {
        let insert = row.insert.map_or("-".to_owned(), |insert| format!("{insert:.4}"));
        let bytes = row.bytes.map_or("-".to_owned(), |(a, i)| format!("{a:.1}, {i:.1}"));
        let name = row.name.replace('_', " ");
        text += &format!(
            "| {} | {name} | {insert} | {:.2} | {:.2} | {:.3} | {bytes} |\n",
            row.extents, row.append, row.lookup, row.range
        );
    }
    text + "\n"
}
