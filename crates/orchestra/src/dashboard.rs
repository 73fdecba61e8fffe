//! The workspace as the dashboard shows it.

use std::{path::Path, sync::Arc};

use orchestra_hub::BoxFuture;
use orchestra_tools::{Live, LiveError};
use orchestra_web::dashboard::{LogFrom, NotShown, Shown, Source, Tell, Telling};

/// What is shown of one workspace.
struct Workspace {
    live: Live,
    path: String,
}

/// The source of the dashboard of a workspace.
pub(crate) fn source(live: Live, workspace: &Path) -> Arc<dyn Source> {
    Arc::new(Workspace {
        live,
        path: workspace.display().to_string(),
    })
}

impl Source for Workspace {
    fn workspace(&self) -> String {
        self.path.clone()
    }

    fn projects(&self) -> BoxFuture<Shown> {
        let live = self.live.clone();
        Box::pin(async move { live.projects().await.map_err(not_shown) })
    }

    fn board(&self, project: String) -> BoxFuture<Shown> {
        let live = self.live.clone();
        Box::pin(async move { live.board(&project).await.map_err(not_shown) })
    }

    fn plans(&self) -> BoxFuture<Shown> {
        let live = self.live.clone();
        Box::pin(async move { live.plans().await.map_err(not_shown) })
    }

    fn plan(&self, plan: String) -> BoxFuture<Shown> {
        let live = self.live.clone();
        Box::pin(async move { live.plan(&plan).await.map_err(not_shown) })
    }

    fn diff(&self, plan: String, job: String) -> BoxFuture<Shown> {
        let live = self.live.clone();
        Box::pin(async move { live.diff(&plan, &job).await.map_err(not_shown) })
    }

    fn log(
        &self,
        plan: String,
        job: String,
        from: LogFrom,
    ) -> BoxFuture<Result<Telling, NotShown>> {
        let live = self.live.clone();
        let from = orchestra_tools::LogFrom {
            attempt: from.attempt,
            phase: from.phase,
            after: from.after,
        };
        Box::pin(async move {
            let log = live.log(&plan, &job, from).await.map_err(not_shown)?;
            Ok(Box::pin(log) as Telling)
        })
    }

    fn follow(&self, tell: Tell) -> BoxFuture<()> {
        Box::pin(self.live.follow(&tell))
    }
}

fn not_shown(error: LiveError) -> NotShown {
    match error {
        LiveError::Unknown(what) => NotShown::Unknown(what),
        error => NotShown::Unreadable(format!("{:#}", anyhow::Error::from(error))),
    }
}
