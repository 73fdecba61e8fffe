//! Memory while an engine says what is near in meaning: what it adds, and what it leaves as it is.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use orchestra_board::Slug;
use orchestra_memory::engine::{
    self, Address, Endpoint, Engines, Life, Meaning, MeaningError, NearHit, Settings,
};
use orchestra_place::{Choice, Place, RunDirectory};
use orchestra_tools::Options;
use serde_json::{Value, json};
use tokio::{sync::oneshot, task::JoinHandle, time::timeout};

use crate::bench::{Bench, ids};

const PATIENCE: Duration = Duration::from_secs(60);

/// Says that the first rows of the first project are near whatever is asked.
#[derive(Debug)]
struct Fake;

impl Meaning for Fake {
    fn model(&self) -> String {
        "fake".to_owned()
    }

    fn near(&self, _: &Slug, _: &str, _: usize) -> Result<Vec<NearHit>, MeaningError> {
        let hits = [(4, 0.9), (1, 0.8), (2, 0.7), (3, 0.6)].map(|(number, similarity)| NearHit {
            row: (1 << 32) | number,
            similarity,
        });
        Ok(hits.into())
    }

    fn vectors(&self, _: &Slug) -> u64 {
        4
    }
}

/// Run directory of a workspace without git, whose state is in it.
fn run_directory(workspace: &Path) -> RunDirectory {
    let state = workspace.join("state");
    RunDirectory::new(Place::find(workspace, Some(&state), Choice::State).unwrap())
}

/// An engine in this process.
struct Served {
    end: oneshot::Sender<()>,
    running: JoinHandle<()>,
}

impl Served {
    async fn start(workspace: &Path) -> Self {
        let options = engine::Options {
            workspace: workspace.to_owned(),
            run: run_directory(workspace),
            address: Address::Preferred(0),
            asks_token: true,
            life: Life::OfItsOwn,
            store: orchestra_store::Options {
                watch: false,
                sweep: false,
                flush: false,
                ..orchestra_store::Options::default()
            },
            meaning: Some(Arc::new(Fake)),
        };
        let (end, told) = oneshot::channel();
        let (sender, serves) = oneshot::channel();
        let running = tokio::spawn(async move {
            let ready = |_: &Endpoint| sender.send(()).unwrap();
            let told = async { told.await.unwrap_or_default() };
            engine::run(options, ready, told).await.unwrap();
        });
        serves.await.unwrap();
        Self { end, running }
    }

    async fn end(self) {
        self.end.send(()).unwrap();
        timeout(PATIENCE, self.running).await.unwrap().unwrap();
    }
}

/// What each field of each item is, but for what only says how well it fits, and which fields may be
/// there or not.
fn forms(list: &Value) -> Vec<BTreeMap<String, Value>> {
    let items = list["items"].as_array().unwrap().iter();
    let form = |item: &Value| {
        let fields = item.as_object().unwrap().clone().into_iter();
        fields
            .filter(|(name, _)| !["score", "why", "snippet"].contains(&name.as_str()))
            .collect()
    };
    items.map(form).collect()
}

fn scores_fall(list: &Value) -> bool {
    let items = list["items"].as_array().unwrap().iter();
    let scores: Vec<f64> = items.map(|item| item["score"].as_f64().unwrap()).collect();
    scores.is_sorted_by(|a, b| a >= b)
}

/// The earlier program had one shape and order for what its engine answered, and another for what
/// its files did.
#[tokio::test(flavor = "multi_thread")]
async fn w28_an_engine_adds_hits_and_changes_no_shape_or_order() {
    let directory = tempfile::tempdir().unwrap();
    let workspace = directory.path().canonicalize().unwrap();
    let engines = Engines::new(Settings {
        workspace: workspace.clone(),
        run: run_directory(&workspace),
        client: "test",
        starts: false,
        always_asks: false,
        program: PathBuf::from("/none"),
        search_path: None,
        tell: Arc::new(|_| {}),
    });
    let options = Options {
        engines: Some(engines.clone()),
        ..Options::default()
    };
    let bench = Bench::at(directory, options);
    bench.ok("create_project", json!({"name": "My App"})).await;
    for content in [
        "The cache holds 4 pages",
        "The cache is written at night",
        "Pages of the cache are 8 KiB",
        "Deliveries are tried five times",
    ] {
        let tags = json!(["a"]);
        let save = json!({"project": "my-app", "content": content, "summary": "note", "tags": tags, "source": "task"});
        bench.ok("save_memory", save).await;
    }
    let session = json!({"project": "my-app", "session_id": "s", "summary": "made the cache warm"});
    bench.ok("save_session", session).await;
    let query = json!({"project": "my-app", "query": "cache pages"});
    let asked = [
        ("search_memory", query.clone()),
        ("get_context", query),
        ("list_memory", json!({"project": "my-app"})),
        ("list_sessions", json!({"project": "my-app"})),
    ];
    let ask = async || {
        let mut answers = Vec::new();
        for (tool, arguments) in &asked {
            answers.push(bench.ok(tool, arguments.clone()).await);
        }
        answers
    };

    let alone = ask().await;
    let served = Served::start(&workspace).await;
    engines.begin();
    assert!(engines.answers(PATIENCE).await);
    let together = ask().await;
    assert!(!ids(&alone[0]).contains(&"mem-4"), "no word of it fits");
    assert!(ids(&together[0]).contains(&"mem-4"), "it is near");
    for (alone, together) in alone.iter().zip(&together).take(2) {
        let (before, after) = (forms(alone), forms(together));
        assert!(!before.is_empty());
        for item in &before {
            assert!(after.contains(item), "{item:?} is not in {after:?}");
        }
        let names = |form: &BTreeMap<String, Value>| form.keys().cloned().collect::<Vec<_>>();
        let memory = |form: &&BTreeMap<String, Value>| form["type"] == "memory";
        for item in after.iter().filter(memory) {
            let first = before.iter().find(memory).unwrap();
            assert_eq!(names(item), names(first));
        }
        assert!(scores_fall(alone) && scores_fall(together));
    }
    assert_eq!(alone[2..], together[2..]);

    served.end().await;
    // The first call after that may still be told by the one that went.
    ask().await;
    assert_eq!(ask().await, alone);
}
