//! Links of the book: each leads to a page or heading of it, and each page is in its summary.
//!
//! Links to other hosts are not followed. Directives of mdBook are refused, because sites that host the
//! repository show them raw.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Component, Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};

use super::below;

const SUMMARY: &str = "SUMMARY.md";

/// Beginning of a directive of mdBook.
const DIRECTIVE: &str = "{{#";

/// Looks at every link of the pages below a directory, and says how many there are.
///
/// # Errors
/// When a page cannot be read, or with all that is wrong.
pub(super) fn check(docs: &Path) -> Result<usize> {
    let mut files = Vec::new();
    walk(docs, &mut files)?;
    let mut pages = BTreeMap::new();
    for path in files
        .iter()
        .filter(|path| path.extension().is_some_and(|end| end == "md"))
    {
        let text =
            fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        pages.insert(below(docs, path), text);
    }
    let files: BTreeSet<String> = files.iter().map(|path| below(docs, path)).collect();
    let (count, wrong) = judge(&pages, &files);
    if !wrong.is_empty() {
        bail!("the book is wrong:\n  {}", wrong.join("\n  "));
    }
    Ok(count)
}

fn walk(directory: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let entries =
        fs::read_dir(directory).with_context(|| format!("reading {}", directory.display()))?;
    for entry in entries {
        let path = entry
            .with_context(|| format!("reading {}", directory.display()))?
            .path();
        if path.is_dir() {
            walk(&path, files)?;
        } else {
            files.push(path);
        }
    }
    files.sort();
    Ok(())
}

/// How many links there are, and what is wrong with them.
fn judge(pages: &BTreeMap<String, String>, files: &BTreeSet<String>) -> (usize, Vec<String>) {
    let mut count = 0;
    let mut wrong = Vec::new();
    let anchors: BTreeMap<&str, BTreeSet<String>> = pages
        .iter()
        .map(|(name, text)| (name.as_str(), anchors(text)))
        .collect();
    let mut listed = BTreeSet::from([SUMMARY.to_owned()]);
    for (page, text) in pages {
        for directive in directives(text) {
            wrong.push(format!(
                "{page}: {directive} is shown raw outside of mdBook"
            ));
        }
        for link in links(text).into_iter().filter(|link| !leads_out(link)) {
            count += 1;
            let (path, fragment) = link.split_once('#').unwrap_or((&link, ""));
            let path = if path.is_empty() {
                Some(page.clone())
            } else {
                target(page, path)
            };
            let Some(path) = path.filter(|path| files.contains(path)) else {
                wrong.push(format!("{page}: {link} leads nowhere in the book"));
                continue;
            };
            let known = anchors
                .get(path.as_str())
                .is_some_and(|known| known.contains(fragment));
            if !fragment.is_empty() && !known {
                wrong.push(format!("{page}: {link}: no such heading"));
            }
            if page == SUMMARY {
                listed.insert(path);
            }
        }
    }
    let missing = pages.keys().filter(|page| !listed.contains(*page));
    wrong.extend(missing.map(|page| format!("{page} is not in {SUMMARY}")));
    (count, wrong)
}

fn leads_out(link: &str) -> bool {
    ["https://", "http://", "mailto:"]
        .iter()
        .any(|scheme| link.starts_with(scheme))
}

/// Where a relative path leads from a page, if not out of the book.
fn target(page: &str, path: &str) -> Option<String> {
    let mut place: Vec<&str> = page.split('/').collect();
    place.pop();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) => place.push(name.to_str()?),
            Component::ParentDir => drop(place.pop()?),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(place.join("/"))
}

/// The lines that are no code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut fence: Option<String> = None;
    text.lines().filter(move |line| {
        let start = line.trim_start();
        let mark: String = start.chars().take_while(|c| *c == '`').collect();
        match &fence {
            Some(open) if mark.len() >= open.len() && start.len() == mark.len() => {
                fence = None;
                false
            }
            None if mark.len() >= 3 => {
                fence = Some(mark);
                false
            }
            open => open.is_none(),
        }
    })
}

/// A text without its spans of code, which end with their paragraph at the latest.
fn without_code(text: &str) -> String {
    let paragraphs = prose(text)
        .map(str::trim_end)
        .collect::<Vec<_>>()
        .join("\n");
    let paragraphs = paragraphs.split("\n\n").map(|paragraph| {
        let parts: Vec<&str> = paragraph.split('`').collect();
        parts
            .iter()
            .step_by(2)
            .copied()
            .collect::<Vec<_>>()
            .join("x")
    });
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

/// Where the links and pictures of a page lead.
fn links(text: &str) -> Vec<String> {
    let text = without_code(text);
    let rests = text.split("](").skip(1);
    let targets = rests.filter_map(|rest| rest.split_once(')'));
    targets
        .map(|(target, _)| target.trim().to_owned())
        .collect()
}

/// Directives of a page, in code or outside of it, except escaped ones.
fn directives(text: &str) -> Vec<&str> {
    let starts = text.match_indices(DIRECTIVE).map(|(start, _)| start);
    let starts = starts.filter(|start| !text[..*start].ends_with('\\'));
    starts
        .map(|start| text[start..].lines().next().unwrap_or_default())
        .collect()
}

/// The names under which the headings of a page are reached.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    for line in prose(text) {
        let title = line.trim_start_matches('#');
        let marks = line.len() - title.len();
        if !(1..=6).contains(&marks) || !title.starts_with(' ') {
            continue;
        }
        let name = anchor(title.trim());
        let numbered = (1..).map(|number| format!("{name}-{number}"));
        let free = std::iter::once(name.clone())
            .chain(numbered)
            .find(|name| !known.contains(name));
        known.extend(free);
    }
    known
}

/// A heading as mdBook names it.
fn anchor(title: &str) -> String {
    let shown = title.chars().filter_map(|c| match c {
        c if c.is_alphanumeric() || c == '_' || c == '-' => Some(c.to_lowercase().collect()),
        c if c.is_whitespace() => Some("-".to_owned()),
        _ => None,
    });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(pages: &[(&str, &str)], others: &[&str]) -> (usize, Vec<String>) {
        let owned = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
        let pages: BTreeMap<String, String> = pages.iter().map(owned).collect();
        let files = pages
            .keys()
            .cloned()
            .chain(others.iter().map(|file| (*file).to_owned()));
        judge(&pages, &files.collect())
    }

    #[test]
    fn links_that_lead_somewhere_are_counted() {
        let pages = [
            ("SUMMARY.md", "- [A](a.md)\n- [B](how-to/b.md)\n"),
            (
                "a.md",
                "[b](how-to/b.md#two-words-1) ![p](p.png) [out](https://example.org/)\n",
            ),
            (
                "how-to/b.md",
                "# Two words\n```\n# no `heading` [x](y)\n```\n## Two `words`\n[a](../a.md)\n",
            ),
        ];
        assert_eq!(judged(&pages, &["p.png"]), (5, Vec::new()));
    }

    #[test]
    fn what_leads_nowhere_is_told() {
        let pages = [
            ("SUMMARY.md", "- [A](a.md)\n"),
            (
                "a.md",
                "[up](../README.md) [b](b.md#no) `[c](c.md)`\n\\{{#include c.txt}}\n{{#include d.txt}}\n",
            ),
            ("b.md", "# Yes\n"),
        ];
        let (count, wrong) = judged(&pages, &[]);
        assert_eq!(count, 3);
        let expected = [
            "a.md: {{#include d.txt}} is shown raw outside of mdBook",
            "a.md: ../README.md leads nowhere in the book",
            "a.md: b.md#no: no such heading",
            "b.md is not in SUMMARY.md",
        ];
        assert_eq!(wrong, expected);
    }
}
