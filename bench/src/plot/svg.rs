//! Elements of a picture, and the paper that they are on. Colours are classes, so that one style serves by day and by
//! night.

use std::fmt::Write;

/// A database or queue has the same colour everywhere.
const STYLE: &str = "
  text { font: 12px system-ui, -apple-system, 'Segoe UI', sans-serif; fill: #1f2328 }
  .title { font-size: 14px; font-weight: 600 }
  .head { font-weight: 600 }
  .soft { fill: #59636e; font-size: 11px }
  .paper { fill: #ffffff; stroke: #d1d9e0 }
  .grid { stroke: #e4e9ee; stroke-width: 1 }
  .axis { stroke: #9aa4af; stroke-width: 1 }
  .must { stroke: #59636e; stroke-width: 1.5; stroke-dasharray: 4 3 }
  .spread { stroke: #1f2328; stroke-width: 1.5; opacity: .55 }
  polyline { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round }
  .s1 { fill: #0969da } polyline.s1 { fill: none; stroke: #0969da }
  .s2 { fill: #bc4c00 } polyline.s2 { fill: none; stroke: #bc4c00 }
  .s0 { fill: #9aa4af } polyline.s0 { fill: none; stroke: #9aa4af }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .soft { fill: #9198a1 }
    .paper { fill: #0d1117; stroke: #3d444d }
    .grid { stroke: #252b33 }
    .axis { stroke: #656c76 }
    .must { stroke: #9198a1 }
    .spread { stroke: #e6edf3 }
    .s1 { fill: #4493f8 } polyline.s1 { fill: none; stroke: #4493f8 }
    .s2 { fill: #f0883e } polyline.s2 { fill: none; stroke: #f0883e }
    .s0 { fill: #656c76 } polyline.s0 { fill: none; stroke: #656c76 }
  }
";

/// Of which side of its place a text lies.
#[derive(Debug, Clone, Copy)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// A picture that grows.
#[derive(Debug)]
pub struct Picture {
    size: (f64, f64),
    title: String,
    elements: String,
}

impl Picture {
    /// An empty one.
    pub fn new(width: f64, height: f64, title: &str) -> Picture {
        Picture { size: (width, height), title: title.to_owned(), elements: String::new() }
    }

    /// Writes text with its baseline's end there.
    pub fn text(&mut self, x: f64, y: f64, anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escaped(text);
        self.element(&format!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" class=\"{class}\">{text}</text>"
        ));
    }

    /// Draws a straight line.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.element(&format!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" class=\"{class}\"/>"
        ));
    }

    /// Draws a filled box.
    pub fn bar(&mut self, x: f64, y: f64, width: f64, height: f64, class: &str) {
        self.element(&format!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"2\" \
             class=\"{class}\"/>"
        ));
    }

    /// Draws a line through places, with a dot at each.
    pub fn curve(&mut self, places: &[(f64, f64)], class: &str) {
        let points: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.element(&format!("<polyline points=\"{}\" class=\"{class}\"/>", points.join(" ")));
        for (x, y) in places {
            self.element(&format!(
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\" class=\"{class}\"/>"
            ));
        }
    }

    /// The whole as a file.
    pub fn text_of_file(self) -> String {
        let (width, height) = self.size;
        let title = escaped(&self.title);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
             width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\" aria-label=\"{title}\">\n\
             <style>{STYLE}</style>\n\
             <rect x=\"0.5\" y=\"0.5\" width=\"{:.0}\" height=\"{:.0}\" rx=\"6\" class=\"paper\"/>\n\
             <text x=\"16\" y=\"26\" class=\"title\">{title}</text>\n{}</svg>\n",
            width - 1.0,
            height - 1.0,
            self.elements
        )
    }

    fn element(&mut self, element: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.elements, "{element}");
    }
}

/// The colour of a database; other queues share one.
pub fn class_of(on: &str) -> &'static str {
    match on {
        "SQLite" => "s1",
        "PostgreSQL" => "s2",
        _ => "s0",
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_end_its_element() {
        let mut picture = Picture::new(10.0, 10.0, "a \"b\"");
        picture.text(0.0, 0.0, Anchor::Start, "", "p99 < 5 & more");
        let file = picture.text_of_file();
        assert!(file.contains(">p99 &lt; 5 &amp; more</text>"));
        assert!(file.contains("aria-label=\"a &quot;b&quot;\""));
    }
}
