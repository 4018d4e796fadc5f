//! Bars, one below the other, each with its median at its end, its spread over the rounds, and a mark at what it must
//! reach.

use super::scale::{Scale, ticks};
use super::svg::{Anchor, Picture, class_of};
use crate::figure::{Target, Unit};
use crate::stats::Spread;

const WIDTH: f64 = 760.0;
const LEFT: f64 = 190.0;
/// Room for the figure at the end of the longest bar.
const RIGHT: f64 = 84.0;
const TOP: f64 = 62.0;
const STEP: f64 = 30.0;
const THICK: f64 = 16.0;
const BOTTOM: f64 = 34.0;

/// One bar.
#[derive(Debug, Clone)]
pub struct Bar {
    pub label: String,
    pub on: String,
    pub unit: Unit,
    pub spread: Spread,
    pub must: Option<Target>,
}

/// Draws them, in their order.
pub fn draw(title: &str, bars: &[Bar]) -> String {
    let height = TOP + STEP * bars.len() as f64 + BOTTOM;
    let mut picture = Picture::new(WIDTH, height, title);
    let highest = bars.iter().map(|bar| bar.spread.high.max(bound(bar).unwrap_or(0.0)));
    let ticks = ticks(highest.fold(0.0, f64::max));
    let most = ticks.last().copied().unwrap_or(1.0);
    let scale = Scale::linear(most, (LEFT, WIDTH - RIGHT));
    let floor = TOP + STEP * bars.len() as f64;
    for tick in &ticks {
        let x = scale.at(*tick);
        picture.line((x, TOP), (x, floor), if *tick == 0.0 { "axis" } else { "grid" });
        let unit = bars.first().map_or(Unit::Ratio, |bar| bar.unit);
        picture.text(x, floor + 18.0, Anchor::Middle, "soft", &unit.text(*tick));
    }
    for (place, bar) in bars.iter().enumerate() {
        let middle = TOP + STEP * (place as f64 + 0.5);
        let (end, top) = (scale.at(bar.spread.median), middle - THICK / 2.0);
        picture.text(LEFT - 10.0, middle + 4.0, Anchor::End, "", &bar.label);
        picture.bar(LEFT, top, end - LEFT, THICK, class_of(&bar.on));
        let (low, high) = (scale.at(bar.spread.low), scale.at(bar.spread.high));
        picture.line((low, middle), (high, middle), "spread");
        let mut text = end.max(high);
        if let Some(bound) = bound(bar) {
            let x = scale.at(bound);
            picture.line((x, top - 4.0), (x, top + THICK + 4.0), "must");
            text = text.max(x);
        }
        let median = bar.unit.text(bar.spread.median);
        picture.text(text + 8.0, middle + 4.0, Anchor::Start, "", &median);
    }
    let bounded = bars.iter().any(|bar| bar.must.is_some());
    let note = "bar: median; line: lowest to highest round";
    let dashed = if bounded { "; dashed: what it must reach" } else { "" };
    picture.text(16.0, 44.0, Anchor::Start, "soft", &format!("{note}{dashed}"));
    picture.text_of_file()
}

fn bound(bar: &Bar) -> Option<f64> {
    bar.must.map(Target::bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_its_median_says() {
        let spread = |median| Spread { median, low: median, high: median };
        let bar = |label: &str, median| Bar {
            label: label.to_owned(),
            on: "SQLite".to_owned(),
            unit: Unit::PerSecond,
            spread: spread(median),
            must: None,
        };
        let file = draw("x", &[bar("one", 40_000.0), bar("two", 20_000.0)]);
        let full = WIDTH - LEFT - RIGHT;
        assert!(file.contains(&format!("width=\"{full:.1}\"")));
        assert!(file.contains(&format!("width=\"{:.1}\"", full / 2.0)));
        assert!(file.contains(">40,000/s</text>"));
    }
}
