//! The methods of `orchestra.memory.v1.MemoryService`, over the store of a workspace.

use std::{pin::Pin, sync::Arc, time::Duration};

use futures_util::{Stream, StreamExt as _, future, stream};
use orchestra_board::Slug;
use orchestra_store::{Action, Made, PageRequest, ReadError, Reader, Receipt, Store};
use tokio::{
    sync::{Semaphore, watch},
    task::spawn_blocking,
    time::timeout,
};
use tonic::{Request, Response, Status};

use super::{
    answers::fitting,
    clients::Clients,
    convert,
    endpoint::VERSION,
    find::{self, Wanted},
    generated::{
        AttendRequest, AttendResponse, ContextRequest, ContextResponse, DeleteChunkRequest,
        DeleteChunkResponse, GetSessionRequest, GetSessionResponse, ListSessionsRequest,
        ListSessionsResponse, NearHit, NearRequest, NearResponse, RebuildRequest, RebuildResponse,
        SearchRequest, SearchResponse, StatsRequest, StatsResponse, StoreChunkRequest,
        StoreChunkResponse, StoreSessionRequest, StoreSessionResponse,
        memory_service_server::MemoryService,
    },
    meaning::{Meaning, MeaningError, number_of},
    status,
    waiting::{self, Waiting},
};

/// How many calls work at once; more wait. Each may hold a thread and a connection to the database.
const AT_ONCE: usize = 32;

/// How long a call may take, its waiting included: far longer than any does.
const DEADLINE: Duration = Duration::from_secs(20);

/// How many texts are found unless the caller says, and at most.
const FOUND: (u32, u32) = (10, 100);
/// How many sessions are listed unless the caller says, and at most.
const LISTED: (u32, u32) = (20, 200);
/// How many rows are near unless the caller says, and at most.
const NEAR: (u32, u32) = (10, 1_000);

/// What a query may be at most; what is longer is cut by nobody in silence.
const MAX_QUERY_BYTES: usize = 64 * 1024;

/// The service.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    store: Store,
    meaning: Option<Arc<dyn Meaning>>,
    clients: Clients,
    at_once: Arc<Semaphore>,
    waiting: Waiting,
    /// True once the engine ends: streams that are held open end as well.
    ends: watch::Receiver<bool>,
}

impl Memory {
    pub(crate) fn new(
        store: Store,
        meaning: Option<Arc<dyn Meaning>>,
        clients: Clients,
        ends: watch::Receiver<bool>,
    ) -> Self {
        Self {
            store,
            meaning,
            clients,
            at_once: Arc::new(Semaphore::new(AT_ONCE)),
            waiting: Waiting::new(),
            ends,
        }
    }

    /// Does one call, within its bounds.
    async fn bounded<T>(
        &self,
        work: impl Future<Output = Result<T, Status>>,
    ) -> Result<Response<T>, Status> {
        let answer = timeout(DEADLINE, work).await;
        answer
            .map_err(|_| Status::deadline_exceeded("the engine is too busy; try again"))?
            .map(Response::new)
    }

    /// Reads on a thread that may block.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Reader<'_>) -> Result<T, ReadError> + Send + 'static,
    ) -> Result<T, Status> {
        let store = self.store.clone();
        let read = move || store.read(work).map_err(|error| status::of_read(&error));
        self.blocking(read).await
    }

    /// Searches on a thread that may block.
    async fn find<T: Send + 'static>(
        &self,
        project: Slug,
        query: String,
        limit: u32,
        by: find::By<T>,
    ) -> Result<T, Status> {
        let (store, meaning) = (self.store.clone(), self.meaning.clone());
        let wanted = Wanted {
            project,
            query,
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
        };
        self.blocking(move || by(&store, meaning.as_deref(), &wanted))
            .await
    }

    async fn change(&self, action: Action) -> Result<Receipt, Status> {
        let _turn = self.at_once.acquire().await;
        let submitted = self.store.submit(None, action);
        submitted.await.map_err(|error| status::of_action(&error))
    }

    /// Does on a thread of its own what may block, when it is its turn. That is over with the work, and
    /// not when nobody waits for it any more: threads would pile up.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Status> + Send + 'static,
    ) -> Result<T, Status> {
        let turn = Arc::clone(&self.at_once).acquire_owned().await;
        let done = spawn_blocking(move || {
            let _turn = turn;
            work()
        });
        done.await
            .unwrap_or_else(|_| Err(Status::internal("an internal error stopped this call")))
    }
}

fn unanswered() -> Status {
    Status::unknown("it was stored, but the stored version is unknown; read it again")
}

fn query(text: String) -> Result<String, Status> {
    if text.len() > MAX_QUERY_BYTES {
        let text = format!("query: is too long: at most {MAX_QUERY_BYTES} bytes");
        return Err(Status::invalid_argument(text));
    }
    Ok(text)
}

#[tonic::async_trait]
impl MemoryService for Memory {
    async fn store_chunk(
        &self,
        request: Request<StoreChunkRequest>,
    ) -> Result<Response<StoreChunkResponse>, Status> {
        let new = convert::new_chunk(&request.into_inner())?;
        self.bounded(async {
            match self.change(Action::SaveMemory(new)).await?.made {
                Made::Chunk { chunk, .. } => Ok(StoreChunkResponse {
                    chunk: Some(convert::chunk(&chunk, 0.0)),
                }),
                _ => Err(unanswered()),
            }
        })
        .await
    }

    async fn search_memory(
        &self,
        request: Request<SearchRequest>,
    ) -> Result<Response<SearchResponse>, Status> {
        let request = request.into_inner();
        let (project, query) = (convert::project(&request.project)?, query(request.query)?);
        let limit = convert::limit(request.limit, FOUND.0, FOUND.1);
        let search = self.find(project, query, limit, find::texts);
        self.bounded(search).await
    }

    async fn get_context(
        &self,
        request: Request<ContextRequest>,
    ) -> Result<Response<ContextResponse>, Status> {
        let request = request.into_inner();
        let (project, query) = (convert::project(&request.project)?, query(request.query)?);
        let limit = convert::limit(request.limit, FOUND.0, FOUND.1);
        let search = self.find(project, query, limit, find::context);
        self.bounded(search).await
    }

    async fn store_session(
        &self,
        request: Request<StoreSessionRequest>,
    ) -> Result<Response<StoreSessionResponse>, Status> {
        let new = convert::new_session(&request.into_inner())?;
        self.bounded(async {
            match self.change(Action::SaveSession(new)).await?.made {
                Made::Session(session) => Ok(StoreSessionResponse {
                    session: Some(convert::session(&session)),
                }),
                _ => Err(unanswered()),
            }
        })
        .await
    }

    async fn list_sessions(
        &self,
        request: Request<ListSessionsRequest>,
    ) -> Result<Response<ListSessionsResponse>, Status> {
        let request = request.into_inner();
        let project = convert::project(&request.project)?;
        let page = PageRequest {
            limit: convert::limit(request.limit, LISTED.0, LISTED.1),
            cursor: None,
        };
        let list = self.read(move |reader| {
            let found = reader.sessions(&project, &page)?;
            Ok(ListSessionsResponse {
                sessions: fitting(found.items.iter().map(convert::session)),
            })
        });
        self.bounded(list).await
    }

    async fn get_session(
        &self,
        request: Request<GetSessionRequest>,
    ) -> Result<Response<GetSessionResponse>, Status> {
        let request = request.into_inner();
        let project = convert::project(&request.project)?;
        let id = convert::session_id(&request.session_id)?;
        let missing =
            format!("session `{id}` not found in project `{project}`; ListSessions has them");
        let get = async {
            let found = self
                .read(move |reader| reader.session(&project, &id))
                .await?;
            let session = found.ok_or_else(|| Status::not_found(missing))?;
            Ok(GetSessionResponse {
                session: Some(convert::session(&session)),
            })
        };
        self.bounded(get).await
    }

    async fn delete_chunk(
        &self,
        request: Request<DeleteChunkRequest>,
    ) -> Result<Response<DeleteChunkResponse>, Status> {
        let request = request.into_inner();
        let project = convert::project(&request.project)?;
        let id = convert::chunk_id(&request.id)?;
        self.bounded(async {
            let there = {
                let project = project.clone();
                self.read(move |reader| reader.chunk(&project, id)).await?
            };
            if there.is_none() {
                return Err(Status::not_found(format!(
                    "memory `{id}` not found in project `{project}`; SearchMemory shows the ids"
                )));
            }
            self.change(Action::ForgetMemory { project, id }).await?;
            Ok(DeleteChunkResponse {})
        })
        .await
    }

    async fn stats(
        &self,
        request: Request<StatsRequest>,
    ) -> Result<Response<StatsResponse>, Status> {
        let name = request.into_inner().project;
        let project = match name.as_str() {
            "" => None,
            name => Some(convert::project(name)?),
        };
        let mut stats = StatsResponse {
            workspace: self.store.workspace().to_string_lossy().into_owned(),
            version: VERSION.to_owned(),
            pid: std::process::id(),
            clients: u32::try_from(self.clients.count()).unwrap_or(u32::MAX),
            ..StatsResponse::default()
        };
        if let Some(meaning) = &self.meaning {
            meaning.standing().fill(&mut stats);
        }
        // Whoever only asks whether the engine answers waits for no turn and no database.
        let Some(project) = project else {
            return Ok(Response::new(stats));
        };
        let meaning = self.meaning.clone();
        self.bounded(async {
            let counted = project.clone();
            let one = PageRequest {
                limit: 1,
                cursor: None,
            };
            (stats.chunks, stats.sessions) = self
                .read(move |reader| {
                    let chunks = reader.chunks(&counted, &one)?.total;
                    Ok((chunks, reader.sessions(&counted, &one)?.total))
                })
                .await?;
            if let Some(meaning) = meaning {
                stats.vectors = self.blocking(move || Ok(meaning.vectors(&project))).await?;
            }
            Ok(stats)
        })
        .await
    }

    async fn near(&self, request: Request<NearRequest>) -> Result<Response<NearResponse>, Status> {
        let within = waiting::of_call(request.metadata(), DEADLINE);
        let request = request.into_inner();
        let (project, query) = (convert::project(&request.project)?, query(request.query)?);
        let limit = match request.limit {
            0 => NEAR.0,
            given => given.min(NEAR.1),
        };
        let Some(meaning) = self.meaning.clone() else {
            return Ok(Response::new(NearResponse::default()));
        };
        let near = move || {
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            let hits = meaning
                .near(&project, &query, limit)
                .map_err(|error| match error {
                    MeaningError::NoProject(_) => Status::not_found(error.to_string()),
                    MeaningError::NotNow(_) => Status::failed_precondition(error.to_string()),
                })?;
            let hits = hits.into_iter().map(|hit| NearHit {
                row: hit.row,
                similarity: hit.similarity,
            });
            let standing = meaning.standing();
            Ok(NearResponse {
                kind: number_of(standing.kind),
                model: standing.model,
                hits: hits.collect(),
            })
        };
        self.waiting.ask(within, near).await.map(Response::new)
    }

    async fn rebuild(
        &self,
        _: Request<RebuildRequest>,
    ) -> Result<Response<RebuildResponse>, Status> {
        let meaning = self.meaning.clone();
        self.bounded(self.blocking(move || {
            let has_model = meaning.is_some_and(|meaning| meaning.rebuild());
            Ok(RebuildResponse { has_model })
        }))
        .await
    }

    type AttendStream = Pin<Box<dyn Stream<Item = Result<AttendResponse, Status>> + Send>>;

    async fn attend(
        &self,
        request: Request<AttendRequest>,
    ) -> Result<Response<Self::AttendStream>, Status> {
        let client = self.clients.enter()?;
        let AttendRequest { client: name, pid } = request.into_inner();
        let name: String = name.chars().filter(|c| !c.is_control()).take(40).collect();
        tracing::debug!(%name, pid, "client attached");
        let first = AttendResponse {
            clients: u32::try_from(self.clients.count()).unwrap_or(u32::MAX),
        };
        let mut ends = self.ends.clone();
        let held = stream::once(async move {
            // The stream is dropped with its connection, and the client with it.
            let _client = client;
            // An error means that nobody could say so any more.
            let _ = ends.wait_for(|ends| *ends).await;
        });
        let stream =
            stream::once(future::ready(Ok(first))).chain(held.filter_map(|()| future::ready(None)));
        Ok(Response::new(Box::pin(stream)))
    }
}
