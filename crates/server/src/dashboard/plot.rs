//! Plots, drawn as SVG by the server: no script, no inline style.

use std::fmt::Write;

use askama::filters::HtmlSafe;

/// Markup that we drew ourselves, out of numbers and escaped labels.
pub struct Svg(String);

impl std::fmt::Display for Svg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl askama::FastWritable for Svg {
    fn write_into(&self, dest: &mut dyn Write, _values: &dyn askama::Values) -> askama::Result<()> {
        Ok(dest.write_str(&self.0)?)
    }
}

impl HtmlSafe for Svg {}

/// A line without axes, for beside a figure. What was not measured leaves a gap.
pub fn spark(values: &[Option<f64>], what: &str) -> Svg {
    const WIDTH: f64 = 120.0;
    const HEIGHT: f64 = 28.0;
    let top = top(values.iter().flatten().copied());
    let mut svg = format!(
        "<svg class=\"spark\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\">\
         <title>{}</title>",
        escaped(what)
    );
    let at = |index: usize| x(index, values.len(), 0.0, WIDTH);
    let y = |value: f64| HEIGHT - 2.0 - value / top * (HEIGHT - 4.0);
    for piece in pieces(values) {
        let _ = write!(svg, "<path class=\"area\" d=\"M{:.1} {HEIGHT}", at(piece[0].0));
        for (index, value) in &piece {
            let _ = write!(svg, "L{:.1} {:.1}", at(*index), y(*value));
        }
        let _ = write!(svg, "L{:.1} {HEIGHT}Z\"/>", at(piece[piece.len() - 1].0));
        let _ = write!(svg, "<path class=\"line\" d=\"{}\"/>", path(&piece, &at, &y));
    }
    svg.push_str("</svg>");
    Svg(svg)
}

/// One line of a plot.
pub struct Series<'a> {
    /// What it is called.
    pub name: &'a str,
    /// Its values; those that were not measured leave a gap.
    pub values: Vec<Option<f64>>,
}

/// A plot with a light grid, at most three series with direct labels, and a value for each point on hover. Its scale
/// ends at `least` or above, so that little, or nothing, looks like it.
pub fn plot(
    series: &[Series<'_>],
    times: &[String],
    least: f64,
    unit: impl Fn(f64) -> String,
) -> Svg {
    const WIDTH: f64 = 520.0;
    const HEIGHT: f64 = 170.0;
    const LEFT: f64 = 56.0;
    const RIGHT: f64 = 74.0;
    const TOP: f64 = 10.0;
    const BOTTOM: f64 = 24.0;
    let most = top(series.iter().flat_map(|line| line.values.iter().flatten().copied()));
    let top = nice(most.max(least));
    let names: Vec<&str> = series.iter().map(|line| line.name).collect();
    let mut svg = format!(
        "<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\"><title>{}</title>",
        escaped(&names.join(", "))
    );
    let y = |value: f64| HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM);
    for step in 0..=4 {
        let value = top * f64::from(step) / 4.0;
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>\
             <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            y(value),
            y(value),
            LEFT - 6.0,
            y(value) + 3.5,
            escaped(&unit(value))
        );
    }
    let points = times.len();
    let at = |index: usize| x(index, points, LEFT, WIDTH - RIGHT);
    for index in [0, points / 2, points.saturating_sub(1)] {
        let Some(time) = times.get(index) else { continue };
        let anchor = if index == 0 {
            "start"
        } else if index + 1 == points {
            "end"
        } else {
            "middle"
        };
        let _ = write!(
            svg,
            "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
            at(index),
            HEIGHT - 6.0,
            escaped(time)
        );
    }
    let mut labels: Vec<f64> = Vec::new();
    for (number, line) in series.iter().take(3).enumerate() {
        for piece in pieces(&line.values) {
            let _ = write!(svg, "<path class=\"line s{number}\" d=\"{}\"/>", path(&piece, &at, &y));
        }
        let last = line.values.iter().rev().flatten().next().copied().unwrap_or(0.0);
        let mut label = y(last) + 3.5;
        while labels.iter().any(|taken| (taken - label).abs() < 13.0) {
            label -= 13.0;
        }
        labels.push(label);
        let _ = write!(
            svg,
            "<text class=\"label s{number}\" x=\"{:.1}\" y=\"{label:.1}\">{}</text>",
            WIDTH - RIGHT + 6.0,
            escaped(line.name)
        );
        for (index, value) in line.values.iter().enumerate() {
            let (Some(value), Some(time)) = (value, times.get(index)) else { continue };
            let _ = write!(
                svg,
                "<circle class=\"dot s{number}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"5\"><title>{} {}: {}</title></circle>",
                at(index),
                y(*value),
                escaped(time),
                escaped(line.name),
                escaped(&unit(*value))
            );
        }
    }
    svg.push_str("</svg>");
    Svg(svg)
}

/// Bars beside each other in time: how long the parts of one attempt took.
pub fn waterfall(parts: &[(&str, f64)]) -> Svg {
    const WIDTH: f64 = 360.0;
    const ROW: f64 = 18.0;
    let total: f64 = parts.iter().map(|(_, ms)| ms).sum::<f64>().max(0.001);
    let height = ROW * parts.len() as f64;
    let mut svg = format!(
        "<svg class=\"waterfall\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\"><title>How long each part took</title>"
    );
    let mut begun = 0.0;
    for (row, (name, ms)) in parts.iter().enumerate() {
        let top = ROW * row as f64;
        let _ = write!(
            svg,
            "<text class=\"tick\" x=\"0\" y=\"{:.1}\">{}</text>\
             <rect class=\"bar\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"8\" rx=\"2\"/>\
             <text class=\"tick\" x=\"{WIDTH}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            top + 12.0,
            escaped(name),
            80.0 + begun / total * 200.0,
            top + 5.0,
            (ms / total * 200.0).max(1.5),
            top + 12.0,
            escaped(&super::words::millis(*ms))
        );
        begun += ms;
    }
    svg.push_str("</svg>");
    Svg(svg)
}

fn x(index: usize, points: usize, left: f64, right: f64) -> f64 {
    let last = points.saturating_sub(1).max(1) as f64;
    left + (right - left) * index as f64 / last
}

/// Runs of values without a gap.
fn pieces(values: &[Option<f64>]) -> Vec<Vec<(usize, f64)>> {
    let mut pieces: Vec<Vec<(usize, f64)>> = Vec::new();
    let mut open = false;
    for (index, value) in values.iter().enumerate() {
        let Some(value) = value else {
            open = false;
            continue;
        };
        if !open {
            pieces.push(Vec::new());
            open = true;
        }
        if let Some(piece) = pieces.last_mut() {
            piece.push((index, *value));
        }
    }
    pieces
}

fn path(piece: &[(usize, f64)], at: &dyn Fn(usize) -> f64, y: &dyn Fn(f64) -> f64) -> String {
    let mut path = String::new();
    // A point alone is a short stroke, else nobody would see it.
    if let [(index, value)] = piece {
        return format!("M{:.1} {:.1}h3", at(*index) - 1.5, y(*value));
    }
    for (number, (index, value)) in piece.iter().enumerate() {
        let letter = if number == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{letter}{:.1} {:.1}", at(*index), y(*value));
    }
    path
}

fn top(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, f64::max).max(1e-9)
}

/// The next round number, so that the grid reads well.
fn nice(top: f64) -> f64 {
    let power = 10f64.powf(top.log10().floor());
    let steps = [1.0, 2.0, 4.0, 5.0, 10.0];
    let step = steps.into_iter().find(|step| step * power >= top);
    step.unwrap_or(10.0) * power
}

fn escaped(text: &str) -> String {
    let escaped = askama::filters::escape(text, askama::filters::Html);
    escaped.map_or_else(|_| String::new(), |text| text.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_cannot_become_markup() {
        let line = Series { name: "<script>", values: vec![Some(1.0), None, Some(3.0)] };
        let times = vec!["a".to_owned(), "b".to_owned(), "<b>".to_owned()];
        let svg = plot(&[line], &times, 1.0, |value| format!("{value} <")).to_string();
        assert!(!svg.contains("<script>") && !svg.contains("<b>"), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 2, "what was not measured has no point");
        assert_eq!(svg.matches("class=\"line").count(), 2, "and leaves a gap");
    }

    #[test]
    fn nothing_measured_draws_nothing_and_fails_at_nothing() {
        assert!(!spark(&[], "none").to_string().contains("NaN"));
        assert!(!spark(&[None, None], "none").to_string().contains("path"));
        assert!(!plot(&[], &[], 1.0, |value| value.to_string()).to_string().contains("NaN"));
    }
}
