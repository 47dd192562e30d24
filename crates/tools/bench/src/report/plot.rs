//! Line charts and bar charts as SVG. Colours are the page's CSS variables, so that a chart follows
//! the page's light or dark scheme.

use std::fmt::Write;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 40.0;
const BAR_HEIGHT: f64 = 22.0;
const BAR_LEFT: f64 = 150.0;

/// A line of a chart. Its colour is series `color` of the page, so that a store has the same one
/// everywhere.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) color: usize,
    pub(super) points: Vec<(f64, f64)>,
}

/// How the vertical axis is divided.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    /// From zero.
    Linear,
    /// By powers of ten.
    Logarithmic,
}

/// An axis: the places of its marks, in the data's units, and their labels.
pub(super) struct Axis {
    pub(super) title: &'static str,
    pub(super) marks: Vec<(f64, String)>,
}

/// A chart of lines over a common horizontal axis.
pub(super) fn line_chart(
    lines: &[Line],
    horizontal: &Axis,
    vertical_title: &str,
    scale: Scale,
    show: impl Fn(f64) -> String,
) -> String {
    let values = || lines.iter().flat_map(|line| line.points.iter().map(|&(_, y)| y));
    let top = values().fold(0.0, f64::max);
    let bottom = values().filter(|&y| y > 0.0).fold(f64::INFINITY, f64::min);
    let marks = match scale {
        Scale::Linear => linear_marks(top),
        Scale::Logarithmic => logarithmic_marks(bottom, top),
    };
    let (low, high) = (marks[0], marks[marks.len() - 1]);
    let place = |y: f64| match scale {
        Scale::Linear => (y - low) / (high - low),
        Scale::Logarithmic => (y.max(low) / low).ln() / (high / low).ln(),
    };
    let first = horizontal.marks.first().map_or(0.0, |mark| mark.0);
    let last = horizontal.marks.last().map_or(1.0, |mark| mark.0);
    let x_at = |x: f64| {
        LEFT + (x - first) / (last - first).max(f64::MIN_POSITIVE) * (WIDTH - LEFT - RIGHT)
    };
    let y_at = |y: f64| HEIGHT - BOTTOM - place(y) * (HEIGHT - TOP - BOTTOM);

    let mut svg = open(HEIGHT, vertical_title);
    for &mark in &marks {
        let y = y_at(mark);
        let _ = write!(
            svg,
            "<line class='grid' x1='{LEFT}' x2='{:.1}' y1='{y:.1}' y2='{y:.1}'/>\
             <text class='tick' x='{:.1}' y='{:.1}' text-anchor='end'>{}</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            y + 4.0,
            escape(&show(mark)),
        );
    }
    for (mark, text) in &horizontal.marks {
        let _ = write!(
            svg,
            "<text class='tick' x='{:.1}' y='{:.1}' text-anchor='middle'>{}</text>",
            x_at(*mark),
            HEIGHT - BOTTOM + 18.0,
            escape(text),
        );
    }
    let _ = write!(
        svg,
        "<text class='tick' x='{:.1}' y='{:.1}' text-anchor='middle'>{}</text>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 4.0,
        escape(horizontal.title),
    );
    for line in lines {
        draw_line(&mut svg, line, &x_at, &y_at, &show);
    }
    svg.push_str("</svg>");
    svg
}

fn draw_line(
    svg: &mut String,
    line: &Line,
    x_at: &impl Fn(f64) -> f64,
    y_at: &impl Fn(f64) -> f64,
    show: &impl Fn(f64) -> String,
) {
    let color = line.color;
    let points: Vec<String> =
        line.points.iter().map(|&(x, y)| format!("{:.1},{:.1}", x_at(x), y_at(y))).collect();
    let _ = write!(svg, "<polyline class='line s{color}' points='{}'/>", points.join(" "));
    for &(x, y) in &line.points {
        let _ = write!(
            svg,
            "<circle class='dot s{color}' cx='{:.1}' cy='{:.1}' r='5'><title>{} {}</title></circle>",
            x_at(x),
            y_at(y),
            escape(&line.name),
            escape(&show(y)),
        );
    }
}

/// A bar of a chart: name, series, value, and the text at its end.
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) color: usize,
    pub(super) value: f64,
    pub(super) text: String,
}

/// Horizontal bars from zero.
pub(super) fn bar_chart(bars: &[Bar], title: &str) -> String {
    let longest = bars.iter().map(|bar| bar.value).fold(f64::MIN_POSITIVE, f64::max);
    let height = bars.len() as f64 * (BAR_HEIGHT + 6.0) + 8.0;
    let mut svg = open(height, title);
    for (index, bar) in bars.iter().enumerate() {
        let y = 4.0 + index as f64 * (BAR_HEIGHT + 6.0);
        let length = (bar.value / longest * (WIDTH - BAR_LEFT - 110.0)).max(1.0);
        let middle = y + BAR_HEIGHT / 2.0 + 4.0;
        let _ = write!(
            svg,
            "<text class='tick' x='{:.1}' y='{middle:.1}' text-anchor='end'>{}</text>\
             <rect class='bar s{}' x='{BAR_LEFT}' y='{y:.1}' width='{length:.1}' \
             height='{BAR_HEIGHT}' rx='3'/>\
             <text class='label' x='{:.1}' y='{middle:.1}'>{}</text>",
            BAR_LEFT - 8.0,
            escape(&bar.name),
            bar.color,
            BAR_LEFT + length + 6.0,
            escape(&bar.text),
        );
    }
    svg.push_str("</svg>");
    svg
}

fn open(height: f64, title: &str) -> String {
    format!("<svg viewBox='0 0 {WIDTH} {height}' role='img' aria-label='{}'>", escape(title))
}

/// Round numbers from zero to at least `top`.
fn linear_marks(top: f64) -> Vec<f64> {
    let step = round_step(top.max(f64::MIN_POSITIVE) / 4.0);
    let count = (top / step).ceil().max(1.0) as u32;
    (0..=count).map(|index| f64::from(index) * step).collect()
}

/// 1, 2 or 5 times a power of ten, not below `rough`.
fn round_step(rough: f64) -> f64 {
    let power = 10_f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= rough);
    factor.unwrap_or(10.0) * power
}

/// Returns powers of ten around the shown range.
fn logarithmic_marks(bottom: f64, top: f64) -> Vec<f64> {
    if !bottom.is_finite() {
        return vec![1.0, 10.0];
    }
    let low = bottom.log10().floor() as i32;
    let high = (top.log10().ceil() as i32).max(low + 1);
    (low..=high).map(|power| 10_f64.powi(power)).collect()
}

/// Round marks for a horizontal axis from 0 to `end`.
pub(super) fn time_marks(end: f64) -> Vec<(f64, String)> {
    let step = round_step(end.max(0.001) / 8.0);
    let count = (end / step).ceil().max(1.0) as u32;
    (0..=count)
        .map(|index| {
            let at = f64::from(index) * step;
            (at, format!("{}", (at * 1000.0).round() / 1000.0))
        })
        .collect()
}

/// Text for between tags or in a quoted attribute.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\'' => out.push_str("&#39;"),
            '"' => out.push_str("&quot;"),
            other => out.push(other),
        }
    }
    out
}
