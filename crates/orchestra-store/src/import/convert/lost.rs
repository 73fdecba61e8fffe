//! Members of old files that have no place on the board. Each kind is reported once, and stays in the copy.

use std::collections::BTreeMap;

use orchestra_board::{Body, Title};

use crate::import::yaml::{self, Fields};

/// Maximum number of kinds that are reported one by one.
const MAX_KINDS: usize = 100;

/// Form in which the board takes a member.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    /// A scalar.
    Scalar,
    /// A text with a limit of its own.
    Body,
    Title,
    Label,
    /// Read elsewhere, member by member.
    Nested,
}

/// A mapping in the files of the earlier program.
pub(super) struct Entry {
    /// Its name in the singular.
    name: &'static str,
    members: &'static [(&'static str, Shape)],
}

use Shape::{Body as TextBody, Label, Nested, Scalar, Title as TextTitle};

pub(super) const PROJECT: Entry = Entry {
    name: "project",
    members: &[
        ("project", TextTitle),
        ("slug", Scalar),
        ("status", Scalar),
        ("description", TextBody),
        ("created_at", Scalar),
        ("updated_at", Scalar),
        ("epics", Nested),
        ("stories", Nested),
        ("tasks", Nested),
    ],
};

pub(super) const ISSUE: Entry = Entry {
    name: "issue",
    members: &[
        ("id", Scalar),
        ("title", TextTitle),
        ("type", Scalar),
        ("status", Scalar),
        ("description", TextBody),
        ("priority", Scalar),
        ("created_at", Scalar),
        ("updated_at", Scalar),
        ("children", Nested),
    ],
};

/// A row of a list of issues, which repeats what the file of the issue has.
pub(super) const ROW: Entry = Entry {
    name: "row of an issue",
    members: &[("id", Scalar), ("title", Scalar), ("status", Scalar)],
};

pub(super) const REQUESTS: Entry = Entry {
    name: "list of requests",
    members: &[("project", Scalar), ("requests", Nested)],
};

pub(super) const REQUEST: Entry = Entry {
    name: "request",
    members: &[
        ("id", Scalar),
        ("type", Scalar),
        ("date", Scalar),
        ("description", TextBody),
        ("status", Scalar),
    ],
};

pub(super) const CHUNKS: Entry = Entry {
    name: "list of remembered texts",
    members: &[("project", Scalar), ("chunks", Nested)],
};

pub(super) const CHUNK: Entry = Entry {
    name: "remembered text",
    members: &[
        ("id", Scalar),
        ("project", Scalar),
        ("source", Label),
        ("source_id", Label),
        ("summary", TextBody),
        ("content", TextBody),
        ("tags", Nested),
        ("created_at", Scalar),
    ],
};

pub(super) const SESSION: Entry = Entry {
    name: "session",
    members: &[
        ("session_id", Scalar),
        ("project", Scalar),
        ("summary", TextBody),
        ("events", Nested),
        ("started_at", Scalar),
        ("ended_at", Scalar),
    ],
};

pub(super) const SESSION_EVENT: Entry = Entry {
    name: "event of a session",
    members: &[
        ("type", Label),
        ("summary", TextBody),
        ("timestamp", Scalar),
    ],
};

pub(super) const PRD_SESSION: Entry = Entry {
    name: "questionnaire",
    members: &[
        ("project_name", Scalar),
        ("slug", Scalar),
        ("status", Scalar),
        ("current_index", Scalar),
        ("answers", Nested),
        ("parent_slug", Scalar),
        ("phase", Scalar),
        ("phases", Nested),
    ],
};

pub(super) const ANSWER: Entry = Entry {
    name: "answer",
    members: &[("question", Scalar), ("answer", TextBody)],
};

pub(super) const USAGE: Entry = Entry {
    name: "record of usage",
    members: &[("sessions", Nested), ("totals", Nested)],
};

pub(super) const USAGE_SESSION: Entry = Entry {
    name: "session of usage",
    members: &[
        ("provider", Scalar),
        ("model", Scalar),
        ("started_at", Scalar),
        ("ended_at", Scalar),
        ("requests", Nested),
        ("total_input", Scalar),
        ("total_output", Scalar),
        ("total_cost", Scalar),
    ],
};

pub(super) const USAGE_REQUEST: Entry = Entry {
    name: "request of usage",
    members: &[
        ("timestamp", Scalar),
        ("input_tokens", Scalar),
        ("output_tokens", Scalar),
        ("cost", Scalar),
    ],
};

pub(super) const HOOK_EVENTS: Entry = Entry {
    name: "list of hook events",
    members: &[("events", Nested)],
};

pub(super) const HOOK_EVENT: Entry = Entry {
    name: "hook event",
    members: &[
        ("event_type", Label),
        ("session_id", Label),
        ("tool_name", Label),
        ("agent_type", Label),
        // Reported by itself.
        ("data", Nested),
        ("timestamp", Scalar),
    ],
};

pub(super) const PLAN: Entry = Entry {
    name: "plan",
    members: &[
        ("title", TextTitle),
        ("created", Scalar),
        ("issue_id", Scalar),
    ],
};

/// What was not imported, by kind.
#[derive(Clone, Debug, Default)]
pub(in crate::import) struct Lost {
    /// For each kind of entry and what it loses: how often, and the first file.
    kinds: BTreeMap<(&'static str, String), (usize, String)>,
    /// Losses of further kinds.
    more: usize,
}

impl Lost {
    /// Notes what is lost of an entry: members that are unknown or of another form, and ends of texts.
    pub(super) fn look(&mut self, path: &str, entry: &Entry, fields: &Fields) {
        for key in fields.keys() {
            let known = entry.members.iter().find(|(name, _)| *name == key);
            let Some((_, shape)) = known else {
                self.note(path, entry, format!("`{}`", short(&key)));
                continue;
            };
            match (shape, fields.text(&key)) {
                (Shape::Nested, _) => {}
                (_, None) => self.note(path, entry, format!("`{key}`")),
                (shape, Some(text)) if shape.cuts(&text) => {
                    self.note(path, entry, format!("part of `{key}`"));
                }
                _ => {}
            }
        }
    }

    /// The same for each of several entries.
    pub(super) fn look_at_rows(&mut self, path: &str, entry: &Entry, rows: &[Fields]) {
        for row in rows {
            self.look(path, entry, row);
        }
    }

    /// Notes a value that the board does not have, if it is not one of those that it has.
    pub(super) fn value(
        &mut self,
        path: &str,
        entry: &Entry,
        fields: &Fields,
        key: &str,
        is_known: impl FnOnce(&str) -> bool,
    ) {
        let value = fields.text(key).filter(|text| !text.trim().is_empty());
        if let Some(value) = value.filter(|value| !is_known(value)) {
            self.note(path, entry, format!("`{key}: {}`", short(&value)));
        }
    }

    /// Notes one loss.
    pub(super) fn note(&mut self, path: &str, entry: &Entry, what: String) {
        self.add(entry.name, what, 1, path);
    }

    /// Adds the losses of another part of the files.
    pub(in crate::import) fn merge(&mut self, other: Self) {
        for ((name, what), (count, first)) in other.kinds {
            self.add(name, what, count, &first);
        }
        self.more += other.more;
    }

    fn add(&mut self, name: &'static str, what: String, count: usize, path: &str) {
        let key = (name, what);
        if let Some((times, _)) = self.kinds.get_mut(&key) {
            *times += count;
        } else if self.kinds.len() < MAX_KINDS {
            self.kinds.insert(key, (count, path.to_owned()));
        } else {
            self.more += count;
        }
    }

    /// A sentence for each kind.
    pub(in crate::import) fn remarks(&self) -> Vec<String> {
        let mut remarks: Vec<String> = self
            .kinds
            .iter()
            .map(|((name, what), (count, first))| match count {
                1 => format!("{what} of one {name} is in the copy alone: {first}"),
                _ => format!(
                    "{what} is in the copy alone; {count} entries of the kind `{name}` have it, first in {first}"
                ),
            })
            .collect();
        if self.more > 0 {
            let more = self.more;
            remarks.push(format!("{more} further members are in the copy alone"));
        }
        remarks
    }
}

impl Shape {
    /// Returns whether the board takes less than the text.
    fn cuts(self, text: &str) -> bool {
        let has_control = |except: &[char]| {
            let mut chars = text.chars();
            chars.any(|c| c.is_control() && !except.contains(&c))
        };
        match self {
            Self::Scalar | Self::Nested => false,
            Self::Body => text.len() > Body::MAX_BYTES || has_control(&['\n', '\r', '\t']),
            Self::Title => text.trim().chars().count() > Title::MAX_CHARS,
            Self::Label => {
                let text = text.trim();
                yaml::label(text).map_or(0, |label| label.as_str().chars().count())
                    < text.chars().count()
            }
        }
    }
}

/// The beginning of a text, for a remark of one line.
pub(super) fn short(text: &str) -> String {
    const MAX_CHARS: usize = 60;
    let mut shown: String = text
        .chars()
        .filter(|c| !c.is_control())
        .take(MAX_CHARS)
        .collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}
