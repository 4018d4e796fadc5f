//! One thing in detail: labels and values, two to a line where they belong together.

use std::borrow::Cow;

use super::{Cell, Paint, Tone};

const LABEL_WIDTH: usize = 16;
const LEFT_WIDTH: usize = 29;
const SIDE_LABEL_WIDTH: usize = 8;
/// Between a left value that is too wide for its column and what stands beside it.
const WIDE_GAP: usize = 6;

/// A list of labelled values.
#[derive(Default)]
pub struct Fields {
    lines: Vec<Line>,
}

struct Line {
    label: Cow<'static, str>,
    value: Cell,
    beside: Option<(&'static str, Cell)>,
}

impl Fields {
    /// Adds a line.
    pub fn line(mut self, label: impl Into<Cow<'static, str>>, value: Cell) -> Fields {
        self.lines.push(Line { label: label.into(), value, beside: None });
        self
    }

    /// Adds a line if there is something to say.
    pub fn line_if(self, label: &'static str, value: Option<Cell>) -> Fields {
        match value {
            Some(value) => self.line(label, value),
            None => self,
        }
    }

    /// Adds a line with a second value beside the first.
    pub fn pair(
        mut self,
        label: &'static str,
        value: Cell,
        beside_label: &'static str,
        beside: Cell,
    ) -> Fields {
        self.lines.push(Line { label: label.into(), value, beside: Some((beside_label, beside)) });
        self
    }

    /// As it is printed.
    pub fn render(&self, paint: Paint) -> String {
        let mut text = String::new();
        for line in &self.lines {
            let label = Cell::toned(Tone::Dim, &line.label);
            // A label that is the server's word may be longer than ours.
            text.push_str(&label.padded(paint, LABEL_WIDTH.max(label.width() + 1)));
            match &line.beside {
                None => text.push_str(&line.value.render(paint)),
                Some((beside_label, beside)) => {
                    let width = match line.value.width() {
                        width if width + 2 <= LEFT_WIDTH => LEFT_WIDTH,
                        width => width + WIDE_GAP,
                    };
                    text.push_str(&line.value.padded(paint, width));
                    let label = Cell::toned(Tone::Dim, beside_label);
                    text.push_str(&label.padded(paint, SIDE_LABEL_WIDTH));
                    text.push(' ');
                    text.push_str(&beside.render(paint));
                }
            }
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_line_up_as_in_the_specs_sample() {
        let fields = Fields::default()
            .pair("provider", Cell::new("github"), "tenant", Cell::new("acme"))
            .pair(
                "dedup key",
                Cell::new("72d3162e-cc78-11e3-81ab-4c9367dc0958"),
                "receipts",
                Cell::new("3: accepted"),
            )
            .line("last error", Cell::new("GitHub API 502"));
        assert_eq!(
            fields.render(Paint(false)),
            "provider        github                       tenant   acme\n\
             dedup key       72d3162e-cc78-11e3-81ab-4c9367dc0958      receipts 3: accepted\n\
             last error      GitHub API 502\n"
        );
    }
}
