//! `README.md` of a project: its state at a glance, for people. Its last line holds a checksum of the
//! rest, which tells a page that was written here from one that somebody wrote or edited.

use std::fmt::Write;

use orchestra_board::{Kind, Slug, State};
use sha2::{Digest, Sha256};

use crate::reader::Reader;
use crate::rows::Read;
use crate::{IssueFilter, IssueRecord, PageRequest};

/// The most rows of one table; the board itself has the rest.
const MAX_ROWS: usize = 1_000;

/// What the last line begins with.
const SEAL: &str = "<!-- written by regenerate_readme, checksum ";

/// Whether a page is as it was written here. Line ends and blank ends do not count.
pub(crate) fn is_generated(text: &str) -> bool {
    let text = text.replace("\r\n", "\n");
    text.rfind(SEAL)
        .is_some_and(|at| text[at..].trim_end() == seal(&text[..at]).trim_end())
}

/// The last line of a page.
fn seal(page: &str) -> String {
    let mut line = SEAL.to_owned();
    for byte in &Sha256::digest(page)[..8] {
        let _ = write!(line, "{byte:02x}");
    }
    line + " -->\n"
}

/// Writes the page.
pub(crate) fn render(reader: &Reader<'_>, slug: &Slug) -> Read<String> {
    let record = reader.project(slug)?;
    let record = record.ok_or_else(|| orchestra_board::Refusal::NoProject {
        project: slug.clone(),
    })?;
    let mut text = format!("# {}\n", line(record.project.name.as_str()));
    if !record.project.description.is_empty() {
        let _ = write!(text, "\n{}\n", record.project.description);
    }
    let (done, total) = (record.census.leaves_in(State::Done), record.census.leaves());
    let _ = write!(text, "\n{done} of {total} tasks done.\n");
    let in_states: Vec<String> = State::ALL
        .into_iter()
        .map(|state| (state, record.census.leaves_in(state)))
        .filter(|(_, count)| *count > 0)
        .map(|(state, count)| format!("{state} {count}"))
        .collect();
    if !in_states.is_empty() {
        let _ = write!(text, "\n{}\n", in_states.join(" · "));
    }
    table(&mut text, reader, slug, "Epics", &[Kind::Epic])?;
    table(&mut text, reader, slug, "Stories", &[Kind::Story])?;
    table(
        &mut text,
        reader,
        slug,
        "Tasks",
        &[Kind::Task, Kind::Bug, Kind::Hotfix],
    )?;
    text.push('\n');
    let seal = seal(&text);
    Ok(text + &seal)
}

fn table(
    text: &mut String,
    reader: &Reader<'_>,
    slug: &Slug,
    heading: &str,
    kinds: &[Kind],
) -> Read<()> {
    let filter = IssueFilter {
        kinds: kinds.to_vec(),
        ..IssueFilter::default()
    };
    let mut request = PageRequest::first(PageRequest::MAX_LIMIT);
    let mut rows = 0;
    loop {
        let page = reader.issues(slug, &filter, &request)?;
        if page.total == 0 {
            return Ok(());
        }
        if rows == 0 {
            let _ = write!(
                text,
                "\n## {heading}\n\n| ID | Title | Status |\n|---|---|---|\n"
            );
        }
        rows += page.items.len();
        page.items.iter().for_each(|record| row(text, record));
        match page.next_cursor {
            Some(cursor) if rows < MAX_ROWS => {
                request.cursor = Some(crate::Cursor::parse(&cursor)?)
            }
            Some(_) => {
                let more = page
                    .total
                    .saturating_sub(u64::try_from(rows).unwrap_or(u64::MAX));
                let _ = write!(text, "\n{more} more.\n");
                return Ok(());
            }
            None => return Ok(()),
        }
    }
}

fn row(text: &mut String, record: &IssueRecord) {
    let issue = &record.issue;
    let _ = writeln!(
        text,
        "| {} | {} | {} |",
        issue.id,
        line(issue.title.as_str()),
        issue.state
    );
}

/// A title as Markdown takes it in a heading or a table.
fn line(title: &str) -> String {
    let mut text = String::with_capacity(title.len());
    for c in title.chars() {
        if matches!(
            c,
            '|' | '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#'
        ) {
            text.push('\\');
        }
        text.push(c);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn titles_do_not_break_tables() {
        assert_eq!(line("a | b <script>"), "a \\| b \\<script\\>");
    }
}
