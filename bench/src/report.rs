//! Prints the figures, and writes them into RESULTS.md between two marks: what people wrote around them
//! stays.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::bench::Bench;
use crate::figure::Figure;

const BEGIN: &str = "<!-- figures: written by `cargo xtask bench` -->";
const END: &str = "<!-- end of figures -->";

/// Prints the figures.
pub fn print(bench: &Bench, figures: &[Figure]) {
    println!(
        "other processes took {:.0} % of the machine in the median window",
        bench.quiet.others().median * 100.0
    );
    for figure in figures {
        println!("{figure}");
    }
}

/// Writes the figures down.
pub fn write(bench: &Bench, figures: &[Figure]) -> anyhow::Result<()> {
    let path = match (&bench.options.results, bench.options.short) {
        (Some(path), _) => path.clone(),
        (None, true) => return Ok(()),
        (None, false) => Path::new(env!("CARGO_MANIFEST_DIR")).join("RESULTS.md"),
    };
    let old =
        fs::read_to_string(&path).unwrap_or_else(|_| format!("# Results\n\n{BEGIN}\n{END}\n"));
    let new = replaced(&old, &text(bench, figures)?)
        .with_context(|| format!("{} has lost the marks around its figures", path.display()))?;
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

fn text(bench: &Bench, figures: &[Figure]) -> anyhow::Result<String> {
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
         window ({:.0} – {:.0} %)\n",
        machine.load_average,
        others.median * 100.0,
        others.low * 100.0,
        others.high * 100.0
    )?;
    writeln!(text, "| figure | on | median | lowest – highest | must | aim | meets |")?;
    writeln!(text, "|---|---|---|---|---|---|---|")?;
    for figure in figures {
        writeln!(text, "| {} |", figure.cells().join(" | "))?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_wrote_around_the_figures_stays() {
        let old = format!("# A\n{BEGIN}\nold\n{END}\n## B\n");
        let new = replaced(&old, "new\n").unwrap();
        assert_eq!(new, format!("# A\n{BEGIN}\nnew\n{END}\n## B\n"));
        assert_eq!(replaced("# A", "new"), None);
    }
}
