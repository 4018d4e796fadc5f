//! Prints what was found, and writes it into RESULTS.md between two marks, as one report in sections: what people wrote
//! around them stays.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::bench::Bench;
use crate::curve::{Curve, sizes};
use crate::figure::{Figure, thousands};
use crate::plot;

const BEGIN: &str = "<!-- figures: written by `cargo xtask bench` -->";
const END: &str = "<!-- end of figures -->";

/// A part of the report.
#[derive(Debug, Default)]
pub struct Section {
    /// Its heading.
    pub title: &'static str,
    /// Its figures.
    pub figures: Vec<Figure>,
    /// Its curves.
    pub curves: Vec<Curve>,
}

impl Section {
    /// An empty one.
    pub fn new(title: &'static str) -> Section {
        Section { title, ..Section::default() }
    }

    fn is_filled(&self) -> bool {
        !self.figures.is_empty() || !self.curves.is_empty()
    }
}

/// Prints what was found.
pub fn print(bench: &Bench, sections: &[Section]) {
    println!(
        "other processes took {:.0} % of the machine in the median window",
        bench.quiet.others().median * 100.0
    );
    for section in sections.iter().filter(|section| section.is_filled()) {
        if sections.len() > 1 {
            println!("\n{}", section.title);
        }
        for figure in &section.figures {
            println!("{figure}");
        }
        for curve in &section.curves {
            println!("{curve}");
        }
    }
}

/// Writes it down, with its plots beside it.
pub fn write(bench: &Bench, sections: &[Section]) -> anyhow::Result<()> {
    let path = match (&bench.options.results, bench.options.short) {
        (Some(path), _) => path.clone(),
        (None, true) => return Ok(()),
        (None, false) => Path::new(env!("CARGO_MANIFEST_DIR")).join("RESULTS.md"),
    };
    let old =
        fs::read_to_string(&path).unwrap_or_else(|_| format!("# Results\n\n{BEGIN}\n{END}\n"));
    let text = [head(bench)?, tables(sections)?].concat();
    let new = replaced(&old, &text)
        .with_context(|| format!("{} has lost the marks around its figures", path.display()))?;
    plot::write(&path, sections)?;
    fs::write(&path, new).with_context(|| format!("writing {}", path.display()))?;
    println!("written to {}", name(&path).display());
    Ok(())
}

fn name(path: &Path) -> PathBuf {
    path.file_name().map_or_else(|| path.to_owned(), PathBuf::from)
}

fn replaced(old: &str, figures: &str) -> Option<String> {
    let (before, rest) = old.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{figures}{END}{after}"))
}

/// When, how and where it was measured.
fn head(bench: &Bench) -> anyhow::Result<String> {
    let machine = &bench.machine;
    let mut text = String::new();
    let date = jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let command = match arguments.is_empty() {
        true => "cargo xtask bench".to_owned(),
        false => format!("cargo xtask bench -- {}", arguments.join(" ")),
    };
    let options = &bench.options;
    writeln!(text, "- when: {date}")?;
    writeln!(
        text,
        "- command: `{command}` ({} rounds, windows of {:?})",
        options.rounds(),
        options.window()
    )?;
    let cores = machine.cores;
    writeln!(
        text,
        "- machine: {cores} cores of {}, {} GiB, Linux {}",
        machine.processor, machine.memory_gib, machine.kernel
    )?;
    if let Some(postgres) = &machine.postgres {
        writeln!(text, "- database server: {postgres}")?;
    }
    let others = bench.quiet.others();
    writeln!(
        text,
        "- load average before the run: {}; other processes took {:.0} % of the machine in the median \
         window ({:.0} – {:.0} %)",
        machine.load_average,
        others.median * 100.0,
        others.low * 100.0,
        others.high * 100.0
    )?;
    for what in bench.left_out() {
        writeln!(text, "- left out: {}", what.replace('\n', " "))?;
    }
    Ok(text)
}

/// Every section with its pictures and tables.
fn tables(sections: &[Section]) -> anyhow::Result<String> {
    let mut text = String::new();
    for section in sections.iter().filter(|section| section.is_filled()) {
        writeln!(text, "\n### {}", section.title)?;
        for picture in plot::pictures(section) {
            writeln!(text, "\n{picture}")?;
        }
        if !section.figures.is_empty() {
            let head = ["figure", "on", "median", "lowest – highest", "must", "aim", "meets"];
            let rows = section.figures.iter().map(|figure| figure.cells().to_vec());
            text.push_str(&table(head.map(str::to_owned).to_vec(), rows)?);
        }
        if !section.curves.is_empty() {
            let sizes = sizes(&section.curves);
            let mut head = vec!["rows".to_owned(), "on".to_owned()];
            head.extend(sizes.iter().map(|size| thousands(*size as f64)));
            head.extend(["must".to_owned(), "meets".to_owned()]);
            text.push_str(&table(head, section.curves.iter().map(|curve| curve.cells(&sizes)))?);
        }
    }
    Ok(text)
}

fn table(
    head: Vec<String>,
    rows: impl Iterator<Item = Vec<String>>,
) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    writeln!(text, "\n| {} |", head.join(" | "))?;
    writeln!(text, "|{}", "---|".repeat(head.len()))?;
    for cells in rows {
        writeln!(text, "| {} |", cells.join(" | "))?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Unit;
    use crate::plot::Plot;

    #[test]
    fn what_people_wrote_around_the_figures_stays() {
        let old = format!("# A\n{BEGIN}\nold\n{END}\n## B\n");
        let new = replaced(&old, "new\n").unwrap();
        assert_eq!(new, format!("# A\n{BEGIN}\nnew\n{END}\n## B\n"));
        assert_eq!(replaced("# A", "new"), None);
    }

    #[test]
    fn a_section_has_its_heading_its_pictures_and_its_tables() {
        let figure = Figure::new("a", "SQLite", Unit::Count, vec![1.0]).drawn(Plot::Ingest, "a");
        let mut curve = Curve::new("c", "SQLite", Unit::Millis);
        curve.at(1_000, vec![2.0]);
        let one = Section { title: "One", figures: vec![figure], curves: vec![curve] };
        let text = tables(&[one, Section::new("Nothing")]).unwrap();
        assert!(text.starts_with("\n### One\n\n!["), "{text}");
        assert!(text.contains("(plots/ingest.svg)\n\n| figure |"), "{text}");
        assert!(text.contains("| a | SQLite | 1.0 |"), "{text}");
        assert!(text.contains("| rows | on | 1,000 | must | meets |"), "{text}");
        assert!(text.ends_with("| c | SQLite | 2.0 ms |  |  |\n"), "{text}");
        assert!(!text.contains("Nothing"), "{text}");
    }
}
