//! Who watches which resource, and which of them a change of the board touches.

use std::collections::HashMap;

use orchestra_board::{IssueId, IssueRef, Slug};
use orchestra_store::{ChangeNotice, What};

use crate::uri::ResourceUri;

/// The most URIs that are watched at once; more are not told of changes.
const MAX_WATCHED: usize = 10_000;

/// The resources that somebody watches, by project.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    by_project: HashMap<Slug, HashMap<String, ResourceUri>>,
    count: usize,
}

impl Watched {
    /// Watches a URI, as the caller wrote it; one that names no resource of ours never changes.
    pub(crate) fn add(&mut self, uri: &str) {
        let Ok(parsed) = ResourceUri::parse(uri) else {
            return;
        };
        if self.count >= MAX_WATCHED {
            tracing::warn!(
                limit = MAX_WATCHED,
                "too many watched resources; changes of further ones are not reported"
            );
            return;
        }
        let of_project = self.by_project.entry(parsed.project().clone()).or_default();
        if of_project.insert(uri.to_owned(), parsed).is_none() {
            self.count += 1;
        }
    }

    /// No longer watches a URI.
    pub(crate) fn remove(&mut self, uri: &str) {
        let Ok(parsed) = ResourceUri::parse(uri) else {
            return;
        };
        let Some(of_project) = self.by_project.get_mut(parsed.project()) else {
            return;
        };
        if of_project.remove(uri).is_some() {
            self.count -= 1;
        }
        if of_project.is_empty() {
            self.by_project.remove(parsed.project());
        }
    }

    /// Whether nothing is watched.
    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The watched URIs that a change touches.
    pub(crate) fn touched(&self, notice: &ChangeNotice) -> Vec<String> {
        let Some(project) = &notice.project else {
            return if notice.what == What::Everything {
                self.all()
            } else {
                Vec::new()
            };
        };
        let Some(of_project) = self.by_project.get(project) else {
            return Vec::new();
        };
        let touched = of_project.iter().filter(|(_, uri)| touches(notice, uri));
        touched.map(|(uri, _)| uri.clone()).collect()
    }

    /// All watched URIs.
    pub(crate) fn all(&self) -> Vec<String> {
        self.by_project
            .values()
            .flat_map(HashMap::keys)
            .cloned()
            .collect()
    }
}

fn touches(notice: &ChangeNotice, uri: &ResourceUri) -> bool {
    match (notice.what, uri) {
        (What::Everything | What::Projects, _) | (What::Prd, ResourceUri::Prd(_)) => true,
        (What::IssueCreated | What::IssueChanged, ResourceUri::Status(_)) => true,
        // What was below it is gone as well, and only its own id is told.
        (What::IssueDeleted, ResourceUri::Status(_) | ResourceUri::Task(_)) => true,
        (What::IssueCreated | What::IssueChanged, ResourceUri::Task(target)) => {
            notice.issue.as_ref().is_none_or(|id| names(target, id))
        }
        _ => false,
    }
}

/// Whether the address of a task names this issue: moving its story is a change as well.
fn names(target: &IssueRef, id: &IssueId) -> bool {
    target.id == *id || target.story.as_ref() == Some(id)
}

#[cfg(test)]
mod tests {
    use orchestra_board::{IssueId, Slug};
    use orchestra_store::{ChangeNotice, What};

    use super::Watched;

    const PRD: &str = "toon://project/a/prd";
    const STATUS: &str = "toon://project/a/status";
    const TASK: &str = "toon://project/a/task/A-1/A-2/A-3";

    fn watched() -> Watched {
        let mut watched = Watched::default();
        for uri in [
            PRD,
            STATUS,
            TASK,
            "toon://project/b/status",
            "toon://nonsense",
        ] {
            watched.add(uri);
        }
        watched
    }

    fn touched(project: Option<&str>, issue: Option<&str>, what: What) -> Vec<String> {
        let project = project.map(|slug| Slug::parse(slug).unwrap());
        let issue = issue.map(|id| IssueId::parse(id).unwrap());
        let mut uris = watched().touched(&ChangeNotice {
            project,
            issue,
            what,
        });
        uris.sort();
        uris
    }

    #[test]
    fn a_change_touches_what_shows_it() {
        assert_eq!(
            touched(Some("a"), Some("A-3"), What::IssueChanged),
            [STATUS, TASK]
        );
        assert_eq!(
            touched(Some("a"), Some("A-9"), What::IssueChanged),
            [STATUS]
        );
        assert_eq!(touched(Some("a"), None, What::Prd), [PRD]);
        assert_eq!(
            touched(Some("a"), None, What::Projects),
            [PRD, STATUS, TASK]
        );
        assert_eq!(touched(Some("c"), None, What::Prd), Vec::<String>::new());
        assert_eq!(touched(None, None, What::Usage), Vec::<String>::new());
        assert_eq!(touched(None, None, What::Everything).len(), 4);
    }

    #[test]
    fn what_is_no_longer_watched_is_forgotten() {
        let mut watched = watched();
        for uri in [PRD, STATUS, TASK, "toon://project/b/status", STATUS] {
            watched.remove(uri);
        }
        assert_eq!(watched.all(), Vec::<String>::new());
        assert_eq!((watched.count, watched.by_project.len()), (0, 0));
    }
}
