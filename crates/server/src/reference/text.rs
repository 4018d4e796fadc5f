//! Descriptions as a page shows them: paragraphs, with code between backticks.

/// A part of a sentence.
pub struct Piece {
    /// Whether it is code.
    pub is_code: bool,
    /// Its words.
    pub words: String,
}

/// A paragraph, or a line.
pub type Line = Vec<Piece>;

/// One line of text.
pub fn line(text: &str) -> Line {
    let parts = text.split('`').enumerate();
    parts
        .filter(|(_, words)| !words.is_empty())
        .map(|(index, words)| Piece { is_code: index % 2 == 1, words: words.replace('\n', " ") })
        .collect()
}

/// Paragraphs, which an empty line divides.
pub fn paragraphs(text: &str) -> Vec<Line> {
    text.split("\n\n").map(str::trim).filter(|part| !part.is_empty()).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_between_backticks_is_code() {
        let pieces = line("Send `a` or\n`b`.");
        let shown: Vec<_> = pieces.iter().map(|p| (p.is_code, p.words.as_str())).collect();
        let wanted = [(false, "Send "), (true, "a"), (false, " or "), (true, "b"), (false, ".")];
        assert_eq!(shown, wanted);
        assert_eq!(paragraphs("a\nb\n\nc").len(), 2);
    }
}
