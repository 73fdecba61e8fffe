//! The earlier program's epics, stories and tasks.

use std::collections::HashSet;
use std::io;

use orchestra_board::{
    Issue, IssueId, Kind, OwnState, Priority, Slug, State, Tally, Timestamp, Title, parent_state,
};

use super::OldWorkspace;
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
            renamed: Vec::new(),
        };
        let mut all = Vec::new();
        let epics = format!("{slug}/epics");
        for epic in tree.names(&epics, EntryKind::Directory)? {
            let path = format!("{epics}/{epic}");
            let Some(mut parent) = self.read_issue(
                tree,
                &format!("{path}/epic.toon"),
                &mut read,
                Kind::Epic,
                None,
            )?
            else {
                continue;
            };
            let (mut stories, mut below) = (Vec::new(), Vec::new());
            for story in tree.names(&format!("{path}/stories"), EntryKind::Directory)? {
                let path = format!("{path}/stories/{story}");
                let above = Some(&parent.id);
                let Some(mut story) = self.read_issue(
                    tree,
                    &format!("{path}/story.toon"),
                    &mut read,
                    Kind::Story,
                    above,
                )?
                else {
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
        self.remarks.append(&mut read.renamed);
        Ok(all)
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
            self.remarks.push(format!(
                "{path} has no id that can be kept, and was left as it is"
            ));
            return Ok(None);
        };
        Ok(Some(read.issue(path, &fields, id, place, parent.cloned())))
    }
}

/// The issues of one project, as they are read.
struct Issues {
    slug: Slug,
    at: Timestamp,
    taken: HashSet<IssueId>,
    renamed: Vec<String>,
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
        let kind = fields
            .text("type")
            .and_then(|text| Kind::parse(&text))
            .unwrap_or(place);
        let kind = if kind == place || (kind.is_leaf() && place == Kind::Task) {
            kind
        } else {
            place
        };
        let state = fields
            .text("status")
            .and_then(|text| State::parse(&text))
            .unwrap_or(State::Backlog);
        let own = OwnState::of_state(state)
            .filter(|_| !kind.is_leaf())
            .unwrap_or_default();
        Issue {
            project: self.slug.clone(),
            title: fields
                .title("title")
                .or_else(|| Title::cut(&id.to_string()))
                .expect("an id is a title"),
            id,
            kind,
            parent,
            description: fields.body("description"),
            priority: fields
                .text("priority")
                .and_then(|text| Priority::parse(&text)),
            state,
            own,
            cancelled_with: None,
            fixes: None,
            assignees: Vec::new(),
            labels: Vec::new(),
            depends_on: Vec::new(),
            claim: None,
            created_at: fields.time("created_at").unwrap_or(self.at),
            updated_at: fields.time("updated_at"),
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
            self.renamed.push(format!(
                "{path}: another issue has the id {id}; this one is {free} now"
            ));
        }
        free
    }
}

/// Sets a parent's state as its children say.
fn follow(parent: &mut Issue, children: &[Issue]) {
    let mut tally = Tally::default();
    children.iter().for_each(|child| tally.add(child.state));
    parent.state = parent_state(&tally, parent.own);
}
