//! An engine with a model: what is remembered is found by its meaning, whatever becomes of it.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use orchestra_board::{Body, Slug};
use orchestra_engine::{
    Indexed,
    model::{Api, Choice, ModelKind, RemoteOptions, Wish},
};
use orchestra_memory::engine::{Meaning, Standing, rebuild, standing};
use orchestra_store::{Action, ChunkPatch, NewChunk, Store};
use serde_json::json;
use tempfile::TempDir;

use crate::{
    running::run_directory,
    served::{Client, PATIENCE, Served, engines, query, text},
    server::{Reply, Server},
    tiny,
};
use orchestra_memory::engine::generated::{ContextRequest, DeleteChunkRequest, NearRequest};

/// What is as near as that says the same.
const NEAR: f32 = 0.7;

/// Models in directories, and which of them is wanted.
struct Models {
    directory: TempDir,
    wish: Arc<Mutex<Wish>>,
}

impl Models {
    fn new() -> Self {
        let models = Self {
            directory: tempfile::tempdir().unwrap(),
            wish: Arc::new(Mutex::new(Wish::Nothing)),
        };
        models.make("tiny", &tiny::table());
        models.wish("tiny");
        models
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn make(&self, name: &str, table: &[u8]) {
        fs::create_dir_all(self.path(name)).unwrap();
        tiny::write(&self.path(name), &tiny::tokenizer(tiny::WORDS), table);
    }

    fn wish(&self, name: &str) {
        let choice = Choice::Directory {
            name: name.to_owned(),
            path: self.path(name),
        };
        *self.wish.lock().unwrap() = Wish::Model(choice);
    }

    fn meaning(&self) -> Arc<dyn Meaning> {
        let wish = Arc::clone(&self.wish);
        Arc::new(Indexed::new(Arc::new(move || wish.lock().unwrap().clone())))
    }
}

/// The rows that say the same, once there are as many as wanted.
async fn near(client: &mut Client, asked: &str, wanted: usize) -> Vec<i64> {
    let begin = Instant::now();
    loop {
        let request = NearRequest {
            project: "demo".to_owned(),
            query: asked.to_owned(),
            limit: 0,
        };
        let answer = client.near(request).await.map(tonic::Response::into_inner);
        // On a busy machine the model may take longer than a query waits.
        if let Ok(answer) = &answer {
            let hits = answer.hits.iter().filter(|hit| hit.similarity > NEAR);
            let rows: Vec<i64> = hits.map(|hit| hit.row).collect();
            if rows.len() == wanted {
                return rows;
            }
        }
        assert!(begin.elapsed() < PATIENCE, "{asked}: {answer:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn stands(workspace: &Path, until: impl Fn(&Standing) -> bool) -> Standing {
    let begin = Instant::now();
    loop {
        let found = standing(workspace, &run_directory(workspace))
            .await
            .unwrap();
        if until(&found) {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "{found:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn found(client: &mut Client, asked: &str) -> Vec<String> {
    let found = client.search_memory(query(asked)).await.unwrap();
    let found = found.into_inner().results.into_iter();
    found.map(|chunk| chunk.content).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_shares_no_word_is_found_by_its_meaning() {
    let models = Models::new();
    let served = Served::start(Some(models.meaning())).await;
    let mut client = served.ours().await;
    let stored = client.store_chunk(text("", "the mutex")).await.unwrap();
    client.store_chunk(text("", "the pear")).await.unwrap();
    near(&mut client, "lock", 1).await;
    near(&mut client, "apple", 1).await;
    assert_eq!(found(&mut client, "lock").await[0], "the mutex");
    assert_eq!(found(&mut client, "apple").await[0], "the pear");
    let context = ContextRequest {
        project: "demo".to_owned(),
        query: "lock".to_owned(),
        limit: 1,
    };
    let context = client.get_context(context).await.unwrap().into_inner();
    assert_eq!(context.chunks[0].content, "the mutex");
    let stand = stands(&served.workspace(), |found| found.phase == "ready").await;
    assert_eq!((stand.vectors, stand.trouble), (2, None));
    assert_eq!(
        (stand.model.as_str(), stand.kind),
        ("tiny", Some(ModelKind::Static))
    );
    let said = Arc::default();
    let engines = engines(&served, &said);
    assert!(engines.answers(PATIENCE).await);
    let demo = Slug::parse("demo").unwrap();
    let answer = engines.near("search_memory", &demo, "lock", 3).await;
    let answer = answer.unwrap();
    assert_eq!(
        (answer.kind, answer.model.as_str()),
        (ModelKind::Static, "tiny")
    );

    let id = stored.into_inner().chunk.unwrap().id;
    let delete = DeleteChunkRequest {
        project: "demo".to_owned(),
        id,
    };
    client.delete_chunk(delete).await.unwrap();
    near(&mut client, "lock", 0).await;
}

fn patch(store: &Store, id: orchestra_store::ChunkId, change: impl FnOnce(&mut ChunkPatch)) {
    let mut patch = ChunkPatch::of(Slug::parse("demo").unwrap(), id);
    change(&mut patch);
    let action = Action::UpdateMemory(Box::new(patch));
    store.submit_blocking(None, action).unwrap();
}

fn save(
    store: &Store,
    content: &str,
    change: impl FnOnce(&mut NewChunk),
) -> orchestra_store::ChunkId {
    let content = Body::parse(content).unwrap();
    let mut new = NewChunk::of(Slug::parse("demo").unwrap(), content);
    change(&mut new);
    let saved = store.submit_blocking(None, Action::SaveMemory(new));
    match saved.unwrap().made {
        orchestra_store::Made::Chunk { chunk, .. } => chunk.id,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_program_changes_is_followed() {
    let models = Models::new();
    let served = Served::start(Some(models.meaning())).await;
    let mut client = served.ours().await;
    let store = Store::open(&served.workspace(), orchestra_store::Options::default()).unwrap();
    let id = save(&store, "the apple", |_| {});
    near(&mut client, "pear", 1).await;
    patch(&store, id, |patch| {
        patch.content = Some(Body::parse("the mutex").unwrap());
    });
    let rows = near(&mut client, "lock", 1).await;
    near(&mut client, "pear", 0).await;
    // Who says it again is merged with what is there.
    assert_eq!(save(&store, "The  MUTEX", |_| {}), id);
    assert_eq!(near(&mut client, "lock", 1).await, rows);
    let newer = save(&store, "mutex mutex", |new| new.supersedes = vec![id]);
    near(&mut client, "lock", 2).await;
    assert_eq!(found(&mut client, "lock").await, ["mutex mutex"]);
    let forget = Action::ForgetMemory {
        project: Slug::parse("demo").unwrap(),
        id: newer,
    };
    store.submit_blocking(None, forget).unwrap();
    near(&mut client, "lock", 1).await;
    assert_eq!(found(&mut client, "lock").await, ["the mutex"]);
    store.close(PATIENCE);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_expired_is_not_found_and_its_vector_goes() {
    let models = Models::new();
    let served = Served::start(Some(models.meaning())).await;
    let mut client = served.ours().await;
    let store = Store::open(&served.workspace(), orchestra_store::Options::default()).unwrap();
    let soon = store.now().unix_seconds() + 1;
    save(&store, "the mutex", |new| {
        new.expires_at = Some(orchestra_board::Timestamp::from_unix_seconds(soon));
    });
    let begin = Instant::now();
    while !found(&mut client, "lock").await.is_empty() || store.now().unix_seconds() <= soon {
        assert!(begin.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    store.reindex_memory(|_| {}).unwrap();
    near(&mut client, "lock", 0).await;
    store.close(PATIENCE);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hand_at_a_readable_file_is_followed() {
    let models = Models::new();
    let served = Served::start(Some(models.meaning())).await;
    let mut client = served.ours().await;
    client.store_chunk(text("", "the apple")).await.unwrap();
    near(&mut client, "pear", 1).await;
    let directory = served.workspace().join(".projects/demo/.memory");
    let begin = Instant::now();
    let (file, said) = loop {
        let files = fs::read_dir(&directory).into_iter().flatten();
        let files = files.map(|file| file.unwrap().path());
        // What is being written beside it is nobody's to change.
        let mut files =
            files.filter(|path| path.extension().is_some_and(|ending| ending == "toon"));
        let said = files.find_map(|path| {
            let said = fs::read_to_string(&path).ok()?;
            said.contains("the apple").then_some((path, said))
        });
        if let Some(said) = said {
            break said;
        }
        assert!(begin.elapsed() < PATIENCE, "no file says it");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    // Of another length: what is changed within the same tick of the clock has the same time.
    fs::write(&file, said.replace("the apple", "the mutex mutex")).unwrap();
    near(&mut client, "lock", 1).await;
    near(&mut client, "pear", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_model_is_taken_up_while_the_engine_runs() {
    let models = Models::new();
    let served = Served::start(Some(models.meaning())).await;
    let mut client = served.ours().await;
    client.store_chunk(text("", "the mutex")).await.unwrap();
    near(&mut client, "lock", 1).await;
    let workspace = served.workspace();
    // Its file is none: words alone go on, and it is told why.
    models.make("broken", b"no tensors");
    models.wish("broken");
    let stand = stands(&workspace, |found| found.trouble.is_some()).await;
    let trouble = stand.trouble.unwrap();
    assert!(
        trouble.contains("the model broken cannot be used"),
        "{trouble}"
    );
    assert!(trouble.contains("memory model use"), "{trouble}");
    // The one before goes on.
    near(&mut client, "lock", 1).await;
    let other: Vec<f32> = tiny::MEANINGS
        .concat()
        .iter()
        .map(|x| x * 0.5 + 0.01)
        .collect();
    let shape = [tiny::WORDS.len(), 3];
    let table = tiny::tensors(&[(
        "embeddings",
        safetensors::Dtype::F32,
        &shape,
        &tiny::floats(&other),
    )]);
    models.make("other", &table);
    models.wish("other");
    stands(&workspace, |found| {
        found.model == "other" && found.phase == "ready" && found.trouble.is_none()
    })
    .await;
    near(&mut client, "lock", 1).await;
    assert_eq!(
        rebuild(&workspace, &run_directory(&workspace)).await,
        Some(true)
    );
    near(&mut client, "lock", 1).await;
    *models.wish.lock().unwrap() = Wish::Refused("not from there".to_owned());
    let stand = stands(&workspace, |found| found.model.is_empty()).await;
    assert_eq!(stand.trouble.as_deref(), Some("not from there"));
    assert_eq!(found(&mut client, "mutex").await, ["the mutex"]);
    near(&mut client, "lock", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_slow_holds_up_no_query_and_what_it_says_late_counts() {
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let server = Server::start(move |request| {
        let texts = request.body["input"].as_array().unwrap();
        if texts.iter().any(|text| text == "lock") {
            // An error means that the test is over.
            let _ = gate.lock().unwrap().recv_timeout(PATIENCE);
        }
        let of = |text: &serde_json::Value| match text.as_str().unwrap().contains("pear") {
            true => [0.0, 1.0],
            false => [1.0, 0.0],
        };
        let vectors: Vec<_> = texts.iter().map(of).collect();
        Reply::With(200, json!({"embeddings": vectors}).to_string())
    });
    let models = Models::new();
    let options = RemoteOptions::new(Api::Ollama, &server.url, "m");
    *models.wish.lock().unwrap() = Wish::Model(Choice::Server(Box::new(options)));
    let served = Served::start(Some(models.meaning())).await;
    let mut client = served.ours().await;
    client.store_chunk(text("", "the mutex")).await.unwrap();
    client.store_chunk(text("", "the pear")).await.unwrap();
    near(&mut client, "a fruit, a pear", 1).await;
    let begin = Instant::now();
    let request = NearRequest {
        project: "demo".to_owned(),
        query: "lock".to_owned(),
        limit: 0,
    };
    let late = client.near(request.clone()).await.unwrap_err();
    assert!(late.message().contains("takes longer than"), "{late}");
    open.send(()).unwrap();
    loop {
        // Who asks again while it is asked waits a moment as well.
        if let Ok(answer) = client.near(request.clone()).await {
            assert_eq!(answer.into_inner().hits.len(), 2);
            break;
        }
        open.send(()).unwrap();
        assert!(begin.elapsed() < PATIENCE);
    }
    let workspace = served.workspace();
    let stand = standing(&workspace, &run_directory(&workspace)).await;
    let stand = stand.unwrap();
    assert_eq!(
        (stand.model.as_str(), stand.kind),
        ("ollama:m", Some(ModelKind::Remote))
    );
}
