//! Documents of plugins: those of the type `markdown` are files of the workspace, unless a plugin is
//! configured that keeps them; those of other types are with the plugin that is.

use std::{
    borrow::Cow,
    sync::{Arc, OnceLock, Weak},
};

use orchestra_gateway::Gateway;
use orchestra_hub::Cx;
use orchestra_mcp::client::{ClientError, Sent, ServerCall};
use orchestra_plugin::ids::PluginId;
use orchestra_plugin::{
    envelope::{PayloadOf, RequestKind, ResponseKind},
    generated::{
        StorageDeleteRequest, StorageDeleteResponse, StorageEntry, StorageListRequest,
        StorageListResponse, StorageProblem, StorageReadRequest, StorageReadResponse,
        StorageWriteRequest, StorageWriteResponse, ToolResponse,
    },
    structs::{self, Numbers, Style},
};
use orchestra_plugin_host::{
    storage::{Answer, DEFAULT_TYPE, Storage, StorageError, named},
    translate::{DOCUMENTS, disclosed, enclosed},
};
use orchestra_store::{
    Detail, DocumentDirectory, DocumentError, DocumentPath, DocumentRefusal, Expected, Glob,
    Metadata, NewDocument, Store,
};
use tokio::sync::Semaphore;

use super::known::{Keeper, Plugins};

/// What a list shows where no pattern is given.
const USUAL_PATTERN: &str = "*.md";

/// Lists that are made at once: each takes a thread for a while, which others need as well.
const LISTS: usize = 4;

/// The servers that are called through a gateway, once there is one. Clones are the same.
#[derive(Clone, Default)]
pub(super) struct Servers(Arc<OnceLock<Weak<Gateway>>>);

impl Servers {
    /// From now on they are those of a gateway, for as long as that is there.
    pub(super) fn are_of(&self, gateway: &Arc<Gateway>) {
        // There is one gateway.
        let _ = self.0.set(Arc::downgrade(gateway));
    }
}

/// The documents of a workspace and its plugins.
pub(super) struct Documents {
    /// Where those of the workspace are kept; nothing where they would be lost.
    store: Option<Store>,
    plugins: Plugins,
    servers: Servers,
    /// Lists that are being made.
    listing: Arc<Semaphore>,
}

impl Documents {
    /// The documents that `store` keeps, and plugins among `servers`.
    pub(super) fn new(store: Option<Store>, plugins: Plugins, servers: Servers) -> Self {
        Self {
            store,
            plugins,
            servers,
            listing: Arc::new(Semaphore::new(LISTS)),
        }
    }

    /// Makes a list where waiting harms nobody. The others wait for their turn.
    async fn listed<T: Send + 'static>(
        &self,
        list: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, StorageError> {
        let broken = |error: &dyn std::fmt::Display| StorageError::Failed(error.to_string());
        let turn = Arc::clone(&self.listing).acquire_owned().await;
        let turn = turn.map_err(|error| broken(&error))?;
        let listing = move || {
            // Given back when it is done, also where nobody waits for it any more.
            let _turn = turn;
            list()
        };
        let listed = tokio::task::spawn_blocking(listing).await;
        listed.map_err(|error| broken(&error))
    }

    /// The plugin that keeps the documents of a type; nothing where they are the workspace's.
    fn plugin(&self, storage_type: &str) -> Result<Option<Keeper>, StorageError> {
        let storage_type = named(storage_type);
        match self.plugins.storage(storage_type) {
            None if storage_type != DEFAULT_TYPE => Err(StorageError::NoStorage {
                storage_type: storage_type.to_owned(),
            }),
            keeper => Ok(keeper),
        }
    }

    fn store(&self) -> Result<&Store, StorageError> {
        self.store.as_ref().ok_or_else(|| {
            let text = "this workspace has no board yet, which documents require; `orchestra init` or `orchestra up` creates one";
            StorageError::Failed(text.to_owned())
        })
    }

    /// Has a plugin answer, which is started for that if it must be.
    async fn ask<Q, A>(&self, keeper: &Keeper, request: &Q) -> Result<A, StorageError>
    where
        Q: PayloadOf<RequestKind>,
        A: PayloadOf<ResponseKind> + Problem,
    {
        let plugin = &keeper.plugin;
        let explained = |why: String| format!("plugin \"{plugin}\" stores these documents: {why}");
        let mut call = ServerCall::new(DOCUMENTS, Some(enclosed(request)), Cx::default());
        call.safe = !changes(Q::KIND);
        let gateway = self.servers.0.get().and_then(Weak::upgrade);
        let asked = match gateway {
            Some(gateway) => gateway.ask(&keeper.server, call).await,
            None => Err(ClientError::Unreachable {
                what: "upstream servers are not available now".to_owned(),
            }),
        };
        let result = asked.map_err(|error| {
            let explained = explained(error.explain());
            match error.sent() {
                Sent::Maybe => unanswered(Q::KIND, explained),
                Sent::No => StorageError::Failed(explained),
            }
        })?;
        let response = disclosed(&result).map_err(|why| unanswered(Q::KIND, explained(why)))?;
        if let Ok(refusal) = response.message::<ToolResponse>() {
            return Err(StorageError::Failed(explained(refusal.error_message)));
        }
        let answer: A = response
            .message()
            .map_err(|error| unanswered(Q::KIND, explained(error.to_string())))?;
        match answer.problem() {
            Some(StorageProblem { code, message }) => Err(StorageError::Said {
                code: code.clone(),
                message: message.clone(),
            }),
            None => Ok(answer),
        }
    }
}

/// Whether a kind of request changes documents.
fn changes(kind: RequestKind) -> bool {
    matches!(kind, RequestKind::StorageWrite | RequestKind::StorageDelete)
}

/// What it means that a request was sent and not answered.
fn unanswered(kind: RequestKind, why: String) -> StorageError {
    match changes(kind) {
        true => StorageError::UnknownOutcome(why),
        false => StorageError::Failed(why),
    }
}

/// What was answered, if it was a failure.
trait Problem {
    fn problem(&self) -> Option<&StorageProblem>;
}

macro_rules! problem {
    ($($answer:ty),*) => {
        $(impl Problem for $answer {
            fn problem(&self) -> Option<&StorageProblem> {
                self.problem.as_ref()
            }
        })*
    };
}
problem!(
    StorageReadResponse,
    StorageWriteResponse,
    StorageDeleteResponse,
    StorageListResponse
);

impl Storage for Documents {
    fn keeper(&self, storage_type: &str) -> Option<PluginId> {
        let keeper = self.plugins.storage(named(storage_type))?;
        Some(keeper.plugin)
    }

    fn read(&self, request: StorageReadRequest) -> Answer<'_, StorageReadResponse> {
        Box::pin(async move {
            if let Some(keeper) = self.plugin(&request.storage_type)? {
                return self.ask(&keeper, &request).await;
            }
            let path = DocumentPath::parse_existing(&request.path).map_err(invalid)?;
            let found = self.store()?.read_document(&path).map_err(failed)?;
            let document = found.ok_or_else(|| StorageError::NotFound {
                path: path.to_string(),
            })?;
            // Set even when it says nothing: by that old peers know that something was found.
            let json = document.metadata.as_ref().map_or("{}", Metadata::as_json);
            let metadata = structs::encode(json.as_bytes(), Numbers::Nearest);
            Ok(StorageReadResponse {
                content: document.content.into(),
                metadata: Some(metadata.map_err(|error| StorageError::Failed(error.to_string()))?),
                version: document.version,
                problem: None,
            })
        })
    }

    fn write(&self, request: StorageWriteRequest) -> Answer<'_, StorageWriteResponse> {
        Box::pin(async move {
            if let Some(keeper) = self.plugin(&request.storage_type)? {
                return self.ask(&keeper, &request).await;
            }
            let path = DocumentPath::parse(&request.path).map_err(invalid)?;
            let metadata = match &request.metadata {
                None => None,
                Some(metadata) => {
                    let json = structs::decode(metadata, Style::Plain).map_err(invalid)?;
                    Metadata::parse(&json).map_err(invalid)?
                }
            };
            let expected = Expected::parse(request.expected_version).map_err(invalid)?;
            let document =
                NewDocument::new(path.clone(), request.content.into(), metadata, expected);
            let document = document.map_err(invalid)?;
            let written = self.store()?.write_document(document).await;
            let new_version = written.map_err(failed)?;
            Ok(StorageWriteResponse {
                success: true,
                new_version,
                ..StorageWriteResponse::default()
            })
        })
    }

    fn delete(&self, request: StorageDeleteRequest) -> Answer<'_, StorageDeleteResponse> {
        Box::pin(async move {
            if let Some(keeper) = self.plugin(&request.storage_type)? {
                return self.ask(&keeper, &request).await;
            }
            let path = DocumentPath::parse_existing(&request.path).map_err(invalid)?;
            match self.store()?.delete_document(path.clone()).await {
                Ok(true) => Ok(StorageDeleteResponse {
                    success: true,
                    problem: None,
                }),
                Ok(false) => Err(StorageError::NotFound {
                    path: path.to_string(),
                }),
                Err(error) => Err(failed(error)),
            }
        })
    }

    fn list(&self, request: StorageListRequest) -> Answer<'_, StorageListResponse> {
        Box::pin(async move {
            if let Some(keeper) = self.plugin(&request.storage_type)? {
                return self.ask(&keeper, &request).await;
            }
            let directory = DocumentDirectory::parse(&request.prefix).map_err(invalid)?;
            let pattern = match &*request.pattern {
                "" => Cow::Borrowed(USUAL_PATTERN),
                pattern => Cow::Borrowed(pattern),
            };
            let pattern = Glob::parse(&pattern).map_err(invalid)?;
            let store = self.store()?.clone();
            // Long lists take their time.
            let list = move || store.list_documents(&directory, &pattern, Detail::Plain);
            let listed = self.listed(list).await?;
            let entries = listed.map_err(failed)?.into_iter();
            let entries = entries.map(|entry| StorageEntry {
                path: entry.path.to_string(),
                size: entry.size.try_into().unwrap_or(i64::MAX),
                version: entry.version,
                modified_at: Some(orchestra_plugin::timestamp::Timestamp {
                    seconds: entry.modified.unix_seconds(),
                    nanos: 0,
                }),
            });
            Ok(StorageListResponse {
                entries: entries.collect(),
                problem: None,
            })
        })
    }
}

fn invalid(error: impl std::fmt::Display) -> StorageError {
    StorageError::Invalid(error.to_string())
}

fn failed(error: DocumentError) -> StorageError {
    let said = |code: &str| StorageError::Said {
        code: code.to_owned(),
        message: error.to_string(),
    };
    match &error {
        DocumentError::Fault(_) => StorageError::Failed(error.to_string()),
        // The texts are those that programs look for.
        DocumentError::Refused(DocumentRefusal::Exists) => said("already_exists"),
        DocumentError::Refused(DocumentRefusal::Conflict { .. }) => said("version_conflict"),
        _ => StorageError::Invalid(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Barrier,
        atomic::{AtomicUsize, Ordering},
    };

    use futures_util::future::join_all;

    use super::*;

    #[tokio::test]
    async fn a_write_that_was_lost_may_have_been_done() {
        let documents = Documents::new(None, Plugins::none(), Servers::default());
        let keeper = Keeper {
            plugin: "storage.sample".parse().unwrap(),
            server: "storage-sample".to_owned(),
        };
        let write = StorageWriteRequest::default();
        let asked: Result<StorageWriteResponse, _> = documents.ask(&keeper, &write).await;
        assert_eq!(asked.unwrap_err().code(), "storage_error");
        for (kind, code) in [
            (RequestKind::StorageWrite, "unknown_outcome"),
            (RequestKind::StorageDelete, "unknown_outcome"),
            (RequestKind::StorageRead, "storage_error"),
            (RequestKind::StorageList, "storage_error"),
        ] {
            let lost = unanswered(kind, "it is gone".to_owned());
            assert_eq!(lost.code(), code);
        }
    }

    #[tokio::test]
    async fn lists_leave_threads_for_others() {
        let documents = Documents::new(None, Plugins::none(), Servers::default());
        let (running, most) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let together = Arc::new(Barrier::new(LISTS));
        let lists = (0..8 * LISTS).map(|_| {
            let (running, most) = (running.clone(), most.clone());
            let together = together.clone();
            documents.listed(move || {
                let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                together.wait();
                running.fetch_sub(1, Ordering::SeqCst);
            })
        });
        for listed in join_all(lists).await {
            listed.unwrap();
        }
        assert_eq!(most.load(Ordering::SeqCst), LISTS);
    }
}
