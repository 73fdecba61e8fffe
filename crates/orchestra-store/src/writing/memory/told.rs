//! Sessions that nobody saved: what the hooks of a coding agent reported of one becomes its summary.
//!
//! Only names and numbers go into it: tools, files of the workspace, how often. What was asked,
//! answered or run does not.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use orchestra_board::{Body, Label, SessionId, Slug, Source, Timestamp};
use rusqlite::params;

use crate::writing::{Write, Writing};
use crate::{ActionError, HookEventRecord, SessionRecord};

/// The events after which a session is summed up: it ended, or its agent waits.
const ENDS: [&str; 2] = ["SessionEnd", "Stop"];
/// What a tool's use is reported by before and after; the second tells that it came about.
const USES: [&str; 2] = ["PreToolUse", "PostToolUse"];
/// How many tools, and how many files, a summary names.
const NAMED: usize = 20;
/// The longest name of a file that a summary shows.
const MAX_FILE_BYTES: usize = 200;
/// How many of the latest changes of the board tell which project a session was about.
const LATEST_CHANGES: i64 = 10_000;

/// What hook events tell of a session.
#[derive(Debug, Default)]
struct Told {
    events: u64,
    prompts: u64,
    /// How often each tool was used: as reported before, and after.
    tools: BTreeMap<String, [u64; 2]>,
    files: BTreeMap<String, u64>,
    /// Whether files elsewhere were touched.
    elsewhere: bool,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
}

impl Writing<'_> {
    /// Sums a session up that has just ended, in the project that it was about, unless somebody has
    /// saved a summary of it.
    pub(in crate::writing) fn sum_session_up(&mut self, event: &HookEventRecord) -> Write<()> {
        if !ENDS.contains(&event.event_type.as_str()) {
            return Ok(());
        }
        let name = event.session_id.as_ref().map(Label::as_str);
        let Some(id) = name.and_then(|name| SessionId::parse(name).ok()) else {
            return Ok(());
        };
        let told = self.told_of(id.as_str())?;
        let (Some(first), Some(last)) = (told.first, told.last) else {
            return Ok(());
        };
        let known = self.sessions_of(&id)?;
        // Whoever saved it knows better, wherever that was.
        if told.tools.is_empty() || known.iter().any(|session| !session.from_hooks) {
            return Ok(());
        }
        let (project, started_at) = match known.into_iter().next() {
            Some(session) => (session.project, session.started_at.min(first)),
            None => match self.project_between(first, last)? {
                Some(project) => (project, first),
                None => return Ok(()),
            },
        };
        let session = SessionRecord {
            project,
            id,
            summary: Body::parse(&told.summary()).unwrap_or_default(),
            events: Vec::new(),
            started_at,
            ended_at: last,
            from_hooks: true,
        };
        match self.keep_session(None, Source::Tool, &session) {
            // The event is kept, whether there is room for a summary or not.
            Err(ActionError::Invalid(_) | ActionError::Refused(_)) => Ok(()),
            other => other,
        }
    }

    fn told_of(&self, session: &str) -> Write<Told> {
        let mut told = Told::default();
        let mut statement = self.connection.prepare_cached(
            "SELECT at, event_type, tool_name, coalesce(data ->> '$.tool_input.file_path', \
             data ->> '$.tool_input.notebook_path'), data ->> '$.cwd' FROM hook_event \
             WHERE session_id = ?1 ORDER BY number",
        )?;
        let mut rows = statement.query([session])?;
        while let Some(row) = rows.next()? {
            let at = Timestamp::from_unix_seconds(row.get(0)?);
            told.first = Some(told.first.map_or(at, |first| first.min(at)));
            told.last = Some(told.last.map_or(at, |last| last.max(at)));
            told.events += 1;
            let kind: String = row.get(1)?;
            told.prompts += u64::from(kind == "UserPromptSubmit");
            let (tool, file): (Option<String>, Option<String>) = (row.get(2)?, row.get(3)?);
            let Some(when) = USES.iter().position(|use_| *use_ == kind) else {
                continue;
            };
            let Some(tool) = tool else { continue };
            told.tools.entry(tool).or_default()[when] += 1;
            if let Some(file) = file {
                let directory: Option<String> = row.get(4)?;
                told.touch(&file, directory.as_deref());
            }
        }
        Ok(told)
    }

    /// What is known of a session, in whichever projects.
    fn sessions_of(&self, id: &SessionId) -> Write<Vec<SessionRecord>> {
        let reader = self.reader();
        let mut sessions = Vec::new();
        for project in reader.slugs()? {
            sessions.extend(reader.session(&project, id)?);
        }
        Ok(sessions)
    }

    /// The project that was worked on between two times: the only one, else the only one that changed.
    fn project_between(&self, first: Timestamp, last: Timestamp) -> Write<Option<Slug>> {
        let slugs = self.reader().slugs()?;
        if let [only] = slugs.as_slice() {
            return Ok(Some(only.clone()));
        }
        let mut statement = self.connection.prepare_cached(
            "SELECT DISTINCT slug FROM event WHERE seq > (SELECT coalesce(max(seq), 0) FROM event) - ?3 \
             AND at BETWEEN ?1 AND ?2 AND kind NOT LIKE 'usage-%' AND slug IN (SELECT slug FROM project) LIMIT 2",
        )?;
        let changed: Vec<String> = statement
            .query_map(
                params![first.unix_seconds(), last.unix_seconds(), LATEST_CHANGES],
                |row| row.get(0),
            )?
            .collect::<Result<_, _>>()?;
        Ok(match changed.as_slice() {
            [only] => Some(crate::rows::slug(only)?),
            _ => None,
        })
    }
}

impl Told {
    /// Notes a file, if it is below the directory that was worked in and has a name that can be shown.
    fn touch(&mut self, file: &str, directory: Option<&str>) {
        let path = Path::new(file);
        let inside = match directory {
            _ if path.is_relative() => Some(path),
            Some(directory) => path.strip_prefix(directory).ok(),
            None => None,
        };
        let plain = |name: &&str| {
            let odd = |c: char| c.is_control() || matches!(c, '*' | ',' | '`');
            name.len() <= MAX_FILE_BYTES
                && !name.is_empty()
                && !name.contains(odd)
                && !name.split('/').any(|part| part == "..")
        };
        match inside.and_then(Path::to_str).filter(plain) {
            Some(name) => *self.files.entry(name.to_owned()).or_default() += 1,
            None => self.elsewhere = true,
        }
    }

    fn summary(&self) -> String {
        let uses = |counts: &[u64; 2]| if counts[1] > 0 { counts[1] } else { counts[0] };
        let calls: u64 = self.tools.values().map(uses).sum();
        let mut tools: Vec<(&str, u64)> = self
            .tools
            .iter()
            .map(|(name, counts)| (name.as_str(), uses(counts)))
            .collect();
        orchestra_sort::sort_by_key(&mut tools, |(_, count)| std::cmp::Reverse(*count));
        let mut files: Vec<(&str, u64)> = self
            .files
            .iter()
            .map(|(name, count)| (name.as_str(), *count))
            .collect();
        orchestra_sort::sort_by_key(&mut files, |(_, count)| std::cmp::Reverse(*count));
        let tools = named(&tools, |(name, count)| format!("{name} {count}"));
        let mut text = format!("Made of hook events: {calls} tool calls ({tools})");
        // Writing to a text cannot fail.
        if self.prompts > 0 {
            let _ = write!(text, ", {} prompts", self.prompts);
        }
        if !files.is_empty() {
            let files = named(&files, |(name, _)| (*name).to_owned());
            let _ = write!(text, "; files: {files}");
        }
        if self.elsewhere {
            text.push_str("; files elsewhere");
        }
        text
    }
}

/// The first few of some names, and how many more there are.
fn named(all: &[(&str, u64)], show: impl Fn(&(&str, u64)) -> String) -> String {
    let mut names: Vec<String> = all.iter().take(NAMED).map(show).collect();
    if all.len() > NAMED {
        names.push(format!("{} more", all.len() - NAMED));
    }
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::Told;

    #[test]
    fn files_are_named_from_the_directory_that_was_worked_in() {
        let mut told = Told::default();
        for (file, directory) in [
            ("/w/src/a.rs", Some("/w")),
            ("src/a.rs", None),
            ("/w/b.rs", Some("/w")),
            ("/etc/passwd", Some("/w")),
            ("../secret", None),
            ("a\u{1b}[2J", None),
        ] {
            told.touch(file, directory);
        }
        let files: Vec<_> = told.files.into_iter().collect();
        assert_eq!(files, [("b.rs".to_owned(), 1), ("src/a.rs".to_owned(), 2)]);
        assert!(told.elsewhere);
    }
}
