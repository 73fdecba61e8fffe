//! `{id}.history.jsonl`: what happened to an issue, one JSON object a line, oldest first, so that
//! git can merge two histories by taking the lines of both. An answer about an issue's history
//! shows what a line says, no more, so that a board rebuilt from its files answers the same.

use std::borrow::Cow;
use std::collections::HashSet;

use orchestra_board::{
    AgentName, Body, Cause, Change, Edit, Event, Issue, IssueId, Kind, Label, OwnState, Priority,
    Slug, Source, State, Timestamp, Title, Uid,
};
use serde_json::{Map, Value, json};

use super::document::{check_merge_marks, chosen, line_number};
use super::{FileError, FileFault};

/// The most characters of a description that a line repeats.
const SHOWN_CHARS: usize = 200;

/// One line, without its end; `None` for what is not part of an issue's history.
pub(crate) fn line(event: &Event) -> Option<String> {
    let mut fields = Map::new();
    fields.insert("at".to_owned(), event.at.to_string().into());
    if let Some(agent) = &event.agent {
        fields.insert("agent".to_owned(), agent.as_str().into());
    }
    match event.source {
        Source::Tool => {}
        Source::File => drop(fields.insert("source".to_owned(), "file".into())),
        Source::Import => drop(fields.insert("source".to_owned(), "import".into())),
    }
    let Value::Object(change) = change_value(&event.change)? else {
        return None;
    };
    fields.extend(change.into_iter().filter(|(_, value)| !value.is_null()));
    let line = Value::Object(fields).to_string();
    Some(match event.uid {
        Some(uid) => with_uid(line, uid),
        None => line,
    })
}

/// The end of a line with a uid, before it.
const UID: &str = ",\"uid\":\"";
/// What stands behind it.
const END: &str = "\"}";
/// Number of bytes that a uid adds to a line.
pub(crate) const UID_BYTES: usize = UID.len() + Uid::LENGTH + 1;

/// Adds a uid to a line without one.
pub(crate) fn with_uid(mut line: String, uid: Uid) -> String {
    debug_assert!(line.ends_with('}'), "a line is a JSON object");
    line.truncate(line.len().saturating_sub(1));
    line.push_str(UID);
    line.push_str(&uid.to_string());
    line.push_str(END);
    line
}

/// A line without its uid, when that stands where [`with_uid`] puts it.
pub(crate) fn without_uid(line: &str) -> Cow<'_, str> {
    let uid = line.len().checked_sub(UID_BYTES + 1).and_then(|at| {
        let rest = line.get(at..)?.strip_prefix(UID)?.strip_suffix(END)?;
        Uid::parse(rest).ok().map(|_| at)
    });
    match uid {
        Some(at) => Cow::Owned(format!("{}}}", &line[..at])),
        None => Cow::Borrowed(line),
    }
}

fn change_value(change: &Change) -> Option<Value> {
    Some(match change {
        Change::IssueCreated(issue) => json!({
            "change": "created", "type": issue.kind.as_str(), "title": issue.title.as_str(),
            "status": issue.state.as_str(), "fixes": issue.fixes.as_ref().map(IssueId::to_string),
        }),
        Change::Edited(edit) => {
            json!({"change": "edited", "field": edit.field(), "value": edit_value(edit)})
        }
        Change::Moved { to } => json!({"change": "moved", "to": to.to_string()}),
        Change::StateChanged {
            from,
            to,
            cause,
            evidence,
            reason,
        } => json!({
            "change": "status", "from": from.as_str(), "to": to.as_str(),
            "cause": match cause {
                Cause::Command => None,
                Cause::Children => Some("children"),
                Cause::CancelledWith(_) => Some("cancelled_with"),
                Cause::Restored => Some("restored"),
            },
            "with": match cause {
                Cause::CancelledWith(id) => Some(id.to_string()),
                _ => None,
            },
            "evidence": evidence.as_ref().map(Body::as_str),
            "reason": reason.as_ref().map(Body::as_str),
        }),
        Change::OwnStateChanged { own } => {
            json!({"change": "own_status", "to": own.as_state().as_str()})
        }
        Change::Claimed { agent, until } => {
            json!({"change": "claimed", "by": agent.as_str(), "until": until.to_string()})
        }
        Change::Released { agent } => json!({"change": "released", "by": agent.as_str()}),
        Change::DependencyAdded { on } => {
            json!({"change": "dependency_added", "on": on.to_string()})
        }
        Change::DependencyRemoved { on } => {
            json!({"change": "dependency_removed", "on": on.to_string()})
        }
        Change::Commented { text } => json!({"change": "comment", "text": text.as_str()}),
        _ => return None,
    })
}

fn edit_value(edit: &Edit) -> Value {
    match edit {
        Edit::Title(title) => title.as_str().into(),
        Edit::Description(body) => shortened(body.as_str()).into(),
        Edit::Priority(priority) => priority.map(Priority::as_str).unwrap_or_default().into(),
        Edit::Assignees(agents) => agents.iter().map(AgentName::as_str).collect(),
        Edit::Labels(labels) => labels.iter().map(Label::as_str).collect(),
    }
}

/// The beginning of a text; of its own result it gives the same again.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        None => text.to_owned(),
        Some(_) => {
            let mut short: String = text.chars().take(SHOWN_CHARS - 1).collect();
            short.truncate(short.trim_end().len());
            short.push('…');
            short
        }
    }
}

/// Reads a whole history.
pub(crate) fn read(
    file: &str,
    text: &str,
    project: &Slug,
    id: &IssueId,
) -> Result<Vec<Event>, FileError> {
    check_merge_marks(file, text)?;
    let mut events = Vec::new();
    for (index, line) in text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
    {
        let event = read_line(line, project, id).map_err(|(field, fault)| FileError {
            file: file.to_owned(),
            line: line_number(index + 1),
            field: field.to_owned(),
            fault,
        })?;
        events.push(event);
    }
    Ok(events)
}

/// Reads one line. An error is the name of a field and what is wrong with it.
pub(crate) fn read_line(
    line: &str,
    project: &Slug,
    id: &IssueId,
) -> Result<Event, (&'static str, FileFault)> {
    let fields: Map<String, Value> = serde_json::from_str(line).map_err(|error| {
        (
            "",
            FileFault::Syntax(format!("is not a JSON object: {error}")),
        )
    })?;
    let mut fields = Line(fields);
    let event = fields
        .event(project, id)
        .and_then(|event| fields.finish().map(|()| event));
    event.map_err(|(field, what)| (field, FileFault::Field(what)))
}

/// The fields of one line, taken out one by one. An error is a field's name and what is wrong.
struct Line(Map<String, Value>);

type Wrong = (&'static str, String);

impl Line {
    fn optional(&mut self, key: &'static str) -> Result<Option<String>, Wrong> {
        match self.0.remove(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err((key, "must be text".to_owned())),
        }
    }

    fn text(&mut self, key: &'static str) -> Result<String, Wrong> {
        self.optional(key)?
            .ok_or_else(|| (key, "is missing".to_owned()))
    }

    fn parsed<T, E: std::fmt::Display>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<T, Wrong> {
        let text = self.text(key)?;
        parse(&text).map_err(|error| (key, error.to_string()))
    }

    fn named<T>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, Wrong> {
        self.parsed(key, |text| {
            parse(text).ok_or_else(|| format!("cannot be `{}`", text.escape_debug()))
        })
    }

    fn choice<T: Copy>(
        &mut self,
        key: &'static str,
        all: &[T],
        name: impl Fn(T) -> &'static str,
    ) -> Result<T, Wrong> {
        self.parsed(key, |text| chosen(text, all, name))
    }

    fn body(&mut self, key: &'static str) -> Result<Option<Body>, Wrong> {
        let text = self.optional(key)?;
        text.map(|text| Body::parse(&text).map_err(|error| (key, error.to_string())))
            .transpose()
    }

    fn finish(&self) -> Result<(), Wrong> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(key) => Err((
                "",
                format!(
                    "`{}` is not a field of this line; remove it",
                    key.escape_debug()
                ),
            )),
        }
    }

    fn event(&mut self, project: &Slug, id: &IssueId) -> Result<Event, Wrong> {
        let at = self.parsed("at", Timestamp::parse)?;
        let agent = self.optional("agent")?;
        let agent =
            agent.map(|name| AgentName::parse(&name).map_err(|error| ("agent", error.to_string())));
        let source = match self.optional("source")?.as_deref() {
            None | Some("tool") => Source::Tool,
            Some("file") => Source::File,
            Some("import") => Source::Import,
            Some(_) => return Err(("source", "must be tool, file or import".to_owned())),
        };
        let change = self.change(project, id, at)?;
        let uid = self.optional("uid")?;
        let uid = uid.map(|uid| Uid::parse(&uid).map_err(|error| ("uid", error.to_string())));
        let (project, issue) = (Some(project.clone()), Some(id.clone()));
        Ok(Event {
            at,
            project,
            issue,
            agent: agent.transpose()?,
            source,
            change,
            uid: uid.transpose()?,
        })
    }

    fn change(&mut self, project: &Slug, id: &IssueId, at: Timestamp) -> Result<Change, Wrong> {
        let name = self.text("change")?;
        Ok(match name.as_str() {
            "created" => Change::IssueCreated(Box::new(self.created(project, id, at)?)),
            "edited" => Change::Edited(self.edit()?),
            "moved" => Change::Moved {
                to: self.parsed("to", IssueId::parse)?,
            },
            "status" => Change::StateChanged {
                from: self.choice("from", &State::ALL, State::as_str)?,
                to: self.choice("to", &State::ALL, State::as_str)?,
                cause: self.cause()?,
                evidence: self.body("evidence")?,
                reason: self.body("reason")?,
            },
            "own_status" => {
                let own = |text: &str| State::parse(text).and_then(OwnState::of_state);
                Change::OwnStateChanged {
                    own: self.named("to", own)?,
                }
            }
            "claimed" => Change::Claimed {
                agent: self.parsed("by", AgentName::parse)?,
                until: self.parsed("until", Timestamp::parse)?,
            },
            "released" => Change::Released {
                agent: self.parsed("by", AgentName::parse)?,
            },
            "dependency_added" => Change::DependencyAdded {
                on: self.parsed("on", IssueId::parse)?,
            },
            "dependency_removed" => Change::DependencyRemoved {
                on: self.parsed("on", IssueId::parse)?,
            },
            "comment" => Change::Commented {
                text: self.body("text")?.unwrap_or_default(),
            },
            _ => return Err(("change", format!("cannot be `{}`", name.escape_debug()))),
        })
    }

    fn cause(&mut self) -> Result<Cause, Wrong> {
        Ok(match self.optional("cause")?.as_deref() {
            None => Cause::Command,
            Some("children") => Cause::Children,
            Some("restored") => Cause::Restored,
            Some("cancelled_with") => Cause::CancelledWith(self.parsed("with", IssueId::parse)?),
            Some(_) => {
                return Err((
                    "cause",
                    "must be children, cancelled_with or restored".to_owned(),
                ));
            }
        })
    }

    fn edit(&mut self) -> Result<Edit, Wrong> {
        let field = self.text("field")?;
        Ok(match field.as_str() {
            "title" => Edit::Title(self.parsed("value", Title::parse)?),
            "description" => Edit::Description(self.body("value")?.unwrap_or_default()),
            "priority" => match self.text("value")?.as_str() {
                "" => Edit::Priority(None),
                name => {
                    let unknown = || ("value", "must be low, medium, high or critical".to_owned());
                    Edit::Priority(Some(Priority::parse(name).ok_or_else(unknown)?))
                }
            },
            "assignees" => Edit::Assignees(self.values(AgentName::parse)?),
            "labels" => Edit::Labels(self.values(Label::parse)?),
            _ => return Err(("field", format!("cannot be `{}`", field.escape_debug()))),
        })
    }

    fn values<T, E: std::fmt::Display>(
        &mut self,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Result<Vec<T>, Wrong> {
        let wrong = || ("value", "must be a list of texts".to_owned());
        let Some(Value::Array(values)) = self.0.remove("value") else {
            return Err(wrong());
        };
        let one = |value: Value| {
            let text = value.as_str().ok_or_else(wrong)?;
            parse(text).map_err(|error| ("value", error.to_string()))
        };
        values.into_iter().map(one).collect()
    }

    /// The issue as it was made, as far as the line says.
    fn created(&mut self, project: &Slug, id: &IssueId, at: Timestamp) -> Result<Issue, Wrong> {
        let state = self.choice("status", &State::ALL, State::as_str)?;
        let fixes = self.optional("fixes")?;
        let fixes =
            fixes.map(|id| IssueId::parse(&id).map_err(|error| ("fixes", error.to_string())));
        Ok(Issue {
            project: project.clone(),
            id: id.clone(),
            uid: None,
            kind: self.choice("type", &Kind::ALL, Kind::as_str)?,
            parent: None,
            title: self.parsed("title", Title::parse)?,
            description: Body::default(),
            priority: None,
            state,
            own: OwnState::of_state(state).unwrap_or_default(),
            cancelled_with: None,
            fixes: fixes.transpose()?,
            assignees: Vec::new(),
            labels: Vec::new(),
            depends_on: Vec::new(),
            claim: None,
            created_at: at,
            updated_at: None,
        })
    }
}

/// Set of lines of a history. Lines with a uid are compared by it, lines that an earlier version of the program wrote by
/// their text.
pub(crate) struct Lines {
    uids: HashSet<Uid>,
    with_uid: HashSet<String>,
    without: HashSet<String>,
}

impl Lines {
    pub(crate) fn of(events: &[Event]) -> Self {
        let mut lines = Self {
            uids: HashSet::new(),
            with_uid: HashSet::new(),
            without: HashSet::new(),
        };
        for event in events {
            lines.uids.extend(event.uid);
            let among = match event.uid {
                Some(_) => &mut lines.with_uid,
                None => &mut lines.without,
            };
            among.extend(bare(event));
        }
        lines
    }

    /// Returns whether a line is among them.
    pub(crate) fn has(&self, event: &Event) -> bool {
        match event.uid {
            Some(uid) => {
                self.uids.contains(&uid)
                    || bare(event).is_some_and(|line| self.without.contains(&line))
            }
            None => bare(event)
                .is_some_and(|line| self.with_uid.contains(&line) || self.without.contains(&line)),
        }
    }
}

/// The text of a line, without its uid.
fn bare(event: &Event) -> Option<String> {
    let line = line(event)?;
    Some(without_uid(&line).into_owned())
}

#[cfg(test)]
mod tests {
    use orchestra_board::{IssueId, Slug};

    use super::{line, read, shortened};

    #[test]
    fn lines_are_read_back_as_they_were() {
        let (project, id) = (Slug::parse("p").unwrap(), IssueId::parse("P-1").unwrap());
        let lines = [
            r#"{"at":"2026-01-01T00:00:00Z","change":"created","type":"task","title":"T","status":"backlog"}"#,
            r#"{"at":"2026-01-01T00:00:00Z","source":"file","change":"created","type":"bug","title":"T","status":"backlog","fixes":"P-2"}"#,
            r#"{"at":"2026-01-01T00:00:01Z","agent":"bob","change":"status","from":"todo","to":"in-progress"}"#,
            r#"{"at":"2026-01-01T00:00:01Z","change":"status","from":"in-progress","to":"ready-for-testing","evidence":"ran\nthem \"all\""}"#,
            r#"{"at":"2026-01-01T00:00:01Z","change":"status","from":"todo","to":"cancelled","cause":"cancelled_with","with":"P-3"}"#,
            r#"{"at":"2026-01-01T00:00:01Z","change":"status","from":"in-review","to":"rejected","reason":"no"}"#,
            r#"{"at":"2026-01-01T00:00:01Z","change":"own_status","to":"todo"}"#,
            r#"{"at":"2026-01-01T00:00:01Z","source":"import","change":"edited","field":"labels","value":["a,b","c"]}"#,
            r#"{"at":"2026-01-01T00:00:01Z","change":"edited","field":"priority","value":""}"#,
            r#"{"at":"2026-01-01T00:00:01Z","change":"edited","field":"priority","value":"high"}"#,
            r#"{"at":"2026-01-01T00:00:01Z","change":"edited","field":"description","value":"שלום 🚀"}"#,
            r#"{"at":"2026-01-01T00:00:01Z","change":"moved","to":"P-4"}"#,
            r#"{"at":"2026-01-01T00:00:01Z","change":"claimed","by":"bob","until":"2026-01-01T00:30:00Z"}"#,
            r#"{"at":"2026-01-01T00:00:01Z","change":"released","by":"bob"}"#,
            r#"{"at":"2026-01-01T00:00:01Z","change":"dependency_added","on":"P-5"}"#,
            r#"{"at":"2026-01-01T00:00:01Z","change":"dependency_removed","on":"P-5"}"#,
            r#"{"at":"2026-01-01T00:00:01Z","change":"comment","text":"so it is"}"#,
            r#"{"at":"2026-01-01T00:00:01Z","change":"comment","text":"so","uid":"gaaaaaaaaaaaaaaaaaaaaaaaab"}"#,
        ];
        let events = read("h", &lines.join("\n"), &project, &id).expect("reads");
        let written: Vec<String> = events.iter().filter_map(line).collect();
        assert_eq!(written, lines);
    }

    #[test]
    fn errors_name_line_and_field() {
        let (project, id) = (Slug::parse("p").unwrap(), IssueId::parse("P-1").unwrap());
        let check = |text: &str, shown: &str| {
            assert_eq!(
                read("h", text, &project, &id).expect_err(text).to_string(),
                shown
            );
        };
        check("\n{\"at\":1}", "h:2: at: must be text");
        check(
            "{\"at\":\"2026-01-01T00:00:00Z\",\"change\":\"x\"}",
            "h:1: change: cannot be `x`",
        );
        check(
            "<<<<<<< a\n{}\n=======\n>>>>>>> b\n",
            "h:1: contains conflict markers of an unfinished merge; choose a side and remove them",
        );
    }

    #[test]
    fn short_texts_stay_as_they_are() {
        let short = shortened(&"é".repeat(1_000));
        assert_eq!(short.chars().count(), 200);
        assert_eq!(shortened(&short), short);
    }
}
