//! From figures to places on the paper.

/// Maps figures to pixels.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    from: f64,
    to: f64,
    /// Pixels of the one and of the other.
    place: (f64, f64),
    logarithmic: bool,
}

impl Scale {
    /// From zero.
    pub fn linear(to: f64, place: (f64, f64)) -> Scale {
        Scale { from: 0.0, to, place, logarithmic: false }
    }

    /// Each power of ten as wide as the next. Both must be above zero.
    pub fn logarithmic(from: f64, to: f64, place: (f64, f64)) -> Scale {
        Scale { from: from.log10(), to: to.log10(), place, logarithmic: true }
    }

    /// Where a figure lies. What is outside lies at the edge.
    pub fn at(&self, figure: f64) -> f64 {
        let figure = if self.logarithmic { figure.log10() } else { figure };
        let width = self.to - self.from;
        let share = if width > 0.0 { (figure - self.from) / width } else { 0.5 };
        self.place.0 + share.clamp(0.0, 1.0) * (self.place.1 - self.place.0)
    }
}

/// Where lines are drawn across: zero and two to six multiples of a round number, of which the last is at least `highest`.
pub fn ticks(highest: f64) -> Vec<f64> {
    let highest = if highest > 0.0 { highest } else { 1.0 };
    let power = 10_f64.powf(highest.log10().floor());
    let step = [0.2, 0.25, 0.5, 1.0, 2.0]
        .map(|part| part * power)
        .into_iter()
        .find(|step| highest / step <= 4.0 + 1e-9)
        .unwrap_or(power * 2.5);
    let count = (highest / step - 1e-9).ceil() as u32;
    (0..=count).map(|number| f64::from(number) * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_scale_begins_at_zero_and_holds_to_its_edges() {
        let scale = Scale::linear(50.0, (100.0, 0.0));
        assert_eq!([0.0, 25.0, 50.0, 80.0].map(|figure| scale.at(figure)), [100.0, 50.0, 0.0, 0.0]);
    }

    #[test]
    fn powers_of_ten_are_equally_far_apart() {
        let scale = Scale::logarithmic(1e3, 1e7, (0.0, 400.0));
        let places = [1e3, 1e4, 1e5, 1e6, 1e7].map(|figure| scale.at(figure).round());
        assert_eq!(places, [0.0, 100.0, 200.0, 300.0, 400.0]);
    }

    #[test]
    fn a_scale_of_one_size_has_it_in_the_middle() {
        assert_eq!(Scale::logarithmic(1e3, 1e3, (0.0, 100.0)).at(1e3), 50.0);
    }

    #[test]
    fn ticks_are_round_few_and_reach_the_highest() {
        assert_eq!(ticks(0.9), [0.0, 0.25, 0.5, 0.75, 1.0]);
        assert_eq!(ticks(13.0), [0.0, 5.0, 10.0, 15.0]);
        assert_eq!(ticks(61_799.0), [0.0, 20_000.0, 40_000.0, 60_000.0, 80_000.0]);
        for highest in (1..10_000).map(|number| f64::from(number) * 0.037) {
            let ticks = ticks(highest);
            assert!((3..=7).contains(&ticks.len()), "{highest}: {ticks:?}");
            assert!(ticks[ticks.len() - 1] >= highest * (1.0 - 1e-6), "{highest}: {ticks:?}");
        }
    }

    #[test]
    fn nothing_measured_still_has_ticks() {
        assert_eq!(ticks(0.0).first(), Some(&0.0));
        assert!(ticks(0.0).len() >= 3);
    }
}
