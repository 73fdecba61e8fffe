//! The built-in provider: tools, prompts and resources over one store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use orchestra_hub::{
    BoxFuture, Catalog, Notice, Outcome, Provider, ProviderError, ProviderId, Request, Target,
};
use orchestra_store::{ChangeNotice, CloseWatch, Store, What};
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

use crate::bundle::{Bundle, EmptyBundle};
use crate::services::Services;
use crate::text::TextFormat;
use crate::tool::Tool;
use crate::watch::Watched;
use crate::{complete, groups, prompts, resources};

/// How many notices wait for the hub before the watching of the store waits, too.
const NOTICE_QUEUE: usize = 256;

/// What the model is told once about working here.
const INSTRUCTIONS: &str = "Orchestra keeps this workspace's project board. Projects hold epics, epics stories, \
stories tasks. Work a task: get_next_task with your name as `agent`, set_current_task with the same `agent`, do the work, then advance_task \
step by step to done, with evidence at the gates. Save what later sessions need with save_memory; start by reading \
get_context.";

/// How the provider is set up.
#[derive(Clone)]
pub struct Options {
    /// How the text of results is written.
    pub text: TextFormat,
    /// What the install tools install.
    pub bundle: Arc<dyn Bundle>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            text: TextFormat::Json,
            bundle: Arc::new(EmptyBundle),
        }
    }
}

/// The built-in provider.
pub struct Builtin {
    id: ProviderId,
    inner: Arc<Inner>,
    follower: Mutex<Option<AbortHandle>>,
}

struct Inner {
    services: Arc<Services>,
    tools: HashMap<String, Tool>,
    catalog: watch::Sender<Arc<Catalog>>,
    watched: Mutex<Watched>,
    /// There while any resource is watched, so that the store tells of every change.
    close_watch: Mutex<Option<CloseWatch>>,
}

impl Builtin {
    /// The provider over `store`.
    #[must_use]
    pub fn new(store: Store, options: Options) -> Self {
        let services = Arc::new(Services::new(store, options.text, options.bundle));
        let tools = groups::all();
        let catalog = Catalog {
            tools: tools.iter().map(|tool| tool.descriptor.clone()).collect(),
            prompts: prompts::descriptors(),
            resources: resources::listed(&services).unwrap_or_default(),
            templates: resources::templates(),
            instructions: Some(INSTRUCTIONS.to_owned()),
        };
        let tools = tools
            .into_iter()
            .map(|tool| (tool.descriptor.name.clone(), tool))
            .collect();
        let inner = Inner {
            services,
            tools,
            catalog: watch::Sender::new(Arc::new(catalog)),
            watched: Mutex::default(),
            close_watch: Mutex::default(),
        };
        let id = ProviderId::parse("builtin").expect("a legal provider id");
        Self {
            id,
            inner: Arc::new(inner),
            follower: Mutex::default(),
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
        Box::pin(async move { inner.answer(request.target).await })
    }

    /// Follows the store from here on; needs a tokio runtime, without which nothing is announced.
    fn notices(&self) -> Option<mpsc::Receiver<Notice>> {
        let runtime = tokio::runtime::Handle::try_current().ok()?;
        let mut follower = self.follower.lock().unwrap_or_else(PoisonError::into_inner);
        if follower.is_some() {
            return None;
        }
        let (sender, receiver) = mpsc::channel(NOTICE_QUEUE);
        let changes = self.inner.services.store().changes();
        // A change between the making of the catalog and now would be missed.
        self.inner.refresh_catalog();
        let task = runtime.spawn(follow(Arc::clone(&self.inner), changes, sender));
        *follower = Some(task.abort_handle());
        Some(receiver)
    }

    fn can_watch(&self, uri: &str) -> bool {
        resources::is_there(&self.inner.services, uri)
    }

    fn watch(&self, uri: &str) {
        self.inner.watched().add(uri);
        self.inner.attend();
    }

    fn unwatch(&self, uri: &str) {
        self.inner.watched().remove(uri);
        self.inner.attend();
    }
}

impl Drop for Builtin {
    fn drop(&mut self) {
        let follower = self
            .follower
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(task) = follower.take() {
            task.abort();
        }
    }
}

impl Inner {
    async fn answer(&self, target: Target) -> Result<Outcome, ProviderError> {
        match target {
            Target::Tool { name, arguments } => match self.tools.get(&name) {
                Some(tool) => Ok(tool.serve(Arc::clone(&self.services), arguments).await),
                None => Err(unknown("tool", &name)),
            },
            Target::Prompt { name, arguments } => {
                prompts::get(&self.services, &name, &arguments).map(Outcome::Prompt)
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
            Target::Raw { method, .. } => Err(unknown("method", &method)),
        }
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
        let resources = match resources::listed(&self.services) {
            Ok(resources) => resources,
            Err(failure) => {
                tracing::warn!(%failure, "the list of resources is out of date");
                return;
            }
        };
        self.catalog.send_if_modified(|catalog| {
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
