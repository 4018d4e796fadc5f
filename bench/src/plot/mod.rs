//! The plots beside RESULTS.md, few and small, written by this program itself: bars of what was measured side by side,
//! and curves over growing databases. What is drawn are the medians that the tables hold.

pub mod bars;
mod panels;
mod scale;
mod svg;

use std::fs;
use std::path::Path;

use anyhow::Context;

use crate::report::Section;

/// The directory, beside the results.
pub const DIRECTORY: &str = "plots";

/// Which plot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plot {
    Ingest,
    Peers,
    Growth,
    Pages,
}

impl Plot {
    const ALL: [Plot; 4] = [Plot::Ingest, Plot::Peers, Plot::Growth, Plot::Pages];

    fn file(self) -> &'static str {
        match self {
            Plot::Ingest => "ingest.svg",
            Plot::Peers => "peers.svg",
            Plot::Growth => "growth.svg",
            Plot::Pages => "pages.svg",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Plot::Ingest => "Durable ingest against its ceilings, 64 connections",
            Plot::Peers => "No-op jobs a second beside other queues, on one machine",
            Plot::Growth => "What growth costs: against the same with 1,000 rows",
            Plot::Pages => "Pages of the dashboard as the ledger grows, p95 in ms",
        }
    }
}

/// Draws what there is to draw in these sections: the file and its text, for each plot.
fn drawn(sections: &[Section]) -> Vec<(Plot, String)> {
    let mut plots = Vec::new();
    for plot in Plot::ALL {
        let figures = sections.iter().flat_map(|section| &section.figures);
        let bars = figures.filter_map(|figure| figure.bar(plot)).collect::<Vec<_>>();
        let curves = sections.iter().flat_map(|section| &section.curves);
        let curves = curves.filter(|curve| curve.plot == Some(plot)).collect::<Vec<_>>();
        if !bars.is_empty() {
            plots.push((plot, bars::draw(plot.title(), &bars)));
        } else if !curves.is_empty() {
            plots.push((plot, panels::draw(plot.title(), &curves)));
        }
    }
    plots
}

/// Writes the plots into a directory beside `results`.
pub fn write(results: &Path, sections: &[Section]) -> anyhow::Result<()> {
    let directory = results.parent().unwrap_or(Path::new(".")).join(DIRECTORY);
    let plots = drawn(sections);
    if plots.is_empty() {
        return Ok(());
    }
    fs::create_dir_all(&directory)?;
    for (plot, text) in plots {
        let path = directory.join(plot.file());
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// The pictures that belong to a section, as Markdown.
pub fn pictures(section: &Section) -> Vec<String> {
    let of_section = |plot: &Plot| {
        section.figures.iter().any(|figure| figure.bar(*plot).is_some())
            || section.curves.iter().any(|curve| curve.plot == Some(*plot))
    };
    let plots = Plot::ALL.into_iter().filter(of_section);
    plots.map(|plot| format!("![{}]({DIRECTORY}/{})", plot.title(), plot.file())).collect()
}
