//! An engine in this process, and a client of it over gRPC.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use orchestra_board::{Command, NewProject, Title};
use orchestra_memory::engine::{
    Endpoint, Engines, Meaning, Outcome, Settings,
    generated::{SearchRequest, StoreChunkRequest, memory_service_client::MemoryServiceClient},
};
use orchestra_store::{Action, Store};
use tempfile::TempDir;
use tokio::{sync::oneshot, task::JoinHandle, time::timeout};
use tonic::{Request, Status, service::interceptor::InterceptedService, transport::Channel};

use crate::running::{run_directory, run_engine};

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) type Show = Box<dyn FnMut(Request<()>) -> Result<Request<()>, Status> + Send + Sync>;
pub(crate) type Client = MemoryServiceClient<InterceptedService<Channel, Show>>;

pub(crate) struct Served {
    _directory: Option<TempDir>,
    workspace: PathBuf,
    pub(crate) endpoint: Endpoint,
    end: Option<oneshot::Sender<()>>,
    running: JoinHandle<Outcome>,
}

impl Served {
    pub(crate) async fn start(meaning: Option<Arc<dyn Meaning>>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut served = Self::start_in(directory.path(), meaning).await;
        served._directory = Some(directory);
        served
    }

    /// Starts one in a directory that the caller keeps.
    pub(crate) async fn start_in(directory: &Path, meaning: Option<Arc<dyn Meaning>>) -> Self {
        let workspace = directory.canonicalize().unwrap();
        make_project(&workspace);
        Self::serve(workspace, meaning).await
    }

    async fn serve(workspace: PathBuf, meaning: Option<Arc<dyn Meaning>>) -> Self {
        let (endpoint, end, running) = run_engine(workspace.clone(), meaning).await;
        Self {
            _directory: None,
            workspace,
            endpoint,
            end: Some(end),
            running,
        }
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.workspace.clone()
    }

    /// What its file says that clients show.
    pub(crate) fn token(&self) -> String {
        let file = run_directory(&self.workspace()).path().join("engine.json");
        let text = fs::read(file).unwrap();
        let told: serde_json::Value = serde_json::from_slice(&text).unwrap();
        format!("Bearer {}", told["token"].as_str().unwrap())
    }

    pub(crate) async fn client(&self, token: Option<String>) -> Client {
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

    pub(crate) async fn ours(&self) -> Client {
        self.client(Some(self.token())).await
    }

    pub(crate) async fn end(mut self) -> Outcome {
        self.stop().await
    }

    /// Ends it, and starts another one.
    pub(crate) async fn restart(mut self, meaning: Option<Arc<dyn Meaning>>) -> Self {
        self.stop().await;
        let mut next = Self::serve(self.workspace.clone(), meaning).await;
        next._directory = self._directory.take();
        next
    }

    async fn stop(&mut self) -> Outcome {
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

pub(crate) fn text(summary: &str, content: &str) -> StoreChunkRequest {
    StoreChunkRequest {
        project: "demo".to_owned(),
        summary: summary.to_owned(),
        content: content.to_owned(),
        ..StoreChunkRequest::default()
    }
}

pub(crate) fn query(text: &str) -> SearchRequest {
    SearchRequest {
        project: "demo".to_owned(),
        query: text.to_owned(),
        limit: 0,
    }
}

pub(crate) fn engines(served: &Served, said: &Arc<std::sync::Mutex<Vec<String>>>) -> Engines {
    let said = Arc::clone(said);
    let engines = Engines::new(Settings {
        workspace: served.workspace(),
        run: run_directory(&served.workspace()),
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
