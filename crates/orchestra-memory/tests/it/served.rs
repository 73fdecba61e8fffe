//! An engine in this process, called over gRPC.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use orchestra_board::{Command, NewProject, Slug, Title};
use orchestra_memory::engine::{
    self, Address, Endpoint, Engines, Life, Meaning, MeaningError, NearHit, Options, Outcome,
    Settings,
    generated::{
        AttendRequest, ContextRequest, DeleteChunkRequest, GetSessionRequest, ListSessionsRequest,
        NearRequest, SearchRequest, SessionEvent, StatsRequest, StoreChunkRequest,
        StoreSessionRequest, memory_service_client::MemoryServiceClient,
    },
};
use orchestra_store::{Action, Store};
use tempfile::TempDir;
use tokio::{
    sync::oneshot,
    task::JoinHandle,
    time::{Instant, timeout},
};
use tonic::{Code, Request, Status, service::interceptor::InterceptedService, transport::Channel};

const PATIENCE: Duration = Duration::from_secs(60);

type Show = Box<dyn FnMut(Request<()>) -> Result<Request<()>, Status> + Send + Sync>;
type Client = MemoryServiceClient<InterceptedService<Channel, Show>>;

struct Served {
    directory: TempDir,
    endpoint: Endpoint,
    end: Option<oneshot::Sender<()>>,
    running: JoinHandle<Outcome>,
}

impl Served {
    async fn start(meaning: Option<Arc<dyn Meaning>>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let workspace = directory.path().canonicalize().unwrap();
        make_project(&workspace);
        let options = Options {
            workspace,
            address: Address::Preferred(0),
            asks_token: true,
            life: Life::OfItsOwn,
            store: orchestra_store::Options::default(),
            meaning,
        };
        let (end, told) = oneshot::channel();
        let (sender, endpoint) = oneshot::channel();
        let running = tokio::spawn(async move {
            let ready = |endpoint: &Endpoint| sender.send(endpoint.clone()).unwrap();
            let told = async { told.await.unwrap_or_default() };
            engine::run(options, ready, told).await.unwrap()
        });
        Self {
            directory,
            endpoint: endpoint.await.unwrap(),
            end: Some(end),
            running,
        }
    }

    fn workspace(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap()
    }

    /// What its file says that clients show.
    fn token(&self) -> String {
        let text = fs::read(self.workspace().join(".projects/.run/engine.json")).unwrap();
        let told: serde_json::Value = serde_json::from_slice(&text).unwrap();
        format!("Bearer {}", told["token"].as_str().unwrap())
    }

    async fn client(&self, token: Option<String>) -> Client {
        let address = format!("http://{}", self.endpoint.address);
        let channel = Channel::from_shared(address).unwrap();
        let show: Show = Box::new(move |mut request| {
            if let Some(token) = &token {
                let value = token.parse().unwrap();
                request.metadata_mut().insert("authorization", value);
            }
            Ok(request)
        });
        MemoryServiceClient::with_interceptor(channel.connect().await.unwrap(), show)
    }

    async fn ours(&self) -> Client {
        self.client(Some(self.token())).await
    }

    async fn end(mut self) -> Outcome {
        self.end.take().unwrap().send(()).unwrap();
        timeout(PATIENCE, &mut self.running).await.unwrap().unwrap()
    }
}

fn make_project(workspace: &Path) {
    let store = Store::open(workspace, orchestra_store::Options::default()).unwrap();
    let create = Command::CreateProject(NewProject {
        name: Title::parse("Demo").unwrap(),
        description: orchestra_board::Body::default(),
    });
    store.submit_blocking(None, Action::Board(create)).unwrap();
    store.close(PATIENCE);
}

fn text(summary: &str, content: &str) -> StoreChunkRequest {
    StoreChunkRequest {
        project: "demo".to_owned(),
        summary: summary.to_owned(),
        content: content.to_owned(),
        ..StoreChunkRequest::default()
    }
}

fn query(text: &str) -> SearchRequest {
    SearchRequest {
        project: "demo".to_owned(),
        query: text.to_owned(),
        limit: 0,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_and_sessions_are_stored_found_and_forgotten() {
    let served = Served::start(None).await;
    let mut client = served.ours().await;
    let stored = client
        .store_chunk(text("night", "the queue is drained at night"))
        .await;
    let chunk = stored.unwrap().into_inner().chunk.unwrap();
    client
        .store_chunk(text("day", "reports are written by day"))
        .await
        .unwrap();
    let found = client
        .search_memory(query("drained queue"))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(found.results[0].id, chunk.id);
    assert!((found.results[0].score - 1.0).abs() < f32::EPSILON);

    let event = SessionEvent {
        r#type: "note".to_owned(),
        summary: "began".to_owned(),
        timestamp: "2026-01-31T12:00:00Z".to_owned(),
    };
    let session = StoreSessionRequest {
        project: "demo".to_owned(),
        session_id: "s1".to_owned(),
        summary: "the migration".to_owned(),
        events: vec![event.clone()],
    };
    client.store_session(session).await.unwrap();
    let get = GetSessionRequest {
        project: "demo".to_owned(),
        session_id: "s1".to_owned(),
    };
    let got = client
        .get_session(get)
        .await
        .unwrap()
        .into_inner()
        .session
        .unwrap();
    assert_eq!(
        (got.events, got.started_at.is_empty()),
        (vec![event], false)
    );
    let list = ListSessionsRequest {
        project: "demo".to_owned(),
        limit: -1,
    };
    assert_eq!(
        client
            .list_sessions(list)
            .await
            .unwrap()
            .into_inner()
            .sessions
            .len(),
        1
    );
    let context = ContextRequest {
        project: "demo".to_owned(),
        query: "migration".to_owned(),
        limit: 5,
    };
    let chunks = client
        .get_context(context)
        .await
        .unwrap()
        .into_inner()
        .chunks;
    assert_eq!(
        (chunks[0].id.as_str(), chunks[0].source.as_str()),
        ("s1", "session")
    );

    let delete = DeleteChunkRequest {
        project: "demo".to_owned(),
        id: chunk.id,
    };
    client.delete_chunk(delete.clone()).await.unwrap();
    let again = client.delete_chunk(delete).await.unwrap_err();
    assert_eq!(again.code(), Code::NotFound);
    assert!(
        client
            .search_memory(query("drained"))
            .await
            .unwrap()
            .into_inner()
            .results
            .is_empty()
    );
    let ask = StatsRequest {
        project: "demo".to_owned(),
    };
    let stats = client.stats(ask).await.unwrap().into_inner();
    assert_eq!((stats.chunks, stats.sessions, stats.clients), (1, 1, 0));
    assert!(matches!(served.end().await, Outcome::Told));
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_let_in_without_the_token() {
    let served = Served::start(None).await;
    let token = served.token();
    for wrong in [
        None,
        Some("Bearer x".to_owned()),
        Some(token.replace("Bearer", "Basic")),
    ] {
        let mut client = served.client(wrong).await;
        let refused = client.search_memory(query("x")).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated);
        assert!(refused.message().contains("engine.json"), "{refused}");
        let refused = client.attend(AttendRequest::default()).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_much_is_refused_and_an_answer_fits_every_client() {
    let served = Served::start(None).await;
    let mut client = served.ours().await;
    let huge = client
        .store_chunk(text("huge", &"x".repeat(10_000_000)))
        .await
        .unwrap_err();
    assert_eq!(huge.code(), Code::OutOfRange, "{huge}");
    let long = client
        .store_chunk(text("long", &"x".repeat(70_000)))
        .await
        .unwrap_err();
    assert_eq!(long.code(), Code::InvalidArgument, "{long}");
    let strange = client
        .search_memory(query(&"x".repeat(100_000)))
        .await
        .unwrap_err();
    assert_eq!(strange.code(), Code::InvalidArgument, "{strange}");
    for ask in [
        "\0\u{1}",
        "\"*(",
        "AND OR NOT",
        "مرحبا 文字 🙂",
        "-- ; DROP TABLE chunk",
    ] {
        client.search_memory(query(ask)).await.unwrap();
    }
    for number in 0..70 {
        let content = format!("needle {number} {}", "hay ".repeat(15_000));
        client.store_chunk(text("needle", &content)).await.unwrap();
    }
    let all = SearchRequest {
        limit: i32::MAX,
        ..query("needle")
    };
    // Such a client reads 4 MiB, and all of them would be more.
    let found = client
        .search_memory(all)
        .await
        .unwrap()
        .into_inner()
        .results;
    assert!((40..70).contains(&found.len()), "{}", found.len());
}

/// Says that the rows it was told of are near, or hangs.
#[derive(Debug)]
struct Fake {
    hangs: bool,
}

impl Meaning for Fake {
    fn model(&self) -> String {
        "fake".to_owned()
    }

    fn near(&self, _: &Slug, query: &str, limit: usize) -> Result<Vec<NearHit>, MeaningError> {
        if self.hangs {
            std::thread::sleep(Duration::from_secs(1));
        }
        if query == "not now" {
            return Err(MeaningError::NotNow(
                "the model is being fetched".to_owned(),
            ));
        }
        let hits = (1..=limit).map(|place| NearHit {
            row: (1 << 32) | i64::try_from(place).unwrap(),
            similarity: 0.5,
        });
        Ok(hits.collect())
    }

    fn vectors(&self, _: &Slug) -> u64 {
        7
    }
}

fn engines(served: &Served, said: &Arc<std::sync::Mutex<Vec<String>>>) -> Engines {
    let said = Arc::clone(said);
    let engines = Engines::new(Settings {
        workspace: served.workspace(),
        client: "test",
        starts: false,
        always_asks: false,
        program: PathBuf::from("/none"),
        search_path: None,
        tell: Arc::new(move |line| said.lock().unwrap().push(line.to_owned())),
    });
    engines.begin();
    engines
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_is_told_what_is_near_and_counts_as_long_as_it_lives() {
    let served = Served::start(Some(Arc::new(Fake { hangs: false }))).await;
    let said = Arc::default();
    let engines = engines(&served, &said);
    assert!(engines.answers(PATIENCE).await);
    let demo = Slug::parse("demo").unwrap();
    let near = engines.near("search_memory", &demo, "x", 3).await.unwrap();
    assert_eq!((near.model.as_str(), near.hits.len()), ("fake", 3));
    assert_eq!(near.hits[0].row, (1 << 32) | 1);
    let none = engines.near("search_memory", &demo, "not now", 3).await;
    assert_eq!(none, None);
    let mut client = served.ours().await;
    let ask = StatsRequest {
        project: "demo".to_owned(),
    };
    let stats = client.stats(ask.clone()).await.unwrap().into_inner();
    assert_eq!(
        (stats.clients, stats.vectors, stats.model.as_str()),
        (1, 7, "fake")
    );
    let many = NearRequest {
        project: "demo".to_owned(),
        query: "x".to_owned(),
        limit: u32::MAX,
    };
    assert_eq!(
        client.near(many).await.unwrap().into_inner().hits.len(),
        1_000
    );
    engines.end(Instant::now() + PATIENCE).await;
    drop(engines);
    let begin = Instant::now();
    while client
        .stats(ask.clone())
        .await
        .unwrap()
        .into_inner()
        .clients
        > 0
    {
        assert!(begin.elapsed() < PATIENCE);
    }
    let said = said.lock().unwrap();
    assert_eq!(
        *said,
        [
            "search_memory: the memory engine refused: the model is being fetched; answered without it"
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_hangs_costs_one_call_a_moment_and_the_next_nothing() {
    let served = Served::start(Some(Arc::new(Fake { hangs: true }))).await;
    let said = Arc::default();
    let engines = engines(&served, &said);
    assert!(engines.answers(PATIENCE).await);
    let demo = Slug::parse("demo").unwrap();
    let begin = Instant::now();
    assert_eq!(engines.near("get_context", &demo, "x", 3).await, None);
    let first = begin.elapsed();
    assert!(first < Duration::from_millis(700), "{first:?}");
    let begin = Instant::now();
    for _ in 0..100 {
        assert_eq!(engines.near("get_context", &demo, "x", 3).await, None);
    }
    let rest = begin.elapsed();
    assert!(rest < Duration::from_millis(300), "{rest:?}");
    // The engine itself answers, and is asked again.
    assert!(engines.answers(PATIENCE).await);
    let said = said.lock().unwrap();
    assert!(said[0].starts_with("get_context: the memory engine failed: it gave no answer"));
    assert!(said[1].starts_with("memory: the engine does not answer"));
    assert_eq!(said[2], "memory: the engine answers again");
}
