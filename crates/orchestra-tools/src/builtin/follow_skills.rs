//! Sees that what the provider says of skills is what the workspace has.

use std::sync::Arc;
use std::time::Duration;

use orchestra_hub::{Catalog, LogLevel, Notice};
use orchestra_wire::RawJson;
use tokio::sync::{Notify, watch};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::Inner;
use crate::skills::{self, Changes, Skills, Watching};

/// How long after the first change further ones are waited for: a skill is more than one file, and
/// who copies many of them is told once.
const SETTLING: Duration = Duration::from_millis(100);

/// Looks at the skills when `begun` turns true, and again whenever something about them has changed.
pub(super) async fn run(inner: Arc<Inner>, begun: Option<watch::Receiver<bool>>) {
    let changed = Arc::new(Notify::new());
    let workspace = inner.services.store().workspace().to_owned();
    if let Some(mut begun) = begun
        && begun.wait_for(|begun| *begun).await.is_err()
    {
        // The program ended before.
        return;
    }
    let mut watching = None;
    loop {
        let directories = inner.skills.directories();
        let expected = directories.clone();
        let (workspace, changed_again) = (workspace.clone(), Arc::clone(&changed));
        // Before the look, so that nothing happens unseen between both.
        let following = spawn_blocking(move || {
            let begin = || Watching::new(&workspace, changed_again);
            let mut watching = watching.unwrap_or_else(begin);
            watching.follow(&directories);
            watching
        });
        let Ok(still) = following.await else {
            tracing::error!("watching the skills panicked");
            return;
        };
        watching = Some(still);
        inner.look_at_skills().await;
        if inner.skills.directories() != expected {
            // In those that are new something may have happened before they were watched.
            changed.notify_one();
        }
        changed.notified().await;
        sleep(SETTLING).await;
    }
}

impl Inner {
    /// Looks at the skills anew, and tells what has changed.
    pub(super) async fn look_at_skills(&self) {
        // It is never closed.
        let Ok(_turn) = self.look.acquire().await else {
            return;
        };
        let skills = Arc::clone(&self.skills);
        let Ok(changes) = spawn_blocking(move || skills.look()).await else {
            tracing::error!("reading the skills panicked");
            return;
        };
        self.publish_skills();
        self.tell(changes).await;
    }

    fn publish_skills(&self) {
        let found = self.skills.descriptors();
        self.catalog.send_if_modified(|catalog| {
            if catalog.skills.as_ref() == Some(&found) {
                return false;
            }
            let mut resources = catalog.resources.clone();
            resources.retain(|resource| !Skills::has_form_of(&resource.uri));
            resources.extend(skills::resources(&found));
            *catalog = Arc::new(Catalog {
                resources,
                skills: Some(found),
                ..Catalog::clone(catalog)
            });
            true
        });
    }

    async fn tell(&self, changes: Changes) {
        let Some(notices) = self.notices.get() else {
            return;
        };
        let watched: Vec<String> = {
            let watched = self.watched_skills();
            let mut files = changes.files;
            files.retain(|uri| watched.contains(uri));
            files
        };
        let updates = watched.into_iter().map(Notice::ResourceUpdated);
        let logs = changes.problems.iter().filter_map(|problem| {
            Some(Notice::Log {
                level: LogLevel::Warning,
                logger: Some("skills".to_owned()),
                data: RawJson::of(&format!("a skill has a problem: {problem}")).ok()?,
            })
        });
        for notice in updates.chain(logs) {
            if notices.send(notice).await.is_err() {
                return;
            }
        }
    }
}
