//! The page of a search for the size from which values are separated.

use std::io;
use std::path::Path;

use super::json::write_whole;
use super::plot::{Axis, Line, Scale, line_chart};
use super::table::count;
use crate::tune::{Point, threshold};

/// Writes the page of these measurements, which are in the order of their sizes.
///
/// # Errors
/// The file cannot be written.
pub fn write_separation_page(path: &Path, points: &[Point]) -> io::Result<()> {
    write_whole(path, page(points).as_bytes())
}

fn page(points: &[Point]) -> String {
    let line = |name: &str, color: usize, speed: fn(&Point) -> f64| Line {
        name: name.to_owned(),
        color,
        // Sizes double from one mark to the next.
        points: points.iter().map(|it| (f64::from(it.pair_bytes).log2(), speed(it))).collect(),
    };
    let lines = [
        line("values in segments", 0, |point| point.separated),
        line("values in the index", 1, |point| point.inline),
    ];
    let mark = |point: &Point| (f64::from(point.pair_bytes).log2(), point.pair_bytes.to_string());
    let sizes = Axis { title: "bytes of a pair", marks: points.iter().map(mark).collect() };
    let chart = line_chart(&lines, &sizes, "updates a second", Scale::Linear, count);
    let chosen = threshold(points).map_or_else(String::new, |bytes| {
        format!("<p>Separation from {bytes} bytes on costs least.</p>")
    });
    format!(
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>\
         <title>hashkv: separation</title><style>{}</style></head><body>\
         <h1>Updates of hashkv by the size of pairs</h1>\
         <p><span class='key'><i class='s0'></i>values in segments</span>\
         <span class='key'><i class='s1'></i>values in the index</span></p>\
         {chart}{chosen}</body></html>\n",
        include_str!("page.css"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_a_dot_for_each_measurement_and_the_choice() {
        let point = |pair_bytes, separated, inline| Point { pair_bytes, separated, inline };
        let page = page(&[point(64, 1e4, 2e4), point(192, 3e4, 2e4)]);
        assert_eq!(page.matches("<circle").count(), 4);
        assert!(page.contains("from 192 bytes"));
    }
}
