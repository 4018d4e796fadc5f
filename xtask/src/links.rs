//! A check that links between our own pages lead somewhere: to a file that is there, and to a heading in it.

use std::collections::HashMap;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use xtask::workspace;

/// Fails when a link of a tracked page leads nowhere, after showing each.
pub fn check() -> anyhow::Result<()> {
    let root = workspace::root();
    let mut headings = HashMap::new();
    let mut broken = Vec::new();
    for page in pages(root)? {
        let text = read(root, &page)?;
        for link in links(&text) {
            if let Some(problem) = problem(root, &page, &link, &mut headings)? {
                broken.push(format!("{}: {link}: {problem}", page.display()));
            }
        }
    }
    ensure!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
    Ok(())
}

fn pages(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut git = Command::new("git");
    let listed = git.args(["ls-files", "-z", "*.md"]).current_dir(root).output();
    let listed = String::from_utf8(listed.context("running git ls-files")?.stdout)?;
    Ok(listed
        .split_terminator('\0')
        .map(PathBuf::from)
        .filter(|page| root.join(page).is_file())
        .collect())
}

fn read(root: &Path, page: &Path) -> anyhow::Result<String> {
    fs::read_to_string(root.join(page)).with_context(|| format!("reading {}", page.display()))
}

/// What is wrong with a link. Those to the outside are not followed.
fn problem(
    root: &Path,
    page: &Path,
    link: &str,
    headings: &mut HashMap<PathBuf, Vec<String>>,
) -> anyhow::Result<Option<String>> {
    if link.contains("://") || link.starts_with("mailto:") {
        return Ok(None);
    }
    let (file, anchor) = link.split_once('#').map_or((link, None), |(file, at)| (file, Some(at)));
    let target = if file.is_empty() {
        page.to_owned()
    } else {
        plain(&page.parent().unwrap_or(Path::new("")).join(file))
    };
    if !root.join(&target).exists() {
        return Ok(Some("there is no such file".to_owned()));
    }
    let Some(anchor) = anchor.filter(|_| target.extension().is_some_and(|kind| kind == "md"))
    else {
        return Ok(None);
    };
    if !headings.contains_key(&target) {
        headings.insert(target.clone(), anchors(&read(root, &target)?));
    }
    let found = headings[&target].iter().any(|heading| heading == anchor);
    Ok((!found).then(|| "there is no such heading".to_owned()))
}

/// Without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// The lines outside fenced code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// Where the links of a page lead, `[text](here)`.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose(text).filter(|line| !line.starts_with("    ")) {
        for piece in line.split("](").skip(1) {
            if let Some((link, _)) = piece.split_once(')') {
                found.push(link.to_owned());
            }
        }
    }
    found
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(text: &str) -> Vec<String> {
    let headings = prose(text).filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#').trim())).collect()
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_code() {
        let page = "[a](one.md) and [b](two.md#three)\n\n    [c](code.md)\n\n```\n[d](code.md)\n```\n[e](#end)";
        assert_eq!(links(page), ["one.md", "two.md#three", "#end"]);
    }

    #[test]
    fn anchors_are_as_github_makes_them() {
        assert_eq!(anchor("7. Recover"), "7-recover");
        assert_eq!(anchor("What `begin` decides"), "what-begin-decides");
        assert_eq!(anchors("# A\n```\n# no heading\n```\n## B, c"), ["a", "b-c"]);
    }

    #[test]
    fn a_missing_file_and_a_missing_heading_are_problems() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("docs")).unwrap();
        fs::write(root.path().join("README.md"), "# Top\n").unwrap();
        let mut headings = HashMap::new();
        let mut of =
            |link| problem(root.path(), Path::new("docs/a.md"), link, &mut headings).unwrap();
        assert_eq!(of("../README.md#top"), None);
        assert_eq!(of("https://example.com/#x"), None);
        assert!(of("../README.md#gone").is_some());
        assert!(of("gone.md").is_some());
    }
}
