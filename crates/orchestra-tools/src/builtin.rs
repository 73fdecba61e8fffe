//! The built-in provider: tools, prompts and resources over one store.

mod follow_skills;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use orchestra_hub::{
    BoxFuture, Catalog, Cx, Notice, Outcome, Provider, ProviderError, ProviderId, Request,
    ResourceResult, Target,
};
use orchestra_memory::engine::Engines;
use orchestra_store::{ChangeNotice, CloseWatch, Store, What};
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::{AbortHandle, spawn_blocking};

use crate::bundle::{Bundle, EmptyBundle};
use crate::plan_service::PlanService;
use crate::services::Services;
use crate::skills::{self, Skills};
use crate::text::TextFormat;
use crate::tool::Tool;
use crate::watch::Watched;
use crate::{complete, groups, job, prompts, resources};

/// How many notices wait for the hub before the watching of the store waits, too.
const NOTICE_QUEUE: usize = 256;

/// Instructions for models, sent once in the result of `initialize`.
const INSTRUCTIONS: &str = "Orchestra is this workspace's project board: epics, their stories, and their tasks. Start with list_projects, then get_context with the project and a query. For a task, call get_next_task with your name as `agent`, then set_current_task with the \
same `agent`. Do the work. Call advance_task for each step until it is done; some steps require `evidence`. Store facts \
for later sessions with save_memory.";

/// Instructions that follow where plans can run.
const OF_PLANS: &str = "If you have the tool create_copilot_plan and the work has independent parts, create a plan: a graph \
of jobs (shell commands, programs or agents). Each job runs in its own git worktree and is checked; results are merged into one \
branch. resume_copilot_plan starts the plan, get_copilot_plan_status returns its progress. Jobs see only committed \
files.";

/// Returns the next step for a board without projects.
pub type EmptyBoardHint = Arc<dyn Fn() -> Option<&'static str> + Send + Sync>;

/// How the provider is set up.
#[derive(Clone)]
pub struct Options {
    /// How the text of results is written.
    pub text: TextFormat,
    /// What the install tools install.
    pub bundle: Arc<dyn Bundle>,
    /// Whether changes of the workspace's skills are told by themselves. Without, they are seen
    /// when somebody asks for skills.
    pub watch: bool,
    /// Turns true when the watching begins; by default it begins at once.
    pub begun: Option<watch::Receiver<bool>>,
    /// What finds by meaning, if anything does.
    pub engines: Option<Engines>,
    /// Whoever runs the plans; without, the group `plans` is not offered.
    pub plans: Option<Arc<dyn PlanService>>,
    /// Source of the hint in a list of projects that is empty.
    pub empty_board_hint: Option<EmptyBoardHint>,
    /// Name of the job in a sandbox that is served: it has some of the tools, and neither prompts nor resources. Its calls
    /// act under this name.
    pub job: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            text: TextFormat::Json,
            bundle: Arc::new(EmptyBundle),
            watch: true,
            begun: None,
            engines: None,
            plans: None,
            empty_board_hint: None,
            job: None,
        }
    }
}

/// The built-in provider.
pub struct Builtin {
    id: ProviderId,
    inner: Arc<Inner>,
    watch: bool,
    begun: Option<watch::Receiver<bool>>,
    /// Changes since the catalog was made, until they are followed.
    changes: Mutex<Option<Receiver<ChangeNotice>>>,
    followers: Mutex<Vec<AbortHandle>>,
}

struct Inner {
    services: Arc<Services>,
    tools: HashMap<String, Tool>,
    catalog: watch::Sender<Arc<Catalog>>,
    watched: Mutex<Watched>,
    skills: Arc<Skills>,
    /// One look at the skills at a time; others wait without a thread.
    look: Semaphore,
    watched_skills: Mutex<HashSet<String>>,
    notices: OnceLock<mpsc::Sender<Notice>>,
    /// Name of the job that is served, and its tools whose calls carry the name of an agent. It has only tools.
    job: Option<(String, HashSet<String>)>,
    /// There while any resource is watched, so that the store tells of every change.
    close_watch: Mutex<Option<CloseWatch>>,
}

impl Builtin {
    /// The provider over `store`.
    #[must_use]
    pub fn new(store: Store, options: Options) -> Self {
        let is_for_job = options.job.is_some();
        let changes = store.changes();
        let skills = Skills::new(store.workspace(), &options.bundle.skills());
        let instructions = match options.plans {
            Some(_) => format!("{INSTRUCTIONS} {OF_PLANS}"),
            None => INSTRUCTIONS.to_owned(),
        };
        let services = Arc::new(Services::new(
            store,
            options.text,
            options.bundle,
            options.engines,
            options.plans,
            options.empty_board_hint,
        ));
        let tools = match is_for_job {
            true => groups::for_a_job(),
            false => groups::offered(&services),
        };
        let mut catalog = Catalog {
            tools: tools.iter().map(|tool| tool.descriptor.clone()).collect(),
            instructions: Some(instructions),
            ..Catalog::default()
        };
        if !is_for_job {
            let found = skills.descriptors();
            catalog.prompts = prompts::descriptors();
            catalog.resources = resources::listed(&services).unwrap_or_default();
            catalog.resources.extend(skills::resources(&found));
            catalog.templates = resources::templates();
            catalog.skills = Some(found);
        }
        let job = options.job.map(|job| {
            let signed = tools.iter().map(|tool| &tool.descriptor);
            let signed = signed.filter(|tool| job::is_signed(&tool.input_schema));
            (job, signed.map(|tool| tool.name.clone()).collect())
        });
        let tools = tools
            .into_iter()
            .map(|tool| (tool.descriptor.name.clone(), tool))
            .collect();
        let inner = Inner {
            services,
            tools,
            catalog: watch::Sender::new(Arc::new(catalog)),
            watched: Mutex::default(),
            skills: Arc::new(skills),
            look: Semaphore::new(1),
            watched_skills: Mutex::default(),
            notices: OnceLock::new(),
            job,
            close_watch: Mutex::default(),
        };
        let id = ProviderId::parse("builtin").expect("a legal provider id");
        Self {
            id,
            inner: Arc::new(inner),
            watch: options.watch && !is_for_job,
            begun: options.begun,
            changes: Mutex::new(Some(changes)),
            followers: Mutex::default(),
        }
    }
}

impl Provider for Builtin {
    fn id(&self) -> &ProviderId {
        &self.id
    }

    fn catalog(&self) -> watch::Receiver<Arc<Catalog>> {
        self.inner.catalog.subscribe()
    }

    fn serve(&self, request: Request) -> BoxFuture<Result<Outcome, ProviderError>> {
        let inner = Arc::clone(&self.inner);
        Box::pin(async move { inner.answer(request.target, request.cx).await })
    }

    fn refresh_skills(&self) -> Option<BoxFuture<()>> {
        if self.inner.job.is_some() {
            return None;
        }
        let inner = Arc::clone(&self.inner);
        Some(Box::pin(async move { inner.look_at_skills().await }))
    }

    fn skill_problem(&self, uri: &str) -> Option<String> {
        self.inner.skills.problem(uri)
    }

    /// Follows the store from here on; needs a tokio runtime, without which nothing is announced.
    fn notices(&self) -> Option<mpsc::Receiver<Notice>> {
        if self.inner.job.is_some() {
            return None;
        }
        let runtime = tokio::runtime::Handle::try_current().ok()?;
        let changes = self
            .changes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()?;
        let mut followers = self
            .followers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let (sender, receiver) = mpsc::channel(NOTICE_QUEUE);
        // The first one, as the follower is there once.
        let _ = self.inner.notices.set(sender.clone());
        let task = runtime.spawn(follow(Arc::clone(&self.inner), changes, sender));
        followers.push(task.abort_handle());
        if self.watch {
            let task = runtime.spawn(follow_skills::run(
                Arc::clone(&self.inner),
                self.begun.clone(),
            ));
            followers.push(task.abort_handle());
        }
        Some(receiver)
    }

    fn can_watch(&self, uri: &str) -> bool {
        if self.inner.job.is_some() {
            return false;
        }
        if Skills::has_form_of(uri) {
            return self.inner.skills.is_there(uri);
        }
        resources::is_there(&self.inner.services, uri)
    }

    fn watch(&self, uri: &str) {
        if Skills::has_form_of(uri) {
            self.inner.watched_skills().insert(uri.to_owned());
            return;
        }
        self.inner.watched().add(uri);
        self.inner.attend();
    }

    fn unwatch(&self, uri: &str) {
        if Skills::has_form_of(uri) {
            self.inner.watched_skills().remove(uri);
            return;
        }
        self.inner.watched().remove(uri);
        self.inner.attend();
    }
}

impl Drop for Builtin {
    fn drop(&mut self) {
        let followers = self
            .followers
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        followers.iter().for_each(AbortHandle::abort);
    }
}

impl Inner {
    async fn answer(&self, target: Target, cx: Cx) -> Result<Outcome, ProviderError> {
        match target {
            Target::Tool { name, arguments } => match self.tools.get(&name) {
                Some(tool) => {
                    let arguments = match &self.job {
                        Some((job, signed)) if signed.contains(&name) => {
                            job::signed(job, &arguments)
                        }
                        _ => arguments,
                    };
                    Ok(tool.serve(Arc::clone(&self.services), arguments, cx).await)
                }
                None => Err(unknown("tool", &name)),
            },
            _ if self.job.is_some() => Err(ProviderError::Denied(
                "a job in a sandbox has tools of the board and nothing else".to_owned(),
            )),
            Target::Prompt { name, arguments } => {
                prompts::get(&self.services, &name, &arguments).map(Outcome::Prompt)
            }
            Target::Resource { uri } if Skills::has_form_of(&uri) => {
                self.read_skill(uri).await.map(Outcome::Resource)
            }
            Target::Resource { uri } => {
                resources::read(&self.services, &uri).map(Outcome::Resource)
            }
            Target::Complete {
                reference,
                argument,
                value,
                context,
            } => complete::complete(&self.services, &reference, &argument, &value, &context)
                .map(Outcome::Completion),
            Target::Skills(_) => Err(unknown("method", "skills")),
            Target::List { .. } => Err(unknown("method", "list")),
            Target::Raw { method, .. } => Err(unknown("method", &method)),
        }
    }

    /// Reads a file of a skill. One that was not there at the last look may be new.
    async fn read_skill(&self, uri: String) -> Result<ResourceResult, ProviderError> {
        if !self.skills.is_there(&uri) {
            self.look_at_skills().await;
        }
        let skills = Arc::clone(&self.skills);
        let read = spawn_blocking(move || skills.read(&uri)).await;
        read.unwrap_or_else(|_| {
            let text = "reading the skill panicked".to_owned();
            Err(ProviderError::Unreachable(text))
        })
    }

    fn watched_skills(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        self.watched_skills
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn watched(&self) -> std::sync::MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the store tell of every change exactly while any resource is watched.
    fn attend(&self) {
        let watched = self.watched();
        let mut close = self
            .close_watch
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if watched.is_empty() {
            *close = None;
        } else if close.is_none() {
            *close = Some(self.services.store().watch_closely());
        }
    }

    /// Lists the resources anew; the catalog only changes if they did.
    fn refresh_catalog(&self) {
        let mut resources = match resources::listed(&self.services) {
            Ok(resources) => resources,
            Err(failure) => {
                tracing::warn!(%failure, "cannot refresh the list of resources");
                return;
            }
        };
        self.catalog.send_if_modified(|catalog| {
            let of_skills = catalog.resources.iter();
            let of_skills = of_skills.filter(|resource| Skills::has_form_of(&resource.uri));
            resources.extend(of_skills.cloned());
            let same = catalog.resources.len() == resources.len()
                && catalog
                    .resources
                    .iter()
                    .zip(&resources)
                    .all(|(a, b)| a.uri == b.uri && a.title == b.title);
            if !same {
                *catalog = Arc::new(Catalog {
                    resources,
                    ..Catalog::clone(catalog)
                });
            }
            !same
        });
    }
}

fn unknown(kind: &'static str, name: &str) -> ProviderError {
    ProviderError::Unknown {
        kind,
        name: name.chars().take(200).collect(),
    }
}

/// Turns changes of the store into notices, until either side is gone.
async fn follow(
    inner: Arc<Inner>,
    mut changes: Receiver<ChangeNotice>,
    notices: mpsc::Sender<Notice>,
) {
    loop {
        let notice = match changes.recv().await {
            Ok(notice) => notice,
            // What was missed may have been anything.
            Err(RecvError::Lagged(_)) => ChangeNotice {
                project: None,
                issue: None,
                what: What::Everything,
            },
            Err(RecvError::Closed) => return,
        };
        if matches!(notice.what, What::Projects | What::Everything) {
            inner.refresh_catalog();
        }
        let touched = inner.watched().touched(&notice);
        for uri in touched {
            if notices.send(Notice::ResourceUpdated(uri)).await.is_err() {
                return;
            }
        }
    }
}
