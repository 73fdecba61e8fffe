//! The earlier program's epics, stories and tasks.

use std::collections::{BTreeMap, HashSet};
use std::io;

use orchestra_board::{
    Issue, IssueId, Kind, OwnState, Priority, Slug, State, Tally, Timestamp, Title, parent_state,
};

use super::OldWorkspace;
use super::lost::{ISSUE, ROW, short};
use crate::import::Tree;
use crate::import::yaml::Fields;
use crate::io::EntryKind;

impl OldWorkspace {
    pub(super) fn read_issues(
        &mut self,
        tree: &Tree,
        slug: &Slug,
        at: Timestamp,
    ) -> io::Result<Vec<Issue>> {
        let mut read = Issues {
            slug: slug.clone(),
            at,
            taken: HashSet::new(),
            remarks: Remarks::default(),
        };
        let mut all = Vec::new();
        let epics = format!("{slug}/epics");
        for epic in tree.names(&epics, EntryKind::Directory)? {
            let path = format!("{epics}/{epic}");
            let fields = format!("{path}/epic.toon");
            let Some(mut parent) = self.read_issue(tree, &fields, &mut read, Kind::Epic, None)?
            else {
                self.leave_without(tree, &path, &fields)?;
                continue;
            };
            let (mut stories, mut below) = (Vec::new(), Vec::new());
            for story in tree.names(&format!("{path}/stories"), EntryKind::Directory)? {
                let path = format!("{path}/stories/{story}");
                let (fields, above) = (format!("{path}/story.toon"), Some(&parent.id));
                let Some(mut story) =
                    self.read_issue(tree, &fields, &mut read, Kind::Story, above)?
                else {
                    self.leave_without(tree, &path, &fields)?;
                    continue;
                };
                let mut tasks = Vec::new();
                for task in tree.names(&format!("{path}/tasks"), EntryKind::File)? {
                    if task.ends_with(".toon") {
                        let path = format!("{path}/tasks/{task}");
                        tasks.extend(self.read_issue(
                            tree,
                            &path,
                            &mut read,
                            Kind::Task,
                            Some(&story.id),
                        )?);
                    }
                }
                follow(&mut story, &tasks);
                below.append(&mut tasks);
                stories.push(story);
            }
            follow(&mut parent, &stories);
            all.push(parent);
            all.append(&mut stories);
            all.append(&mut below);
        }
        self.remarks.extend(read.remarks.lines());
        Ok(all)
    }

    /// Notes a directory of an issue that has no file of its own.
    fn leave_without(&mut self, tree: &Tree, path: &str, fields: &str) -> io::Result<()> {
        if tree.text(fields)?.is_none() {
            self.leave(
                fields,
                &format!("is missing or no text, so what is below {path} has no place"),
            );
        }
        Ok(())
    }

    fn read_issue(
        &mut self,
        tree: &Tree,
        path: &str,
        read: &mut Issues,
        place: Kind,
        parent: Option<&IssueId>,
    ) -> io::Result<Option<Issue>> {
        let Some(fields) = self.parse(tree, path, "id")? else {
            return Ok(None);
        };
        let Some(id) = fields.text("id").and_then(|id| IssueId::parse(&id).ok()) else {
            self.files.pop();
            self.leave(path, "has no id that can be kept");
            return Ok(None);
        };
        self.lost.look(path, &ISSUE, &fields);
        self.lost.look_at_rows(path, &ROW, &fields.rows("children"));
        Ok(Some(read.issue(path, &fields, id, place, parent.cloned())))
    }
}

/// The issues of one project, as they are read.
struct Issues {
    slug: Slug,
    at: Timestamp,
    taken: HashSet<IssueId>,
    remarks: Remarks,
}

/// Values that were not taken over as they were: for each sentence the first file and the number of files.
#[derive(Default)]
struct Remarks(BTreeMap<String, (String, usize)>);

impl Remarks {
    fn add(&mut self, path: &str, sentence: String) {
        let (_, count) = self
            .0
            .entry(sentence)
            .or_insert_with(|| (path.to_owned(), 0));
        *count += 1;
    }

    fn lines(self) -> impl Iterator<Item = String> {
        let lines = self.0.into_iter();
        lines.map(|(sentence, (path, count))| match count - 1 {
            0 => format!("{path}: {sentence}"),
            more => format!("{path} and {more} more: {sentence}"),
        })
    }
}

impl Issues {
    fn issue(
        &mut self,
        path: &str,
        fields: &Fields,
        id: IssueId,
        place: Kind,
        parent: Option<IssueId>,
    ) -> Issue {
        let id = self.free_id(path, id);
        let mut of = Defaults {
            path,
            fields,
            remarks: &mut self.remarks,
        };
        let fits = |kind: &Kind| *kind == place || (kind.is_leaf() && place == Kind::Task);
        let kind = of.known("type", place.as_str(), |text| {
            Kind::parse(text).filter(fits)
        });
        let state = of.known("status", State::Backlog.as_str(), |text| {
            State::parse(&text.trim().to_lowercase().replace(['_', ' '], "-"))
        });
        let created_at = of.known("created_at", &self.at.to_string(), |text| {
            Timestamp::parse(text).ok()
        });
        let title = of.known("title", &id.to_string(), Title::cut);
        let priority = of.known_if_there("priority", Priority::parse);
        let updated_at = of.known_if_there("updated_at", |text| Timestamp::parse(text).ok());
        let (kind, state) = (kind.unwrap_or(place), state.unwrap_or(State::Backlog));
        let own = OwnState::of_state(state)
            .filter(|_| !kind.is_leaf())
            .unwrap_or_default();
        Issue {
            project: self.slug.clone(),
            title: title
                .or_else(|| Title::cut(&id.to_string()))
                .expect("an id is a title"),
            id,
            uid: None,
            kind,
            parent,
            description: fields.body("description"),
            priority,
            state,
            own,
            cancelled_with: None,
            fixes: None,
            assignees: Vec::new(),
            labels: Vec::new(),
            depends_on: Vec::new(),
            claim: None,
            created_at: created_at.unwrap_or(self.at),
            updated_at,
        }
    }

    /// The id, or another one where the earlier program gave it twice.
    fn free_id(&mut self, path: &str, id: IssueId) -> IssueId {
        let mut free = id.clone();
        let mut number = 900_000;
        while !self.taken.insert(free.clone()) {
            number += 1;
            free = IssueId::parse(&format!("{}-{number}", id.prefix()))
                .expect("six digits make an id");
        }
        if free != id {
            let sentence = format!("another issue has the id {id}; this one is {free} now");
            self.remarks.add(path, sentence);
        }
        free
    }
}

/// Reads the fields of one file, and remarks on each that is not taken over as it is.
struct Defaults<'a> {
    path: &'a str,
    fields: &'a Fields,
    remarks: &'a mut Remarks,
}

impl Defaults<'_> {
    /// The value of a field that every issue has; what stands in for one that is not known is told.
    fn known<T>(
        &mut self,
        field: &str,
        instead: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let old = self.fields.text(field);
        let found = old.as_deref().and_then(parse);
        if found.is_none() {
            let sentence = match old {
                Some(old) => format!(
                    "{field} was `{}`, which is not known here; it is `{instead}` now",
                    short(&old)
                ),
                None => format!("there was no {field}; it is `{instead}` now"),
            };
            self.remarks.add(self.path, sentence);
        }
        found
    }

    /// The value of a field that may be missing; one that is not known is told.
    fn known_if_there<T>(
        &mut self,
        field: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        if self
            .fields
            .text(field)
            .is_none_or(|text| text.trim().is_empty())
        {
            return None;
        }
        self.known(field, "none", parse)
    }
}

/// Sets a parent's state as its children say.
fn follow(parent: &mut Issue, children: &[Issue]) {
    let mut tally = Tally::default();
    children.iter().for_each(|child| tally.add(child.state));
    parent.state = parent_state(&tally, parent.own);
}
