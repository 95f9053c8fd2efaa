//! Charts as small SVG files: lines, bands, points and bars, our results beside a paper's.
//!
//! The background is transparent and colours follow the reader's light or dark theme, so that a
//! chart fits any page. The palette has four colours; dashes tell series apart without colour.

use std::fmt::Write;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 360.0;
/// Margins left of, right of, above and below the drawing.
const MARGIN: [f64; 4] = [64.0, 240.0, 40.0, 48.0];
/// Height of a bar, and of its row.
const BAR: (f64, f64) = (16.0, 26.0);

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Points joined by a line.
    Line,
    /// A dashed line, for measurements by others.
    Dashed,
    /// An area between two values; points come in pairs of lower and upper.
    Band,
}

/// A named series of points.
#[derive(Clone, Debug)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// How it is drawn.
    pub mark: Mark,
    /// Index of the colour, from 0.
    pub colour: usize,
    /// The points; a band's lower edge, then its upper edge.
    pub points: Vec<(f64, f64)>,
}

/// An axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// The quantity shown, with its unit.
    pub label: String,
    /// Whether the scale is logarithmic.
    pub log: bool,
    /// First and last value on the axis.
    pub range: (f64, f64),
    /// Values with a tick and a number.
    pub ticks: Vec<f64>,
}

impl Axis {
    /// Returns an axis from `low` to `high` with ticks at round numbers.
    pub fn linear(label: &str, low: f64, high: f64) -> Axis {
        let step = round_step((high - low).abs().max(1e-9) / 6.0);
        let (first, last) = ((low / step).floor() as i64, (high / step).ceil() as i64);
        let ticks: Vec<f64> = (first..=last).map(|number| number as f64 * step).collect();
        Axis {
            label: label.to_owned(),
            log: false,
            range: (first as f64 * step, last as f64 * step),
            ticks,
        }
    }

    /// Returns a logarithmic axis with ticks at the given values.
    pub fn log(label: &str, ticks: &[f64]) -> Axis {
        let low = ticks
            .iter()
            .copied()
            .fold(f64::INFINITY, f64::min)
            .max(1e-9);
        let high = ticks.iter().copied().fold(low, f64::max);
        Axis {
            label: label.to_owned(),
            log: true,
            range: (low, high),
            ticks: ticks.to_vec(),
        }
    }

    /// Returns the position of a value on the axis, 0 to 1; the middle if the axis has one value only.
    fn place(&self, value: f64) -> f64 {
        let (low, high) = self.range;
        if high <= low {
            return 0.5;
        }
        let share = if self.log {
            (value.max(1e-12) / low).ln() / (high / low).ln()
        } else {
            (value - low) / (high - low)
        };
        share.clamp(0.0, 1.0)
    }
}

/// Returns the smallest round number (1, 2 or 5 times a power of ten) that is at least `step`.
fn round_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    let digits = [1.0, 2.0, 5.0, 10.0];
    digits
        .into_iter()
        .map(|digit| digit * power)
        .find(|round| *round >= step * 0.999)
        .unwrap_or(step)
}

fn number(value: f64) -> String {
    let text = if value.abs() >= 100.0 || value == value.round() {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    };
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Returns the beginning of every chart: the SVG element, its style and the title.
fn head(width: f64, height: f64, title: &str) -> String {
    let style = "text{font:12px system-ui,sans-serif;fill:#3b4252}.t{font-weight:600;font-size:14px}\
        .g{stroke:#8884;stroke-width:1}.a{stroke:#888;stroke-width:1}\
        .l{fill:none;stroke-width:2.25;stroke-linejoin:round}.d{stroke-dasharray:5 4}.b{opacity:.4}\
        .s0{stroke:#0b7285}.f0{fill:#0b7285}.s1{stroke:#c2410c}.f1{fill:#c2410c}\
        .s2{stroke:#6d28d9}.f2{fill:#6d28d9}.s3{stroke:#6b7280}.f3{fill:#6b7280}\
        @media(prefers-color-scheme:dark){text{fill:#d8dee9}.s0{stroke:#3bc9db}.f0{fill:#3bc9db}\
        .s1{stroke:#ff922b}.f1{fill:#ff922b}.s2{stroke:#b197fc}.f2{fill:#b197fc}\
        .s3{stroke:#adb5bd}.f3{fill:#adb5bd}}";
    let title = escape(title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" role=\"img\" aria-label=\"{title}\"><title>{title}</title><style>{style}</style>\n\
         <text class=\"t\" x=\"16\" y=\"22\">{title}</text>\n"
    )
}

/// Draws series over two axes.
pub fn lines(title: &str, x: &Axis, y: &Axis, series: &[Series]) -> String {
    let mut out = head(WIDTH, HEIGHT, title);
    let [left, right, top, bottom] = MARGIN;
    let (right, bottom) = (WIDTH - right, HEIGHT - bottom);
    let at = |(a, b): (f64, f64)| {
        (
            left + x.place(a) * (right - left),
            bottom - y.place(b) * (bottom - top),
        )
    };
    for tick in &y.ticks {
        let (_, height) = at((x.range.0, *tick));
        let _ = writeln!(
            out,
            "<line class=\"g\" x1=\"{left:.1}\" x2=\"{right:.1}\" y1=\"{height:.1}\" y2=\"{height:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left - 8.0,
            height + 4.0,
            number(*tick)
        );
    }
    for tick in &x.ticks {
        let (place, _) = at((*tick, y.range.0));
        let _ = writeln!(
            out,
            "<line class=\"a\" x1=\"{place:.1}\" x2=\"{place:.1}\" y1=\"{bottom:.1}\" y2=\"{:.1}\"/>\
             <text x=\"{place:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 4.0,
            bottom + 18.0,
            number(*tick)
        );
    }
    let _ = writeln!(
        out,
        "<line class=\"a\" x1=\"{left:.1}\" x2=\"{right:.1}\" y1=\"{bottom:.1}\" y2=\"{bottom:.1}\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
         <text transform=\"translate(16 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        (left + right) / 2.0,
        HEIGHT - 10.0,
        escape(&x.label),
        (top + bottom) / 2.0,
        escape(&y.label)
    );
    for (nth, series) in series.iter().enumerate() {
        let colour = series.colour % 4;
        let points: Vec<String> = series
            .points
            .iter()
            .map(|point| at(*point))
            .map(|(a, b)| format!("{a:.1},{b:.1}"))
            .collect();
        let path = points.join(" ");
        let legend = top + 12.0 + nth as f64 * 22.0;
        let (from, to) = (right + 14.0, right + 36.0);
        let dash = if series.mark == Mark::Dashed {
            " d"
        } else {
            ""
        };
        if series.mark == Mark::Band {
            let _ = writeln!(
                out,
                "<polygon class=\"b f{colour}\" points=\"{path}\"/><rect class=\"b f{colour}\" x=\"{from:.1}\" y=\"{:.1}\" width=\"22\" height=\"10\"/>",
                legend - 6.0
            );
        } else {
            let _ = writeln!(
                out,
                "<polyline class=\"l s{colour}{dash}\" points=\"{path}\"/>\
                 <line class=\"l s{colour}{dash}\" x1=\"{from:.1}\" x2=\"{to:.1}\" y1=\"{legend:.1}\" y2=\"{legend:.1}\"/>"
            );
            for (a, b) in series.points.iter().map(|point| at(*point)) {
                let _ = write!(
                    out,
                    "<circle class=\"f{colour}\" cx=\"{a:.1}\" cy=\"{b:.1}\" r=\"3\"/>"
                );
            }
        }
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            to + 6.0,
            legend + 4.0,
            escape(&series.name)
        );
    }
    out.push_str("</svg>\n");
    out
}

/// A named bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Name beside the bar.
    pub name: String,
    /// Value that its length shows.
    pub value: f64,
    /// Index of the colour, from 0.
    pub colour: usize,
    /// Smallest and largest of several runs.
    pub spread: Option<(f64, f64)>,
}

/// Draws horizontal bars, each with its value.
pub fn bars(title: &str, unit: &str, bars: &[Bar]) -> String {
    const NAMES: f64 = 260.0;
    let height = 60.0 + BAR.1 * bars.len() as f64;
    let mut out = head(WIDTH, height, title);
    let most = bars
        .iter()
        .map(|bar| bar.spread.map_or(bar.value, |spread| spread.1))
        .fold(1e-9, f64::max);
    let scale = (WIDTH - NAMES - 90.0) / most;
    for (nth, bar) in bars.iter().enumerate() {
        let top = 40.0 + nth as f64 * BAR.1;
        let (middle, end) = (top + BAR.0 / 2.0, NAMES + bar.value * scale);
        let _ = write!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
             <rect class=\"f{}\" x=\"{NAMES:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"2\"/>",
            NAMES - 8.0,
            middle + 4.0,
            escape(&bar.name),
            bar.colour % 4,
            (bar.value * scale).max(1.0),
            BAR.0
        );
        let mut right = end;
        if let Some((low, high)) = bar.spread {
            right = right.max(NAMES + high * scale);
            let _ = write!(
                out,
                "<line class=\"a\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{middle:.1}\" y2=\"{middle:.1}\"/>",
                NAMES + low * scale,
                NAMES + high * scale
            );
        }
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            right + 6.0,
            middle + 4.0,
            number(bar.value)
        );
    }
    let _ = writeln!(
        out,
        "<text x=\"{NAMES:.1}\" y=\"{:.1}\">{}</text>\n</svg>",
        height - 8.0,
        escape(unit)
    );
    out
}

/// Returns the greatest value of all series, at least 0.001.
pub fn most(series: &[Series]) -> f64 {
    let values = series.iter().flat_map(|series| &series.points);
    values.map(|point| point.1).fold(0.001, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_numbers_around_the_values() {
        let axis = Axis::linear("s", 29.0, 41.2);
        assert!(axis.range.0 <= 29.0 && axis.range.1 >= 41.2);
        assert!(
            axis.ticks.iter().all(|tick| tick % 5.0 == 0.0),
            "{:?}",
            axis.ticks
        );
        assert_eq!(number(0.25), "0.25");
        assert_eq!(number(40.0), "40");
        assert_eq!(number(0.5), "0.5");
    }

    #[test]
    fn a_log_axis_has_equal_ratios_at_equal_distances() {
        let axis = Axis::log("streams", &[50.0, 500.0, 5000.0]);
        assert!((axis.place(500.0) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn the_only_value_of_an_axis_is_in_its_middle() {
        let of_one = Axis::log("streams", &[500.0]).place(500.0);
        assert!((of_one - 0.5).abs() < 1e-9, "{of_one}");
    }

    #[test]
    fn names_cannot_break_the_drawing() {
        let series = Series {
            name: "a<b & c".into(),
            mark: Mark::Line,
            colour: 9,
            points: vec![(1.0, 1.0)],
        };
        let axis = Axis::linear("x", 0.0, 2.0);
        let svg = lines("t", &axis, &axis, &[series]);
        assert!(svg.contains("a&lt;b &amp; c") && svg.trim_end().ends_with("</svg>"));
        assert!(bars("t", "ns", &[]).trim_end().ends_with("</svg>"));
    }
}
