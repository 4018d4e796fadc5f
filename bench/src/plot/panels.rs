//! Curves over sizes: a panel for each figure, in it a line for each database, with its name at its end.

use super::scale::{Scale, ticks};
use super::svg::{Anchor, Picture, class_of};
use crate::curve::{Curve, sizes};

const COLUMNS: usize = 2;
const WIDTH: f64 = 760.0;
const TOP: f64 = 62.0;
const PANEL: (f64, f64) = (372.0, 184.0);
/// Within a panel: left of the axis, right of it for names, above it and below it.
const INSET: (f64, f64, f64, f64) = (52.0, 92.0, 30.0, 34.0);
/// Names at the ends of lines keep this distance.
const NAMES_APART: f64 = 13.0;

/// Draws them, panels in the order in which they come first.
pub fn draw(title: &str, curves: &[&Curve]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for curve in curves {
        if !names.contains(&curve.name.as_str()) {
            names.push(&curve.name);
        }
    }
    let rows = names.len().div_ceil(COLUMNS);
    let mut picture = Picture::new(WIDTH, TOP + PANEL.1 * rows as f64 + 12.0, title);
    let note =
        "by how many events with finished jobs are in the database, and as many jobs that wait";
    picture.text(16.0, 44.0, Anchor::Start, "soft", note);
    let all: Vec<Curve> = curves.iter().map(|curve| (*curve).clone()).collect();
    let all = sizes(&all);
    for (place, name) in names.iter().enumerate() {
        let corner =
            (8.0 + PANEL.0 * (place % COLUMNS) as f64, TOP + PANEL.1 * (place / COLUMNS) as f64);
        let own: Vec<&Curve> = curves.iter().copied().filter(|curve| curve.name == *name).collect();
        panel(&mut picture, corner, &own, &all);
    }
    picture.text_of_file()
}

fn panel(picture: &mut Picture, corner: (f64, f64), curves: &[&Curve], sizes: &[usize]) {
    let (Some(head), Some(smallest), Some(largest)) =
        (curves.first(), sizes.first().copied(), sizes.last().copied())
    else {
        return;
    };
    let (left, right) = (corner.0 + INSET.0, corner.0 + PANEL.0 - INSET.1);
    let (top, floor) = (corner.1 + INSET.2, corner.1 + PANEL.1 - INSET.3);
    picture.text(left - 36.0, corner.1 + 16.0, Anchor::Start, "head", &head.name.replace('`', ""));
    let must = head.must();
    if !must.is_empty() {
        let text = format!("must {must}");
        let edge = corner.0 + PANEL.0 - 16.0;
        picture.text(edge, corner.1 + 16.0, Anchor::End, "soft", &text);
    }
    let figures = curves.iter().flat_map(|curve| curve.medians());
    let ticks = ticks(figures.map(|(_, median)| median).fold(0.0, f64::max));
    let up = Scale::linear(ticks.last().copied().unwrap_or(1.0), (floor, top));
    let along = Scale::logarithmic(smallest as f64, largest as f64, (left, right));
    for tick in &ticks {
        let y = up.at(*tick);
        picture.line((left, y), (right, y), if *tick == 0.0 { "axis" } else { "grid" });
        picture.text(left - 6.0, y + 4.0, Anchor::End, "soft", &head.unit.text(*tick));
    }
    for size in sizes {
        picture.text(along.at(*size as f64), floor + 16.0, Anchor::Middle, "soft", &short(*size));
    }
    let mut ends = Vec::new();
    for curve in curves {
        let places = curve.medians().into_iter();
        let places: Vec<(f64, f64)> =
            places.map(|(rows, median)| (along.at(rows as f64), up.at(median))).collect();
        picture.curve(&places, class_of(&curve.on));
        if let Some(end) = places.last() {
            ends.push((end.0, end.1, curve.on.as_str()));
        }
    }
    for (x, y, name) in apart(ends) {
        picture.text(x + 8.0, y + 4.0, Anchor::Start, class_of(name), name);
    }
}

/// The names at the ends of lines, moved so that none lies on another.
fn apart(mut ends: Vec<(f64, f64, &str)>) -> Vec<(f64, f64, &str)> {
    ends.sort_by(|one, other| one.1.total_cmp(&other.1));
    for place in 1..ends.len() {
        let lack = NAMES_APART - (ends[place].1 - ends[place - 1].1);
        if lack > 0.0 {
            ends[place - 1].1 -= lack / 2.0;
            ends[place].1 += lack / 2.0;
        }
    }
    ends
}

/// A size in few letters.
fn short(size: usize) -> String {
    match size {
        1_000_000.. => format!("{}M", size / 1_000_000),
        1_000.. => format!("{}k", size / 1_000),
        _ => size.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Unit;

    #[test]
    fn each_figure_has_a_panel_with_a_line_for_each_database() {
        let curve = |name: &str, on: &str| {
            let mut curve = Curve::new(name, on, Unit::Millis);
            curve.at(1_000, vec![1.0]);
            curve.at(10_000_000, vec![2.0]);
            curve
        };
        let curves =
            [curve("inbox", "SQLite"), curve("inbox", "PostgreSQL"), curve("jobs", "SQLite")];
        let file = draw("x", &curves.iter().collect::<Vec<_>>());
        assert_eq!(file.matches("<polyline").count(), 3);
        assert_eq!(file.matches("class=\"head\"").count(), 2);
        assert!(file.contains(">1k</text>") && file.contains(">10M</text>"));
    }

    #[test]
    fn names_at_the_ends_of_lines_do_not_lie_on_each_other() {
        let ends = apart(vec![(0.0, 52.0, "b"), (0.0, 50.0, "a")]);
        assert_eq!(ends, [(0.0, 44.5, "a"), (0.0, 57.5, "b")]);
    }
}
