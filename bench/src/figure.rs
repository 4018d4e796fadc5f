//! A figure with the target it is held against.

use std::fmt;

use crate::plot::Plot;
use crate::plot::bars::Bar;
use crate::stats::Spread;
use crate::world::gateway::Kind;

/// What a figure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Ratio,
    PerSecond,
    Millis,
    Micros,
    Megabytes,
    Bytes,
    /// A number of things.
    Count,
}

impl Unit {
    /// A figure with its unit.
    pub fn text(self, value: f64) -> String {
        match self {
            Unit::Ratio => format!("{value:.2}"),
            Unit::PerSecond => format!("{}/s", thousands(value)),
            Unit::Millis => format!("{value:.1} ms"),
            Unit::Micros => format!("{value:.0} µs"),
            Unit::Megabytes => format!("{value:.0} MB"),
            Unit::Count => format!("{value:.1}"),
            Unit::Bytes => format!("{} B", thousands(value)),
        }
    }
}

/// A whole number with its digits in groups of three.
pub fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// On which side of its bound a figure should lie.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Target {
    /// This or more.
    AtLeast(f64),
    /// Less than this.
    Below(f64),
    /// This or less.
    AtMost(f64),
}

impl Target {
    /// The bound itself.
    pub fn bound(self) -> f64 {
        match self {
            Target::AtLeast(bound) | Target::Below(bound) | Target::AtMost(bound) => bound,
        }
    }

    /// Whether a figure lies on the right side.
    pub fn is_met(self, value: f64) -> bool {
        match self {
            Target::AtLeast(bound) => value >= bound,
            Target::Below(bound) => value < bound,
            Target::AtMost(bound) => value <= bound,
        }
    }

    /// The bound as text.
    pub fn text(self, unit: Unit) -> String {
        match self {
            Target::AtLeast(bound) => format!("≥ {}", unit.text(bound)),
            Target::Below(bound) => format!("< {}", unit.text(bound)),
            Target::AtMost(bound) => format!("≤ {}", unit.text(bound)),
        }
    }
}

/// One figure over all rounds.
#[derive(Debug, Clone)]
pub struct Figure {
    name: String,
    on: String,
    unit: Unit,
    rounds: Vec<f64>,
    must: Option<Target>,
    aim: Option<Target>,
    drawn: Option<(Plot, String)>,
}

impl Figure {
    /// A figure without a target.
    pub fn new(
        name: impl Into<String>,
        on: impl fmt::Display,
        unit: Unit,
        rounds: Vec<f64>,
    ) -> Figure {
        let (name, on) = (name.into(), on.to_string());
        Figure { name, on, unit, rounds, must: None, aim: None, drawn: None }
    }

    /// With what it must reach and what it should.
    pub fn held_to(mut self, must: Target, aim: Target) -> Figure {
        (self.must, self.aim) = (Some(must), Some(aim));
        self
    }

    /// With what it must reach, where nothing better is asked for.
    pub fn bound_to(mut self, must: Target) -> Figure {
        self.must = Some(must);
        self
    }

    /// Drawn as a bar there, with this label.
    pub fn drawn(mut self, plot: Plot, label: impl Into<String>) -> Figure {
        self.drawn = Some((plot, label.into()));
        self
    }

    /// Its bar in a plot, if it is drawn there.
    pub fn bar(&self, plot: Plot) -> Option<Bar> {
        let (_, label) = self.drawn.as_ref().filter(|(drawn, _)| *drawn == plot)?;
        Some(Bar {
            label: label.clone(),
            on: self.on.clone(),
            unit: self.unit,
            spread: Spread::of(self.rounds.iter().copied()),
            must: self.must,
        })
    }

    /// Whether it says what the machine could do if nothing were kept.
    pub fn is_of_a_ceiling(&self) -> bool {
        [Kind::Bare, Kind::Ceiling].iter().any(|kind| self.on == kind.to_string())
    }

    /// The median of its rounds.
    pub fn median(&self) -> f64 {
        Spread::of(self.rounds.iter().copied()).median
    }

    /// Its cells in a table: what, on what, median, spread, must, aim, verdict.
    pub fn cells(&self) -> [String; 7] {
        let spread = Spread::of(self.rounds.iter().copied());
        let text = |value| self.unit.text(value);
        let target = |target: Option<Target>| target.map_or(String::new(), |t| t.text(self.unit));
        [
            self.name.clone(),
            self.on.clone(),
            text(spread.median),
            format!("{} – {}", text(spread.low), text(spread.high)),
            target(self.must),
            target(self.aim),
            self.verdict(),
        ]
    }

    fn verdict(&self) -> String {
        let median = self.median();
        let word = match (self.must, self.aim) {
            (_, Some(aim)) if aim.is_met(median) => "aim",
            (Some(must), _) if must.is_met(median) => "must",
            (Some(_), _) => "**misses**",
            (None, _) => "",
        };
        word.to_owned()
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [name, on, median, spread, must, aim, verdict] = self.cells();
        write!(f, "{name:<62} {on:<26}{median:>12}  ({spread})")?;
        if !must.is_empty() {
            let aim = if aim.is_empty() { aim } else { format!(", aim {aim}") };
            write!(f, "  must {must}{aim}: {}", verdict.replace('*', ""))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(value: f64) -> Figure {
        Figure::new("x", Kind::Sqlite, Unit::Ratio, vec![value])
            .held_to(Target::AtLeast(0.4), Target::AtLeast(0.6))
    }

    #[test]
    fn a_verdict_names_the_higher_target_that_is_met() {
        assert_eq!(ratio(0.7).verdict(), "aim");
        assert_eq!(ratio(0.5).verdict(), "must");
        assert_eq!(ratio(0.3).verdict(), "**misses**");
    }

    #[test]
    fn large_numbers_are_grouped() {
        assert_eq!(thousands(1_234_567.0), "1,234,567");
        assert_eq!(thousands(999.0), "999");
    }
}
