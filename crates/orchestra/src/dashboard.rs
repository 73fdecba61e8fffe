//! The workspace as the dashboard shows it.

mod servers;

use std::{borrow::Cow, sync::Arc};

use orchestra_gateway::discovery::Found;
use orchestra_hub::BoxFuture;
use orchestra_mcp::client::tap::TapWatch;
use orchestra_secret::Masker;
use orchestra_tools::{Live, LiveError};
use orchestra_web::dashboard::{LogFrom, NotDone, NotShown, Servers, Shown, Source, Tell, Telling};
use tokio::sync::watch;

use crate::config::Config;

/// What is shown of one workspace.
struct Workspace {
    live: Live,
    path: String,
    servers: Arc<servers::Others>,
}

/// The source of the dashboard of a workspace. `traffic` has the messages between the workspace and upstream servers;
/// `applied` has the upstream servers as they were applied last.
pub(crate) fn source(
    live: Live,
    config: &Config,
    traffic: TapWatch,
    applied: Option<watch::Receiver<Arc<Found>>>,
) -> Arc<dyn Source> {
    let config = Arc::new(config.clone());
    Arc::new(Workspace {
        live,
        path: config.workspace.display().to_string(),
        servers: Arc::new(servers::Others::new(config, traffic, applied)),
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
        Box::pin(async move { live.plans().await.map(masked).map_err(not_shown) })
    }

    fn plan(&self, plan: String) -> BoxFuture<Shown> {
        let live = self.live.clone();
        Box::pin(async move { live.plan(&plan).await.map(masked).map_err(not_shown) })
    }

    fn agree(&self, agent: String, seen: String) -> BoxFuture<Result<String, NotDone>> {
        let live = self.live.clone();
        Box::pin(async move {
            match live.agree(&agent, &seen).await {
                Ok(()) => Ok(format!("agent {agent} is approved in this workspace")),
                Err(LiveError::Unknown(what)) => Err(NotDone::Unknown(what)),
                Err(LiveError::Plans(what)) => Err(NotDone::Refused(what)),
                Err(error) => Err(NotDone::Broke(error.to_string())),
            }
        })
    }

    fn diff(&self, plan: String, job: String) -> BoxFuture<Shown> {
        let live = self.live.clone();
        Box::pin(async move { live.diff(&plan, &job).await.map(masked).map_err(not_shown) })
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

    fn usage(&self, from: Option<String>, to: Option<String>) -> BoxFuture<Shown> {
        let live = self.live.clone();
        Box::pin(async move {
            let usage = live.usage(from.as_deref(), to.as_deref());
            usage.await.map_err(not_shown)
        })
    }

    fn servers(&self) -> Arc<dyn Servers> {
        Arc::clone(&self.servers) as Arc<dyn Servers>
    }

    fn follow(&self, tell: Tell) -> BoxFuture<()> {
        Box::pin(self.live.follow(&tell))
    }
}

/// JSON without secrets: commands of plans and changes of jobs may contain them.
fn masked(shown: String) -> String {
    let masker = Masker::default();
    if matches!(masker.text(&shown), Cow::Borrowed(_)) {
        return shown;
    }
    match serde_json::from_str::<serde_json::Value>(&shown) {
        Ok(mut value) => {
            masker.json(&mut value);
            value.to_string()
        }
        Err(_) => masker.text(&shown).into_owned(),
    }
}

fn not_shown(error: LiveError) -> NotShown {
    match error {
        LiveError::Unknown(what) => NotShown::Unknown(what),
        error => NotShown::Unreadable(format!("{:#}", anyhow::Error::from(error))),
    }
}
