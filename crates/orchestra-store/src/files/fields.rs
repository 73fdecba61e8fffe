//! What a file says, field by field, as short hashes: the base that two sides are compared with
//! when both may have changed.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use orchestra_board::{AgentName, Issue, IssueId, Label, OwnState, Project};
use sha2::{Digest, Sha256};

use crate::Chunk;
use crate::toon::project::Retired;

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

/// The name of the field with an issue's description.
pub(crate) const DESCRIPTION: &str = "description";

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

/// What becomes of fields that both sides changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Choice {
    /// They are left for a person to choose.
    Open,
    /// The person has chosen the file's, of two sides of which the board's was this.
    File {
        /// The fields of the board as the person saw them.
        shown: Fields,
    },
}

/// What both sides of a file last agreed on, as far as that is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Base {
    /// The fields of the file as it was last seen.
    pub(crate) seen: Option<Fields>,
    /// The fields of what was about to be written when a run was cut off or disturbed: some of it
    /// may stand there, and is nobody's change.
    pub(crate) announced: Option<Fields>,
}

/// The sides of one file that are to be brought together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sides<'a> {
    pub(crate) base: &'a Base,
    pub(crate) board: &'a Fields,
    pub(crate) file: &'a Fields,
    pub(crate) choice: &'a Choice,
}

impl Sides<'_> {
    /// Whose value of a field holds.
    pub(crate) fn of(&self, name: &str) -> Side {
        let side = self.changed(name);
        match self.choice {
            Choice::File { shown } if side == Side::Both => {
                if shown.says(name) == self.board.says(name) {
                    Side::File
                } else {
                    // The person has not seen what the board says now.
                    Side::Both
                }
            }
            Choice::File { .. } | Choice::Open => side,
        }
    }

    fn changed(&self, name: &str) -> Side {
        let (board, file) = (self.board.says(name), self.file.says(name));
        let announced = self.base.announced.as_ref();
        if file == board || announced.is_some_and(|fields| fields.says(name) == file) {
            return Side::Board;
        }
        match (&self.base.seen, board, file) {
            (Some(seen), _, file) if seen.says(name) == file => Side::Board,
            (Some(seen), board, _) if seen.says(name) == board => Side::File,
            (Some(_), ..) => Side::Both,
            // The sides never met: whichever says something holds.
            (None, None, _) => Side::File,
            (None, _, None) => Side::Board,
            (None, ..) => Side::Both,
        }
    }

    /// What is agreed on before anything is: the fields that are settled are put there one by one.
    pub(crate) fn agreed(&self) -> Fields {
        self.base.seen.clone().unwrap_or_default()
    }

    /// The names of all fields.
    pub(crate) fn names(&self) -> Vec<&str> {
        let known = [&self.base.seen, &self.base.announced];
        let all = known.into_iter().flatten().chain([self.board, self.file]);
        let mut names: Vec<&str> = all
            .flat_map(|fields| fields.0.keys().map(String::as_str))
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

impl Fields {
    /// The fields of a file that is one value.
    pub(crate) fn whole(text: impl AsRef<[u8]>) -> Self {
        let mut fields = Self::default();
        fields.put("text", text);
        fields
    }

    pub(crate) fn put(&mut self, name: &str, value: impl AsRef<[u8]>) {
        let value = value.as_ref();
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

    /// What a field says, as a hash; `None` when it says nothing.
    fn says(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }

    /// Gives a field a value that no side has.
    pub(crate) fn disagree(&mut self, name: &str) {
        self.put(name, "\0");
    }

    /// Whether a field is the same in `other`.
    pub(crate) fn agrees(&self, name: &str, other: &Self) -> bool {
        self.says(name) == other.says(name)
    }

    /// Takes a field as `other` has it.
    pub(crate) fn take(&mut self, name: &str, other: &Self) {
        match other.0.get(name) {
            Some(hash) => drop(self.0.insert(name.to_owned(), *hash)),
            None => drop(self.0.remove(name)),
        }
    }
}

/// The fields of an issue.
pub(crate) fn of_issue(issue: &Issue) -> Fields {
    let mut fields = Fields::default();
    fields.put("title", issue.title.as_str());
    fields.put(DESCRIPTION, issue.description.as_str());
    fields.put("type", issue.kind.as_str());
    fields.put("status", issue.state.as_str());
    if issue.own != OwnState::default() {
        fields.put("own", issue.own.as_state().as_str());
    }
    let mut put_shown = |name, value: Option<String>| fields.put(name, value.unwrap_or_default());
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
        lines(issue.assignees.iter().map(AgentName::as_str)),
    );
    fields.put("labels", lines(issue.labels.iter().map(Label::as_str)));
    let depends_on: Vec<String> = issue.depends_on.iter().map(IssueId::to_string).collect();
    fields.put("depends_on", lines(depends_on.iter().map(String::as_str)));
    fields
}

/// The fields of a project.
pub(crate) fn of_project(project: &Project, retired: &Retired) -> Fields {
    let mut fields = Fields::default();
    fields.put("project", project.name.as_str());
    fields.put("description", project.description.as_str());
    fields.put("prd", project.prd_origin.as_str());
    let counters = [project.next_issue, project.next_bug, project.next_request];
    fields.put(
        "counters",
        counters.map(|number| number.to_string()).join(" "),
    );
    let phase = project
        .phase_of
        .as_ref()
        .map(|(parent, phase)| format!("{parent} {phase}"));
    fields.put("phase_of", phase.unwrap_or_default());
    fields.put("created_at", project.created_at.to_string());
    fields.put(
        "updated_at",
        project
            .updated_at
            .map(|time| time.to_string())
            .unwrap_or_default(),
    );
    let aliases: Vec<String> = retired
        .aliases
        .iter()
        .map(|(old, new)| format!("{old} {new}"))
        .collect();
    fields.put("aliases", lines(aliases.iter().map(String::as_str)));
    let deleted: Vec<String> = retired
        .deleted
        .iter()
        .map(|stone| format!("{} {} {}", stone.id, stone.uid, stone.at))
        .collect();
    fields.put("deleted", lines(deleted.iter().map(String::as_str)));
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
    use super::{Base, Choice, Fields, Side, Sides};

    fn fields(text: &str) -> Fields {
        let mut fields = Fields::default();
        fields.put("a", text);
        Fields::parse(&fields.to_text())
    }

    fn side(base: &Base, choice: &Choice, board: &str, file: &str) -> Side {
        let (board, file) = (&fields(board), &fields(file));
        let sides = Sides {
            base,
            board,
            file,
            choice,
        };
        sides.of("a")
    }

    #[test]
    fn a_field_that_one_side_changed_is_that_sides() {
        let check = |seen: &str, board, file| {
            let base = Base {
                seen: Some(fields(seen)),
                announced: None,
            };
            side(&base, &Choice::Open, board, file)
        };
        assert_eq!(check("x", "x", "x"), Side::Board);
        assert_eq!(check("x", "y", "x"), Side::Board);
        assert_eq!(check("x", "y", "y"), Side::Board);
        assert_eq!(check("x", "x", "y"), Side::File);
        assert_eq!(check("x", "x", ""), Side::File);
        assert_eq!(check("x", "y", "z"), Side::Both);
        assert_eq!(check("x", "", "z"), Side::Both);
    }

    #[test]
    fn sides_that_never_met_keep_what_both_say() {
        let check = |board, file| side(&Base::default(), &Choice::Open, board, file);
        assert_eq!(check("x", "x"), Side::Board);
        assert_eq!(check("x", ""), Side::Board);
        assert_eq!(check("", "x"), Side::File);
        assert_eq!(check("x", "y"), Side::Both);
    }

    #[test]
    fn what_was_announced_is_nobodys_change() {
        let check = |seen: Option<&str>, board, file| {
            let base = Base {
                seen: seen.map(fields),
                announced: Some(fields("n")),
            };
            side(&base, &Choice::Open, board, file)
        };
        assert_eq!(check(Some("x"), "y", "n"), Side::Board);
        assert_eq!(check(Some("x"), "n", "x"), Side::Board);
        assert_eq!(check(Some("x"), "x", "z"), Side::File);
        assert_eq!(check(Some("x"), "n", "z"), Side::Both);
        assert_eq!(check(None, "y", "n"), Side::Board);
        // What stood there before we wrote is not ours.
        assert_eq!(check(None, "n", "z"), Side::Both);
    }

    #[test]
    fn a_choice_holds_for_what_was_shown() {
        let base = Base {
            seen: Some(fields("x")),
            announced: None,
        };
        let check = |shown, board, file| {
            let choice = Choice::File {
                shown: fields(shown),
            };
            side(&base, &choice, board, file)
        };
        assert_eq!(check("y", "y", "z"), Side::File);
        assert_eq!(check("y", "w", "z"), Side::Both);
        assert_eq!(check("y", "y", "x"), Side::Board);
    }
}
