//! A figure at each size that a database grew to.

use std::fmt;

use crate::figure::{Target, Unit, thousands};
use crate::plot::Plot;
use crate::stats::Spread;

/// One figure over sizes, each over all rounds.
#[derive(Debug, Clone)]
pub struct Curve {
    /// Where it is drawn, if anywhere.
    pub plot: Option<Plot>,
    /// Of what.
    pub name: String,
    /// On which database.
    pub on: String,
    /// What it counts.
    pub unit: Unit,
    points: Vec<(usize, Vec<f64>)>,
    must: Option<Target>,
}

impl Curve {
    /// A curve without points.
    pub fn new(name: impl Into<String>, on: impl fmt::Display, unit: Unit) -> Curve {
        let (name, on) = (name.into(), on.to_string());
        Curve { plot: None, name, on, unit, points: Vec::new(), must: None }
    }

    /// With what it must reach at every size.
    pub fn bound_to(mut self, must: Target) -> Curve {
        self.must = Some(must);
        self
    }

    /// Drawn there.
    pub fn drawn(mut self, plot: Plot) -> Curve {
        self.plot = Some(plot);
        self
    }

    /// Adds what the rounds saw at a size.
    pub fn at(&mut self, rows: usize, rounds: Vec<f64>) {
        self.points.push((rows, rounds));
    }

    /// The sizes.
    pub fn sizes(&self) -> impl Iterator<Item = usize> {
        self.points.iter().map(|(rows, _)| *rows)
    }

    /// The median at each size.
    pub fn medians(&self) -> Vec<(usize, f64)> {
        let median = |rounds: &[f64]| Spread::of(rounds.iter().copied()).median;
        self.points.iter().map(|(rows, rounds)| (*rows, median(rounds))).collect()
    }

    /// What it must reach, as text.
    pub fn must(&self) -> String {
        self.must.map_or(String::new(), |must| must.text(self.unit))
    }

    /// Its cells in a table with these sizes: what, on what, the medians, must, verdict.
    pub fn cells(&self, sizes: &[usize]) -> Vec<String> {
        let medians = self.medians();
        let at = |size: &usize| {
            let found = medians.iter().find(|(rows, _)| rows == size);
            found.map_or(String::new(), |(_, median)| self.unit.text(*median))
        };
        let mut cells = vec![self.name.clone(), self.on.clone()];
        cells.extend(sizes.iter().map(at));
        cells.extend([self.must(), self.verdict().to_owned()]);
        cells
    }

    fn verdict(&self) -> &'static str {
        match self.must {
            None => "",
            Some(must) if self.medians().iter().all(|(_, median)| must.is_met(*median)) => "must",
            Some(_) => "**misses**",
        }
    }
}

/// All sizes of some curves, from the smallest on.
pub fn sizes(curves: &[Curve]) -> Vec<usize> {
    let mut sizes: Vec<usize> = curves.iter().flat_map(Curve::sizes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

impl fmt::Display for Curve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<40} {:<11}", self.name, self.on)?;
        for (rows, median) in self.medians() {
            write!(f, "  {}: {}", thousands(rows as f64), self.unit.text(median))?;
        }
        if self.must.is_some() {
            write!(f, "  must {}: {}", self.must(), self.verdict().replace('*', ""))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(last: f64) -> Curve {
        let mut curve = Curve::new("x", "SQLite", Unit::Ratio).bound_to(Target::AtLeast(0.7));
        curve.at(1_000, vec![1.0]);
        curve.at(10_000, vec![last, last, 9.0]);
        curve
    }

    #[test]
    fn a_curve_must_stay_within_its_bound_at_every_size() {
        assert_eq!(curve(0.8).verdict(), "must");
        assert_eq!(curve(0.6).verdict(), "**misses**");
    }

    #[test]
    fn a_size_at_which_nothing_was_measured_stays_empty() {
        let cells = curve(0.8).cells(&[1_000, 10_000, 100_000]);
        assert_eq!(cells, ["x", "SQLite", "1.00", "0.80", "", "≥ 0.70", "must"]);
    }
}
