//! The workspace as those see it who watch it: whole when they come, and then what changes of it.
//!
//! It is beside the tools, not among them: what is told is made once, however many watch. Whoever
//! wants to change something calls a tool.

mod board;
mod card;
mod job;
mod plans;
mod usage;

use std::sync::Arc;

use futures_util::Stream;
use orchestra_board::Slug;
use orchestra_runner::plans::{Plans, PlansError};
use orchestra_store::{ReadError, Store};
use serde::Serialize;

pub use job::LogFrom;

/// Takes what is told: the kind of an event, and its JSON.
pub type Tell = Arc<dyn Fn(&'static str, String) + Send + Sync>;

/// What can be watched of a workspace. Clones are the same.
#[derive(Clone)]
pub struct Live {
    store: Store,
    plans: Option<Plans>,
}

/// Why something cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The board cannot be read.
    #[error("the board cannot be read")]
    Board(#[source] ReadError),
    /// A plan, or all of them, cannot be read.
    #[error("{0}")]
    Plans(String),
    /// There is no such thing.
    #[error("{0}")]
    Unknown(String),
}

impl From<ReadError> for LiveError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Refused(refusal) => Self::Unknown(refusal.to_string()),
            error => Self::Board(error),
        }
    }
}

impl From<PlansError> for LiveError {
    fn from(error: PlansError) -> Self {
        match &error {
            PlansError::UnknownPlan { .. } => Self::Unknown(error.whole()),
            _ => Self::Plans(error.whole()),
        }
    }
}

impl Live {
    /// The board of `store`, and the plans if somebody runs any.
    #[must_use]
    pub const fn new(store: Store, plans: Option<Plans>) -> Self {
        Self { store, plans }
    }

    /// The projects, as `{"projects": […]}`.
    ///
    /// # Errors
    /// When the board cannot be read.
    pub async fn projects(&self) -> Result<String, LiveError> {
        let store = self.store.clone();
        blocking(move || board::projects(&store)).await
    }

    /// A project with all of its issues, as
    /// `{"project": …, "states": […], "cards": […], "more": false}`. Of more issues than
    /// [`MAX_CARDS`](Self::MAX_CARDS) the rest is left out, and `more` says so.
    ///
    /// # Errors
    /// When there is no such project, or the board cannot be read.
    pub async fn board(&self, project: &str) -> Result<String, LiveError> {
        let slug = Slug::parse(project).map_err(|error| LiveError::Unknown(error.to_string()))?;
        let store = self.store.clone();
        blocking(move || board::board(&store, &slug)).await
    }

    /// How many issues of a project are shown.
    pub const MAX_CARDS: usize = 50_000;

    /// The plans, newest first, as `{"plans": […], "unreadable": […]}`.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn plans(&self) -> Result<String, LiveError> {
        match &self.plans {
            Some(plans) => plans::list(plans).await,
            None => Ok(r#"{"plans":[],"unreadable":[]}"#.to_owned()),
        }
    }

    /// A plan with all of its jobs and its graph, as `{"plan": …, "graph": […]}`.
    ///
    /// # Errors
    /// When there is none, or it cannot be read.
    pub async fn plan(&self, asked: &str) -> Result<String, LiveError> {
        match &self.plans {
            Some(plans) => plans::one(plans, asked).await,
            None => Err(no_plans()),
        }
    }

    /// Stores that the user agreed to an agent; `seen` is the fingerprint of what they were shown.
    ///
    /// # Errors
    /// When there is no such agent, it is another one than was shown, or the agreement cannot be stored.
    pub async fn agree(&self, agent: &str, seen: &str) -> Result<(), LiveError> {
        let plans = self.plans.as_ref().ok_or_else(no_plans)?;
        let offer = plans.offer(agent);
        let unknown = || LiveError::Unknown(format!("there is no agent `{agent}`"));
        let offer = offer.ok_or_else(unknown)?;
        if offer.digest() != seen {
            return Err(LiveError::Plans(format!(
                "agent `{agent}` has changed since it was shown: read it again"
            )));
        }
        Ok(plans.agree(offer).await?)
    }

    /// What the commit of a job changed, as `{"text": …, "truncated": …}`: a unified diff, empty where it has
    /// made none.
    ///
    /// # Errors
    /// When there is no such job, or the repository cannot be read.
    pub async fn diff(&self, plan: &str, job: &str) -> Result<String, LiveError> {
        match &self.plans {
            Some(plans) => job::diff(plans, plan, job).await,
            None => Err(no_plans()),
        }
    }

    /// The lines that an attempt of a job printed and prints, in their order, as they come. The kinds of what
    /// is told: `line` `{cursor, attempt, phase, time, stream, text, more?}`; `omitted` `{lines}`, for lines that
    /// are kept no more; `end` `{}`, when no more will come.
    ///
    /// # Errors
    /// When there is no such job or attempt, or plans cannot be read.
    pub async fn log(
        &self,
        plan: &str,
        job: &str,
        from: LogFrom,
    ) -> Result<impl Stream<Item = (&'static str, String)> + Send + 'static, LiveError> {
        let Some(plans) = self.plans.clone() else {
            return Err(no_plans());
        };
        job::log(plans, plan.to_owned(), job.to_owned(), from).await
    }

    /// What models cost, by day, model and plan, as `{"days": […], "totals": …}`, from one day to another,
    /// both included, as `2026-02-14`.
    ///
    /// # Errors
    /// When these are no days, or what is kept cannot be read.
    pub async fn usage(&self, from: Option<&str>, to: Option<&str>) -> Result<String, LiveError> {
        usage::usage(self.store.clone(), self.plans.as_ref(), from, to).await
    }

    /// Tells what changes, from this call on, until what it returns is dropped. The kinds:
    ///
    /// | kind | of what |
    /// |---|---|
    /// | `cards` | `{project, cards}`: issues as they are now |
    /// | `gone` | `{project, ids}`: issues that are not there any more, nor what was below them |
    /// | `project` | `{project}`: so much changed that it is to be asked for anew |
    /// | `projects` | `{projects}`: all projects as they are now |
    /// | `changed` | `{what, project?}`: something else of a project or of the workspace |
    /// | `plan` | `{plan}`: a plan as lists show it |
    /// | `jobs` | `{planId, stateVersion, nodes, groups}`: jobs of it that changed |
    /// | `plan-gone` | `{planId}` |
    /// | `anew` | `{}`: anything may have changed |
    pub fn follow(&self, tell: &Tell) -> impl Future<Output = ()> + Send + 'static + use<> {
        let board = board::follow(self.store.clone(), Arc::clone(tell));
        let plans = self.plans.clone();
        let tell = Arc::clone(tell);
        async move {
            let plans = async {
                if let Some(plans) = plans {
                    plans::follow(plans, tell).await;
                }
            };
            tokio::join!(board, plans);
        }
    }
}

fn no_plans() -> LiveError {
    LiveError::Unknown("no plans are run here".to_owned())
}

/// Reads where it may take long.
async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, LiveError> + Send + 'static,
) -> Result<T, LiveError> {
    match tokio::task::spawn_blocking(read).await {
        Ok(read) => read,
        Err(ended) => std::panic::resume_unwind(ended.into_panic()),
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("live values serialize as JSON")
}
