//! Cutting a text at a platform's limit: at a paragraph, else a line, else a word, never inside a character.
//!
//! The Markdown is cut, not what it becomes, so that every part is well formed by itself. A fenced block that does
//! not fit is closed at the end of one part and opened again in the next.

/// A fence longer than this is not carried over a cut: it would leave no room for what it holds.
const FENCE_BYTES_MAX: usize = 40;

/// The length that counts: UTF-16 units, as Telegram counts, which is never less than characters.
pub(super) fn units(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

/// The parts of a text, each written with `format` and then at most `limit` units long; none is blank.
pub(super) fn split(text: &str, limit: usize, format: impl Fn(&str) -> String) -> Vec<String> {
    let text = text.replace("\r\n", "\n");
    let mut rest = text.trim_end();
    let mut fence: Option<Fence> = None;
    let mut parts = Vec::new();
    while !rest.trim().is_empty() {
        // A fence that ends just where the cut was needs no part of its own.
        if let Some(after) = fence.as_ref().and_then(|fence| fence.closed_at_start(rest)) {
            (rest, fence) = (after, None);
            continue;
        }
        let taken = take(rest, fence.as_ref(), limit, &format);
        if !taken.part.trim().is_empty() {
            parts.push(taken.part);
        }
        rest = taken.rest;
        fence = taken.fence;
    }
    parts
}

/// The next part, and what is left for the others.
struct Taken<'t> {
    part: String,
    rest: &'t str,
    fence: Option<Fence>,
}

fn take<'t>(
    rest: &'t str,
    fence: Option<&Fence>,
    limit: usize,
    format: &impl Fn(&str) -> String,
) -> Taken<'t> {
    let mut budget = limit;
    loop {
        let cut = Cut::within(rest, budget, fence);
        let piece = rest[..cut.at].trim_end();
        if piece.is_empty() {
            let rest = rest.trim_start();
            return Taken { part: String::new(), rest, fence: fence.cloned() };
        }
        let still_open = open_at_end(piece, fence);
        let part = format(&fenced(piece, fence, still_open.as_ref().map(|(fence, _)| fence)));
        let length = units(&part);
        if length <= limit || budget == 1 {
            let after = &rest[cut.at..];
            let rest = match cut.at_line {
                // What stands before the first word of a line is its indentation.
                true => after.trim_start_matches('\n'),
                false => after.trim_start(),
            };
            return Taken { part, rest, fence: still_open.map(|(fence, _)| fence) };
        }
        // Formatting made it longer: take that much less, and at least one unit less, so that this ends.
        budget = (budget * limit / length).min(budget - 1).max(1);
    }
}

/// A piece with the fences that the parts before and after it need.
fn fenced(piece: &str, before: Option<&Fence>, after: Option<&Fence>) -> String {
    let mut text = String::with_capacity(piece.len());
    if let Some(fence) = before {
        text.push_str(&fence.line);
        text.push('\n');
    }
    text.push_str(piece);
    if let Some(fence) = after {
        text.push('\n');
        text.push_str(&fence.marks);
    }
    text
}

/// Where a text is cut, and whether a line ends there.
struct Cut {
    at: usize,
    at_line: bool,
}

impl Cut {
    /// The best place within this many units; always beyond the first character.
    fn within(text: &str, budget: usize, fence: Option<&Fence>) -> Cut {
        let end = end_of(text, budget);
        if end == text.len() {
            return Cut { at: end, at_line: true };
        }
        // A break right after the last character that fits is as good as one before it.
        let next = text[end..].chars().next().filter(|c| c.is_whitespace());
        let window = &text[..end + next.map_or(0, char::len_utf8)];
        // A break so early that the part would be nearly empty is no better than the next kind of break.
        let is_late = |at: &usize| *at >= end / 4 && !text[..*at].trim().is_empty();
        let paragraph = window.rfind("\n\n").filter(is_late);
        let line = || window.rfind('\n').filter(is_late);
        let cut = match paragraph.or_else(line) {
            Some(at) => Cut { at, at_line: true },
            None => {
                let word = window.rfind(char::is_whitespace);
                let word = word.filter(|at| !text[..*at].trim().is_empty());
                Cut { at: word.unwrap_or(end), at_line: false }
            }
        };
        // Rather before a fenced block than inside it.
        match open_at_end(&text[..cut.at], fence) {
            Some((_, Some(start))) if is_late(&start) => Cut { at: start, at_line: true },
            _ => cut,
        }
    }
}

/// Where this many units end, and at least one character.
fn end_of(text: &str, units: usize) -> usize {
    let mut passed = 0;
    for (at, character) in text.char_indices() {
        passed += character.len_utf16();
        if passed > units && at > 0 {
            return at;
        }
    }
    text.len()
}

/// The beginning of a fenced block.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fence {
    /// The marks that end it.
    marks: String,
    /// The line that opens it again: with its language, unless that is too long.
    line: String,
}

impl Fence {
    /// The fence that a line opens.
    fn opened_by(line: &str) -> Option<Fence> {
        let line = line.trim();
        let mark = line.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
        let count = line.chars().take_while(|c| *c == mark).count();
        let language = &line[count..];
        let is_fence = (3..=FENCE_BYTES_MAX).contains(&count) && !language.contains('`');
        is_fence.then(|| {
            let marks = line[..count].to_owned();
            let line = if line.len() <= FENCE_BYTES_MAX { line.to_owned() } else { marks.clone() };
            Fence { marks, line }
        })
    }

    fn is_closed_by(&self, line: &str) -> bool {
        let line = line.trim();
        let mark = self.marks.chars().next().unwrap_or('`');
        line.len() >= self.marks.len() && line.chars().all(|c| c == mark)
    }

    /// What follows the end of the block, if the text begins with that.
    fn closed_at_start<'t>(&self, text: &'t str) -> Option<&'t str> {
        let (line, after) = text.split_once('\n').unwrap_or((text, ""));
        self.is_closed_by(line).then(|| after.trim_start_matches('\n'))
    }
}

/// The fence that is open at the end of a piece, and where in the piece it begins, unless it began before.
fn open_at_end(piece: &str, before: Option<&Fence>) -> Option<(Fence, Option<usize>)> {
    let mut open = before.map(|fence| (fence.clone(), None));
    let mut at = 0;
    for line in piece.split_inclusive('\n') {
        match &open {
            Some((fence, _)) if fence.is_closed_by(line) => open = None,
            Some(_) => {}
            None => open = Fence::opened_by(line).map(|fence| (fence, Some(at))),
        }
        at += line.len();
    }
    open
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plain(text: &str, limit: usize) -> Vec<String> {
        split(text, limit, str::to_owned)
    }

    #[test]
    fn a_text_that_fits_is_one_part_and_a_blank_one_is_none() {
        assert_eq!(plain("hello\n\nworld\n", 40), ["hello\n\nworld"]);
        for blank in ["", " ", "\n\r\n\t "] {
            assert!(plain(blank, 40).is_empty());
        }
    }

    #[test]
    fn it_is_cut_at_a_paragraph_then_a_line_then_a_word_then_anywhere() {
        assert_eq!(plain("one two\nthree\n\nfour", 16), ["one two\nthree", "four"]);
        assert_eq!(plain("one two\nthree four", 15), ["one two", "three four"]);
        assert_eq!(plain("one two three", 8), ["one two", "three"]);
        assert_eq!(plain("one two three", 7), ["one two", "three"]);
        assert_eq!(plain("abcdefgh", 3), ["abc", "def", "gh"]);
    }

    #[test]
    fn no_character_is_cut_in_two() {
        assert_eq!(plain("🚀🚀🚀", 4), ["🚀🚀", "🚀"]);
        assert_eq!(plain("🚀🚀", 3), ["🚀", "🚀"]);
        assert_eq!(plain("漢漢漢", 2), ["漢漢", "漢"]);
    }

    #[test]
    fn an_early_break_does_not_make_a_tiny_part() {
        assert_eq!(plain("a\n\nbbbb cccc dddd eeee", 16), ["a\n\nbbbb cccc", "dddd eeee"]);
    }

    #[test]
    fn a_fenced_block_stays_whole_where_it_can_and_is_opened_again_where_it_cannot() {
        let text = "some words\n\n```rust\nlet a = 1;\n```\n\nmore";
        assert_eq!(plain(text, 30), ["some words", "```rust\nlet a = 1;\n```\n\nmore"]);
        let long = "```rust\nlet a = 1;\n    let b = 2;\nlet c = 3;\n```\nend";
        assert_eq!(
            plain(long, 30),
            [
                "```rust\nlet a = 1;\n```",
                "```rust\n    let b = 2;\n```",
                "```rust\nlet c = 3;\n```\nend",
            ]
        );
    }

    #[test]
    fn a_fence_that_ends_at_the_cut_leaves_no_empty_block() {
        let text = "```\naaaaaaaaaa\nbbbbbbbbbb\n```";
        assert_eq!(plain(text, 20), ["```\naaaaaaaaaa\n```", "```\nbbbbbbbbbb\n```"]);
    }

    #[test]
    fn what_formatting_adds_counts() {
        let doubled = |text: &str| text.chars().flat_map(|c| [c, c]).collect::<String>();
        let parts = split("aa bb cc dd", 10, doubled);
        assert!(parts.iter().all(|part| units(part) <= 10), "{parts:?}");
        assert_eq!(parts.concat().replace(' ', ""), "aaaabbbbccccdddd");
    }

    fn words(text: &str) -> String {
        text.chars().filter(|c| !c.is_whitespace()).collect()
    }

    proptest! {
        #[test]
        fn nothing_is_lost_but_blanks(text in "[a-c🚀é \\n]{0,400}", limit in 2usize..60) {
            let parts = plain(&text, limit);
            prop_assert_eq!(words(&parts.concat()), words(&text));
            for part in &parts {
                prop_assert!(units(part) <= limit && !part.trim().is_empty());
            }
        }

        #[test]
        fn code_is_not_lost_either(
            blocks in prop::collection::vec(("[a-c ]{1,30}", prop::collection::vec("[x-z]{1,20}", 1..8)), 1..6),
            limit in 40usize..120,
        ) {
            let blocks: Vec<String> = blocks
                .iter()
                .map(|(prose, code)| format!("{prose}\n```py\n{}\n```\n", code.join("\n")))
                .collect();
            let text = blocks.concat();
            let parts = plain(&text, limit);
            let said = |text: &str| {
                text.lines().filter(|line| !line.starts_with("```")).map(words).collect::<String>()
            };
            prop_assert_eq!(parts.iter().map(|part| said(part)).collect::<String>(), said(&text));
            for part in &parts {
                prop_assert!(units(part) <= limit && !part.trim().is_empty());
                let fences = part.lines().filter(|line| line.starts_with("```")).count();
                prop_assert_eq!(fences % 2, 0, "{}", part);
            }
        }

        #[test]
        fn no_text_makes_it_panic_or_exceed_the_limit(
            text in "([\\PC\\r\\n]|```|~~~|\\n){0,200}", limit in 100usize..200,
        ) {
            for part in plain(&text, limit) {
                prop_assert!(units(&part) <= limit && !part.trim().is_empty());
            }
        }
    }
}
