//! Charts as inline SVG without scripts: line charts over steps, and histograms.

use std::fmt::Write as _;

use crate::text::escape_html;

/// Size of a chart, px.
const CHART_SIZE: [f64; 2] = [480.0, 190.0];
/// Margins left, right, above and below for axis labels, px.
const MARGIN: [f64; 4] = [56.0, 22.0, 10.0, 24.0];
/// Most points of a line. Longer lines keep the minimum and maximum of each chunk.
const MAX_POINTS: usize = 400;

/// A line chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LineChart<'a> {
    /// Title, with the unit of the values.
    pub title: &'a str,
    /// Label of the horizontal axis: `steps`.
    pub x_label: &'a str,
    /// Points from left to right. Points that are not finite are skipped.
    pub points: &'a [[f64; 2]],
    /// Whether the vertical axis is logarithmic. Ignored unless all values are positive.
    pub logarithmic: bool,
}

/// How many values fall into each bin of equal width.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram<'a> {
    /// Title, with the unit of the values.
    pub title: &'a str,
    /// Range of the horizontal axis.
    pub range: [f64; 2],
    /// Number of values in each bin.
    pub counts: &'a [u64],
}

/// Formats a number for an axis label, with at most four digits.
///
/// ```
/// use gausset_page::chart::format_number;
///
/// assert_eq!([0.25, 27.431, 812.6, 30_000.0].map(format_number), ["0.25", "27.43", "813", "30 k"]);
/// ```
#[must_use]
pub fn format_number(value: f64) -> String {
    let size = value.abs();
    match size {
        0.0 => "0".to_owned(),
        s if !s.is_finite() => "-".to_owned(),
        s if s >= 1e6 => format!("{} M", format_trimmed(value / 1e6, 2)),
        s if s >= 1e4 => format!("{} k", format_trimmed(value / 1e3, 1)),
        s if s >= 100.0 => format_trimmed(value, 0),
        s if s >= 1.0 => format_trimmed(value, 2),
        s if s >= 1e-3 => format_trimmed(value, 4),
        _ => format!("{value:.1e}"),
    }
}

fn format_trimmed(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    if digits == 0 { text } else { text.trim_end_matches('0').trim_end_matches('.').to_owned() }
}

/// An axis that maps data to px.
struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    logarithmic: bool,
}

impl Axis {
    fn new([low, high]: [f64; 2], [from, to]: [f64; 2], logarithmic: bool) -> Self {
        let (low, high) = if low < high { (low, high) } else { (low - 0.5, high + 0.5) };
        Self { low, high, from, to, logarithmic }
    }

    fn to_px(&self, value: f64) -> f64 {
        let share = if self.logarithmic {
            libm::log(value / self.low) / libm::log(self.high / self.low)
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + (self.to - self.from) * share
    }

    /// About four round values within the range.
    fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            let mut ticks = Vec::new();
            for power in libm::log10(self.low).floor() as i32..=libm::log10(self.high).ceil() as i32 {
                ticks.extend([1.0, 2.0, 5.0].map(|step| step * libm::pow(10.0, f64::from(power))));
            }
            ticks.retain(|tick| (self.low..=self.high).contains(tick));
            let every = ticks.len().div_ceil(5).max(1);
            if ticks.len() > 1 {
                return ticks.into_iter().step_by(every).collect();
            }
        }
        let raw = (self.high - self.low) / 4.0;
        let power = libm::pow(10.0, libm::log10(raw).floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|s| s * power).into_iter().find(|s| *s >= raw).unwrap_or(raw);
        let first = (self.low / step).ceil();
        let count = ((self.high / step).floor() - first).clamp(0.0, 20.0) as usize;
        (0..=count).map(|k| (first + k as f64) * step).collect()
    }
}

/// Starts an SVG with its axes.
fn begin_svg(title: &str, summary: &str, across: &Axis, up: &Axis) -> String {
    let [width, height] = CHART_SIZE;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}: {}\">",
        escape_html(title),
        escape_html(summary)
    );
    for tick in up.ticks() {
        let y = up.to_px(tick);
        let _ = write!(
            svg,
            "<path class=\"grid\" d=\"M{:.1} {y:.1}H{:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            across.from,
            across.to,
            across.from - 6.0,
            y + 4.0,
            format_number(tick)
        );
    }
    for tick in across.ticks() {
        let x = across.to_px(tick);
        let _ = write!(
            svg,
            "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            height - 6.0,
            format_number(tick)
        );
    }
    svg
}

fn axes(x: [f64; 2], y: [f64; 2], logarithmic: bool) -> (Axis, Axis) {
    let [width, height] = CHART_SIZE;
    let [left, right, above, below] = MARGIN;
    let across = Axis::new(x, [left, width - right], false);
    (across, Axis::new(y, [height - below, above], logarithmic))
}

fn figure(title: &str, across: &str, last: &str, svg: &str) -> String {
    format!(
        "<figure><figcaption>{} <span>{}</span></figcaption>{svg}</svg><small>{}</small></figure>\n",
        escape_html(title),
        escape_html(last),
        escape_html(across)
    )
}

impl LineChart<'_> {
    /// The chart as HTML; empty if there are fewer than two finite points.
    #[must_use]
    pub fn html(&self) -> String {
        let points: Vec<[f64; 2]> =
            self.points.iter().copied().filter(|p| p.iter().all(|v| v.is_finite())).collect();
        let (Some([first, _]), Some([last, value])) = (points.first(), points.last()) else {
            return String::new();
        };
        if points.len() < 2 {
            return String::new();
        }
        let low = points.iter().map(|p| p[1]).fold(f64::INFINITY, f64::min);
        let high = points.iter().map(|p| p[1]).fold(f64::NEG_INFINITY, f64::max);
        let is_logarithmic = self.logarithmic && low > 0.0;
        let title = if is_logarithmic { &format!("{}, logarithmic axis", self.title) } else { self.title };
        let (across, up) = axes([*first, *last], [low, high], is_logarithmic);
        let summary =
            format!("{} to {}, last {}", format_number(low), format_number(high), format_number(*value));
        let mut svg = begin_svg(title, &summary, &across, &up);
        svg.push_str("<path class=\"line\" d=\"");
        for (k, [x, y]) in downsample(&points).into_iter().enumerate() {
            let letter = if k == 0 { 'M' } else { 'L' };
            let _ = write!(svg, "{letter}{:.1} {:.1}", across.to_px(x), up.to_px(y));
        }
        svg.push_str("\"/>");
        figure(title, self.x_label, &format!("last {}", format_number(*value)), &svg)
    }
}

/// The minimum and maximum of each chunk, in their original order.
fn downsample(points: &[[f64; 2]]) -> Vec<[f64; 2]> {
    if points.len() <= MAX_POINTS {
        return points.to_vec();
    }
    let part = points.len().div_ceil(MAX_POINTS / 2);
    let mut kept = Vec::with_capacity(MAX_POINTS + 2);
    for part in points.chunks(part) {
        let by_value = |a: &&[f64; 2], b: &&[f64; 2]| a[1].total_cmp(&b[1]);
        let (Some(low), Some(high)) = (part.iter().min_by(by_value), part.iter().max_by(by_value)) else {
            continue;
        };
        let pair = if low[0] <= high[0] { [*low, *high] } else { [*high, *low] };
        kept.extend_from_slice(if pair[0] == pair[1] { &pair[..1] } else { &pair });
    }
    kept.extend(points.last());
    kept
}

impl Histogram<'_> {
    /// Counts values per bin. Values outside the range are counted in the first or last bin; NaN is skipped.
    ///
    /// ```
    /// use gausset_page::chart::Histogram;
    ///
    /// let opacities = [0.1, 0.2, 0.9, 1.5];
    /// assert_eq!(Histogram::count(opacities.into_iter(), [0.0, 1.0], 2), [2, 2]);
    /// ```
    #[must_use]
    pub fn count(values: impl Iterator<Item = f64>, [low, high]: [f64; 2], parts: usize) -> Vec<u64> {
        let mut counts = vec![0; parts];
        for value in values.filter(|value| !value.is_nan()) {
            let part = (value - low) / (high - low) * parts as f64;
            if let Some(count) = counts.get_mut((part.max(0.0) as usize).min(parts.saturating_sub(1))) {
                *count += 1;
            }
        }
        counts
    }

    /// The chart as HTML; empty if all counts are zero.
    #[must_use]
    pub fn html(&self) -> String {
        let most = self.counts.iter().copied().max().unwrap_or(0);
        if most == 0 {
            return String::new();
        }
        let (across, up) = axes(self.range, [0.0, most as f64], false);
        let total: u64 = self.counts.iter().sum();
        let summary = format!("{} in all", format_number(total as f64));
        let mut svg = begin_svg(self.title, &summary, &across, &up);
        svg.push_str("<path class=\"bars\" d=\"");
        let width = (across.to - across.from) / self.counts.len() as f64;
        for (k, &count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let (x, y) = (across.from + k as f64 * width, up.to_px(count as f64));
            let _ = write!(svg, "M{x:.1} {:.1}V{y:.1}h{:.1}V{:.1}z", up.from, width - 0.6, up.from);
        }
        svg.push_str("\"/>");
        figure(self.title, "", "", &svg)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_keeps_its_peaks_and_its_ends() {
        let mut points: Vec<[f64; 2]> = (0..100_000).map(|i| [f64::from(i), 1.0]).collect();
        points[54_321][1] = 9.0;
        let kept = downsample(&points);
        assert!(kept.len() <= MAX_POINTS + 2);
        assert!(kept.contains(&[54_321.0, 9.0]) && kept.last() == points.last() && kept[0] == points[0]);
        assert!(kept.windows(2).all(|pair| pair[0][0] <= pair[1][0]));
    }

    #[test]
    fn a_chart_says_its_values_and_needs_two() {
        let points = [[0.0, 20.0], [100.0, f64::NAN], [200.0, 30.0]];
        let line = LineChart { title: "PSNR, dB", x_label: "steps", points: &points, logarithmic: false };
        let html = line.html();
        assert!(
            html.contains("aria-label=\"PSNR, dB: 20 to 30, last 30\"") && !html.contains("NaN"),
            "{html}"
        );
        assert_eq!(html.matches('L').count(), 1);
        assert!(!html.contains("logarithmic") && html.contains("<span>last 30</span>"), "{html}");
        let log = LineChart { logarithmic: true, ..line.clone() }.html();
        let narrow = [[0.0, 0.15], [1.0, 0.16]];
        let log_of_narrow = LineChart { logarithmic: true, points: &narrow, ..line.clone() }.html();
        assert!(log_of_narrow.matches("class=\"grid\"").count() > 1, "an axis has numbers: {log_of_narrow}");
        assert!(log.contains("<figcaption>PSNR, dB, logarithmic axis"), "a logarithmic axis is named: {log}");
        assert_eq!(LineChart { points: &points[..2], ..line }.html(), "");
    }

    #[test]
    fn histograms_count_everything() {
        let counts = Histogram::count([-5.0, 0.1, 0.3, 0.9, 7.0, f64::NAN].into_iter(), [0.0, 1.0], 2);
        assert_eq!(counts, [3, 2]);
        let histogram = Histogram { title: "opacity", range: [0.0, 1.0], counts: &counts };
        assert!(histogram.html().contains("opacity: 5 in all"));
    }

    #[test]
    fn numbers_are_short() {
        let said = [0.0, 0.00012, 0.0123, 1.5, 34.636, 4000.0, 60_000.0, 1_234_567.0].map(format_number);
        assert_eq!(said, ["0", "1.2e-4", "0.0123", "1.5", "34.64", "4000", "60 k", "1.23 M"]);
    }
}
