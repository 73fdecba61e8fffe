//! What a file says, field by field, as short hashes: the base that two sides are compared with
//! when both may have changed.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use orchestra_board::{AgentName, Issue, IssueId, Label, OwnState, Project};
use sha2::{Digest, Sha256};

use crate::Chunk;

/// The content of a file, as a hash.
pub(crate) type ContentHash = [u8; 16];

/// The hash of a file's content.
pub(crate) fn content_hash(content: &[u8]) -> ContentHash {
    let digest = Sha256::digest(content);
    *digest.first_chunk().expect("a SHA-256 digest has 32 bytes")
}

/// The fields of a file, each as a hash of what it says. A field that says nothing is left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Fields(BTreeMap<String, u64>);

/// Which side's value of a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The database's; the file's is the same or older.
    Board,
    /// The file's: somebody changed it, and the database did not.
    File,
    /// Both changed it, to different values.
    Both,
}

/// What becomes of a field that both sides changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Both {
    /// It is left for a person to choose.
    Ask,
    /// The person has chosen: the file holds.
    File,
}

impl Side {
    /// The side, after what was chosen for fields that both changed.
    pub(crate) fn settled(self, both: Both) -> Self {
        if self == Self::Both && both == Both::File {
            Self::File
        } else {
            self
        }
    }
}

impl Fields {
    /// The fields of a file that is one value.
    pub(crate) fn whole(text: &str) -> Self {
        let mut fields = Self::default();
        fields.put("text", text);
        fields
    }

    pub(crate) fn put(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            let digest = Sha256::digest(value);
            let head = digest.first_chunk().expect("a SHA-256 digest has 32 bytes");
            self.0
                .insert(name.to_owned(), u64::from_be_bytes(*head) >> 16);
        }
    }

    /// The fields as text for the database.
    pub(crate) fn to_text(&self) -> String {
        let mut text = String::new();
        for (name, hash) in &self.0 {
            write!(text, "{name}={hash:x} ").expect("writing to a string does not fail");
        }
        text
    }

    /// Reads back [`Fields::to_text`]; what is not of that form is left out.
    pub(crate) fn parse(text: &str) -> Self {
        let field = |part: &str| {
            let (name, hash) = part.rsplit_once('=')?;
            Some((name.to_owned(), u64::from_str_radix(hash, 16).ok()?))
        };
        Self(text.split(' ').filter_map(field).collect())
    }

    /// Whose value of a field holds, given what both were when they last agreed.
    pub(crate) fn side(name: &str, base: &Self, board: &Self, file: &Self) -> Side {
        let (base, board, file) = (base.0.get(name), board.0.get(name), file.0.get(name));
        if file == board || file == base {
            Side::Board
        } else if board == base {
            Side::File
        } else {
            Side::Both
        }
    }

    /// Takes a field as `other` has it.
    pub(crate) fn take(&mut self, name: &str, other: &Self) {
        match other.0.get(name) {
            Some(hash) => drop(self.0.insert(name.to_owned(), *hash)),
            None => drop(self.0.remove(name)),
        }
    }

    /// The names of all fields of three.
    pub(crate) fn names(all: [&Self; 3]) -> Vec<&str> {
        let mut names: Vec<&str> = all
            .iter()
            .flat_map(|fields| fields.0.keys().map(String::as_str))
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// The fields of an issue.
pub(crate) fn of_issue(issue: &Issue) -> Fields {
    let mut fields = Fields::default();
    fields.put("title", issue.title.as_str());
    fields.put("description", issue.description.as_str());
    fields.put("type", issue.kind.as_str());
    fields.put("status", issue.state.as_str());
    if issue.own != OwnState::default() {
        fields.put("own", issue.own.as_state().as_str());
    }
    let mut put_shown = |name, value: Option<String>| fields.put(name, &value.unwrap_or_default());
    put_shown(
        "priority",
        issue.priority.map(|priority| priority.to_string()),
    );
    put_shown("parent", issue.parent.as_ref().map(IssueId::to_string));
    put_shown(
        "cancelled_with",
        issue.cancelled_with.as_ref().map(IssueId::to_string),
    );
    put_shown("fixes", issue.fixes.as_ref().map(IssueId::to_string));
    put_shown("created_at", Some(issue.created_at.to_string()));
    put_shown("updated_at", issue.updated_at.map(|time| time.to_string()));
    let claim = issue.claim.as_ref();
    put_shown(
        "claim",
        claim.map(|claim| format!("{}\n{}", claim.agent, claim.until)),
    );
    fields.put(
        "assignees",
        &lines(issue.assignees.iter().map(AgentName::as_str)),
    );
    fields.put("labels", &lines(issue.labels.iter().map(Label::as_str)));
    let depends_on: Vec<String> = issue.depends_on.iter().map(IssueId::to_string).collect();
    fields.put("depends_on", &lines(depends_on.iter().map(String::as_str)));
    fields
}

/// The fields of a project.
pub(crate) fn of_project(project: &Project, aliases: &[(IssueId, IssueId)]) -> Fields {
    let mut fields = Fields::default();
    fields.put("project", project.name.as_str());
    fields.put("description", project.description.as_str());
    fields.put("prd", project.prd_origin.as_str());
    let counters = [project.next_issue, project.next_bug, project.next_request];
    fields.put(
        "counters",
        &counters.map(|number| number.to_string()).join(" "),
    );
    let phase = project
        .phase_of
        .as_ref()
        .map(|(parent, phase)| format!("{parent} {phase}"));
    fields.put("phase_of", &phase.unwrap_or_default());
    fields.put("created_at", &project.created_at.to_string());
    fields.put(
        "updated_at",
        &project
            .updated_at
            .map(|time| time.to_string())
            .unwrap_or_default(),
    );
    let aliases: Vec<String> = aliases
        .iter()
        .map(|(old, new)| format!("{old} {new}"))
        .collect();
    fields.put("aliases", &lines(aliases.iter().map(String::as_str)));
    fields
}

/// The fields of a segment of remembered texts: one a text.
pub(crate) fn of_chunks(chunks: &[Chunk]) -> Fields {
    let mut fields = Fields::default();
    for chunk in chunks {
        let text = crate::toon::records::write_chunks(&chunk.project, std::slice::from_ref(chunk));
        fields.put(&chunk.id.to_string(), &text);
    }
    fields
}

fn lines<'a>(values: impl Iterator<Item = &'a str>) -> String {
    let mut text = String::new();
    for value in values {
        text.push_str(value);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Fields, Side};

    #[test]
    fn a_field_that_one_side_changed_is_that_sides() {
        let fields = |text: &str| {
            let mut fields = Fields::default();
            fields.put("a", text);
            Fields::parse(&fields.to_text())
        };
        let side =
            |base, board, file| Fields::side("a", &fields(base), &fields(board), &fields(file));
        assert_eq!(side("x", "x", "x"), Side::Board);
        assert_eq!(side("x", "y", "x"), Side::Board);
        assert_eq!(side("x", "y", "y"), Side::Board);
        assert_eq!(side("x", "x", "y"), Side::File);
        assert_eq!(side("x", "x", ""), Side::File);
        assert_eq!(side("x", "y", "z"), Side::Both);
        assert_eq!(side("x", "", "z"), Side::Both);
    }
}
