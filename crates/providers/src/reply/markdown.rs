//! What agents write, Markdown, in the words of each platform.
//!
//! One walk over the parsed text for all of them; a [`Style`] says how each thing is written. HTML in the text is
//! only text, so nothing that a platform would act on gets through by accident.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd, html};

/// Lists in lists are indented this deep and no deeper, so that what comes out is never much longer than what went in.
const INDENTS_MAX: usize = 8;

/// How a platform writes what Markdown means.
pub(super) struct Style {
    /// What stands on both sides of bold text.
    pub(super) bold: &'static str,
    /// What stands on both sides of slanted text.
    pub(super) italic: &'static str,
    /// What stands on both sides of struck text.
    pub(super) strike: &'static str,
    /// What begins each line of a quotation.
    pub(super) quote: &'static str,
    /// Plain text, so that it stays what it is.
    pub(super) text: fn(&str) -> String,
    /// Code within a line.
    pub(super) code: fn(&str) -> String,
    /// Lines of code, and their language.
    pub(super) block: fn(&str, &str) -> String,
    /// A link, by its text and its address.
    pub(super) link: fn(&str, &str) -> String,
}

/// No markup at all: words, and addresses after what they are of.
pub(super) const PLAIN: Style = Style {
    bold: "",
    italic: "",
    strike: "",
    quote: "> ",
    text: str::to_owned,
    code: str::to_owned,
    block: |code, _| code.to_owned(),
    link: spelled_out,
};

/// A link where there are none.
pub(super) fn spelled_out(text: &str, url: &str) -> String {
    let is_same = text.is_empty() || text == url || url.strip_prefix("mailto:") == Some(text);
    if is_same { url.to_owned() } else { format!("{text} ({url})") }
}

/// Whether an address leads to a page, and does nothing else.
pub(super) fn is_web_address(url: &str) -> bool {
    let scheme = url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    let is_plain = !url.chars().any(|c| c.is_whitespace() || c.is_control());
    matches!(scheme.as_deref(), Some("http" | "https")) && is_plain
}

/// The text in this style.
pub(super) fn write(markdown: &str, style: &Style) -> String {
    let mut writer = Writer::new(style);
    for event in Parser::new_ext(markdown, Options::ENABLE_STRIKETHROUGH) {
        writer.take(event);
    }
    let written = writer.out.trim_end();
    // Some Markdown means nothing to a reader, such as the target of a link that is nowhere.
    match written.is_empty() {
        true => (style.text)(markdown.trim()),
        false => written.to_owned(),
    }
}

/// The text as HTML for a mail: no HTML of the agent's own, and no address but of pages and mailboxes.
pub(super) fn to_html(markdown: &str) -> String {
    let options = Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TABLES;
    let events = Parser::new_ext(markdown, options).map(|event| match event {
        Event::Html(text) | Event::InlineHtml(text) => Event::Text(text),
        Event::Start(Tag::HtmlBlock) => Event::Start(Tag::Paragraph),
        Event::End(TagEnd::HtmlBlock) => Event::End(TagEnd::Paragraph),
        // A picture would tell its server who reads the mail, and when.
        Event::Start(Tag::Image { link_type, dest_url, title, id }) => {
            let dest_url = if is_safe(&dest_url) { dest_url } else { "".into() };
            Event::Start(Tag::Link { link_type, dest_url, title, id })
        }
        Event::End(TagEnd::Image) => Event::End(TagEnd::Link),
        Event::Start(Tag::Link { link_type, dest_url, title, id }) if !is_safe(&dest_url) => {
            let dest_url = match dest_url.contains(':') {
                // Mail addresses in angle brackets have no scheme of their own.
                false if dest_url.contains('@') => dest_url,
                _ => "".into(),
            };
            Event::Start(Tag::Link { link_type, dest_url, title, id })
        }
        other => other,
    });
    let mut page = String::with_capacity(markdown.len() * 2);
    html::push_html(&mut page, events);
    page
}

fn is_safe(url: &str) -> bool {
    is_web_address(url) || url.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("mailto:"))
}

/// Writes events one after another, with what must stand between blocks and before lines.
struct Writer<'s> {
    style: &'s Style,
    out: String,
    /// How many line ends must come before the next word.
    breaks: usize,
    /// What begins each line, from the outermost block inwards.
    prefixes: Vec<String>,
    /// The numbers that the items of open lists have next; none for bullets.
    lists: Vec<Option<u64>>,
    quotes: usize,
    bold: usize,
    italic: usize,
    strike: usize,
    /// The code of an open block, and its language.
    code: Option<(String, String)>,
    /// The text of an open link, and its address.
    link: Option<(String, String)>,
}

impl<'s> Writer<'s> {
    fn new(style: &'s Style) -> Writer<'s> {
        Writer {
            style,
            out: String::new(),
            breaks: 0,
            prefixes: Vec::new(),
            lists: Vec::new(),
            quotes: 0,
            bold: 0,
            italic: 0,
            strike: 0,
            code: None,
            link: None,
        }
    }

    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::Code(code) => self.code(&code),
            Event::SoftBreak | Event::HardBreak => self.line_end(),
            Event::Rule => {
                self.word("———");
                self.breaks = 2;
            }
            // Only with options that are off.
            _ => {}
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { .. } | Tag::Strong => self.open_bold(),
            Tag::Emphasis => {
                self.italic += 1;
                self.mark(self.italic == 1, self.style.italic);
            }
            Tag::Strikethrough => {
                self.strike += 1;
                self.mark(self.strike == 1, self.style.strike);
            }
            Tag::BlockQuote(_) => self.open_quote(),
            Tag::CodeBlock(kind) => {
                let language = match kind {
                    CodeBlockKind::Fenced(info) => {
                        info.split([' ', ',']).next().unwrap_or_default().to_owned()
                    }
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((String::new(), language));
            }
            Tag::List(first) => {
                self.breaks = self.breaks.max(usize::from(!self.lists.is_empty()));
                self.lists.push(first);
            }
            Tag::Item => self.open_item(),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } if self.link.is_none() => {
                self.link = Some((String::new(), dest_url.into_string()));
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.breaks = 2,
            TagEnd::Heading(_) => {
                self.close_bold();
                self.breaks = 2;
            }
            TagEnd::Strong => self.close_bold(),
            TagEnd::Emphasis => {
                self.italic -= 1;
                self.mark(self.italic == 0, self.style.italic);
            }
            TagEnd::Strikethrough => {
                self.strike -= 1;
                self.mark(self.strike == 0, self.style.strike);
            }
            TagEnd::BlockQuote(_) => {
                self.quotes -= 1;
                self.prefixes.pop();
                self.breaks = 2;
            }
            TagEnd::CodeBlock => self.close_block(),
            TagEnd::List(_) => {
                self.lists.pop();
                self.breaks = if self.lists.is_empty() { 2 } else { 1 };
            }
            TagEnd::Item => {
                self.prefixes.pop();
                self.breaks = self.breaks.max(1);
            }
            TagEnd::Link | TagEnd::Image => self.close_link(),
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        if let Some((code, _)) = &mut self.code {
            code.push_str(text);
        } else if let Some((label, _)) = &mut self.link {
            label.push_str(text);
        } else {
            // HTML comes with its line ends.
            for (index, line) in text.trim_end_matches('\n').split('\n').enumerate() {
                if index > 0 {
                    self.line_end();
                }
                if !line.is_empty() {
                    self.word(&(self.style.text)(line));
                }
            }
            if text.ends_with('\n') {
                self.breaks = self.breaks.max(1);
            }
        }
    }

    fn code(&mut self, code: &str) {
        match &mut self.link {
            Some((label, _)) => label.push_str(code),
            None => self.word(&(self.style.code)(code)),
        }
    }

    fn line_end(&mut self) {
        match &mut self.link {
            Some((label, _)) => label.push(' '),
            None => self.breaks = self.breaks.max(1),
        }
    }

    fn open_bold(&mut self) {
        self.bold += 1;
        self.mark(self.bold == 1, self.style.bold);
    }

    fn close_bold(&mut self) {
        self.bold -= 1;
        self.mark(self.bold == 0, self.style.bold);
    }

    /// Writes a mark where it counts: not inside the same again, and not in the text of a link.
    fn mark(&mut self, counts: bool, mark: &str) {
        if !counts || mark.is_empty() || self.link.is_some() {
            return;
        }
        // Two marks of the same kind in a row would mean a third thing.
        if self.out.ends_with(mark) && self.breaks == 0 {
            self.out.push('\u{200b}');
        }
        self.word(mark);
    }

    /// Only the outermost quotation has its mark, and only outside of lists: platforms know no other.
    fn open_quote(&mut self) {
        self.quotes += 1;
        let is_marked = self.prefixes.is_empty();
        let mark = if is_marked { self.style.quote } else { "" };
        self.begin_line();
        self.out.push_str(mark);
        self.prefixes.push(mark.to_owned());
    }

    fn open_item(&mut self) {
        let marker = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number += 1;
                (self.style.text)(&format!("{}. ", *number - 1))
            }
            _ => "• ".to_owned(),
        };
        self.word(&marker);
        let is_shallow = self.prefixes.len() < INDENTS_MAX;
        self.prefixes.push(if is_shallow { "  ".to_owned() } else { String::new() });
    }

    /// Code has lines of its own, without what begins the lines around it; in a quotation it is only text.
    fn close_block(&mut self) {
        let Some((code, language)) = self.code.take() else { return };
        let code = code.trim_end_matches('\n');
        if self.quotes > 0 {
            for line in code.split('\n') {
                self.word(&(self.style.text)(line));
                self.breaks = 1;
            }
        } else {
            self.breaks = self.breaks.max(usize::from(!self.out.is_empty()));
            let prefixes = std::mem::take(&mut self.prefixes);
            self.word(&(self.style.block)(code, &language));
            self.prefixes = prefixes;
        }
        self.breaks = 2;
    }

    fn close_link(&mut self) {
        if let Some((label, url)) = self.link.take() {
            let label = label.trim();
            let written = match url.is_empty() {
                true => (self.style.text)(label),
                false => (self.style.link)(label, &url),
            };
            self.word(&written);
        }
    }

    fn word(&mut self, text: &str) {
        self.begin_line();
        self.out.push_str(text);
    }

    /// Writes the line ends that are due, and what begins each new line.
    fn begin_line(&mut self) {
        let breaks = std::mem::take(&mut self.breaks);
        if self.out.is_empty() {
            return;
        }
        for _ in 0..breaks {
            let end = self.out.trim_end_matches(' ').len();
            self.out.truncate(end);
            self.out.push('\n');
            self.out.extend(self.prefixes.iter().map(String::as_str));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plain(markdown: &str) -> String {
        write(markdown, &PLAIN)
    }

    #[test]
    fn paragraphs_lines_lists_and_quotations_keep_their_shape() {
        assert_eq!(plain("# Title\none\ntwo\n\nthree"), "Title\n\none\ntwo\n\nthree");
        assert_eq!(
            plain("- a\n- b\n  - c\n  - d\n- e\n\nend"),
            "• a\n• b\n  • c\n  • d\n• e\n\nend"
        );
        assert_eq!(plain("3. a\n4. b"), "3. a\n4. b");
        assert_eq!(plain("> a\n> b\n>\n> c\n\nd"), "> a\n> b\n>\n> c\n\nd");
        assert_eq!(plain("- a\n\n  b\n- c"), "• a\n\n  b\n\n• c");
        assert_eq!(plain("a\n\n---\n\nb"), "a\n\n———\n\nb");
        assert_eq!(plain("- a\n  ```\n  x\n    y\n  ```\n- b"), "• a\nx\n  y\n\n• b");
    }

    #[test]
    fn links_are_spelled_out_where_there_are_none() {
        assert_eq!(plain("[here](https://a.example)"), "here (https://a.example)");
        assert_eq!(plain("<https://a.example>"), "https://a.example");
        assert_eq!(
            plain("![a chart](https://a.example/c.png)"),
            "a chart (https://a.example/c.png)"
        );
        assert_eq!(plain("[**b** `c`](https://a.example)"), "b c (https://a.example)");
        assert_eq!(plain("[empty]()"), "empty");
    }

    #[test]
    fn html_is_only_text() {
        assert_eq!(plain("a <b>c</b>"), "a <b>c</b>");
        assert_eq!(plain("<div>\nx\n</div>\n\nafter"), "<div>\nx\n</div>\n\nafter");
    }

    #[test]
    fn what_means_nothing_to_a_reader_is_written_as_it_stands() {
        assert_eq!(plain("[a]: https://a.example"), "[a]: https://a.example");
    }

    #[test]
    fn a_mail_has_no_html_of_the_agents_and_no_address_that_does_something() {
        let page = to_html(
            "**b** <script>x</script> [l](javascript:alert(1)) [m](https://a.example?b=1&c=2)",
        );
        assert_eq!(
            page,
            "<p><strong>b</strong> &lt;script&gt;x&lt;/script&gt; <a href=\"\">l</a> \
             <a href=\"https://a.example?b=1&amp;c=2\">m</a></p>\n"
        );
        let page = to_html("![p](https://a.example/p.png) <ada@acme.example>");
        assert!(!page.contains("<img"), "{page}");
        assert!(page.contains("href=\"mailto:ada@acme.example\""), "{page}");
        assert!(to_html("| a | b |\n|---|---|\n| 1 | 2 |").contains("<table>"));
        assert!(!to_html("<img src=x onerror=y>\n\n<p onclick=z>").contains("<img"));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic_or_grow_without_bound(text in "[\\PC\\n]{0,300}") {
            let longest = text.len() * 8 + 16;
            prop_assert!(plain(&text).len() <= longest);
            let _ = to_html(&text);
        }

        #[test]
        fn no_markup_makes_it_panic(text in "([-*_~`>#<!\\[\\]()1.\\\\| \\na]|```|- |> |1\\. ){0,120}") {
            let _ = (plain(&text), to_html(&text));
        }

        #[test]
        fn html_of_the_agents_never_gets_through(text in "[<>a-z/= \"'&!\\-\\[\\]():\\n]{0,120}") {
            let page = to_html(&format!("{text}\n\n<script>"));
            for tag in ["<script", "<img", "<iframe", "<style", "<svg", "<form", "<input"] {
                prop_assert!(!page.contains(tag));
            }
        }
    }
}
