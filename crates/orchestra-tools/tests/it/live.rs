//! The board as those see it who watch it, over a store of another process.

use std::{sync::Arc, time::Duration};

use orchestra_store::Store;
use orchestra_tools::{Live, LiveError, Tell};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::bench::Bench;

/// Long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

struct Watching {
    live: Live,
    told: UnboundedReceiver<(&'static str, Value)>,
    following: tokio::task::JoinHandle<()>,
}

impl Watching {
    fn new(bench: &Bench) -> Self {
        let options = orchestra_store::Options {
            watch: false,
            sweep: false,
            flush: false,
            ..orchestra_store::Options::default()
        };
        let store = Store::open(bench.directory.path(), options).unwrap();
        let live = Live::new(store, None);
        let (sender, told) = unbounded_channel();
        let tell: Tell = Arc::new(move |kind, data| {
            let _ = sender.send((kind, serde_json::from_str(&data).unwrap()));
        });
        Self {
            following: tokio::spawn(live.follow(&tell)),
            live,
            told,
        }
    }

    /// The next event of a kind.
    async fn next(&mut self, kind: &str) -> Value {
        loop {
            let told = tokio::time::timeout(PATIENCE, self.told.recv());
            let (found, data) = told.await.expect("told in time").unwrap();
            if found == kind {
                return data;
            }
        }
    }

    async fn board(&self) -> Value {
        serde_json::from_str(&self.live.board("my-app").await.unwrap()).unwrap()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.following.abort();
    }
}

fn ids(cards: &Value) -> Vec<&str> {
    let cards = cards.as_array().unwrap().iter();
    cards.map(|card| card["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_board_is_shown_whole_with_where_its_issues_may_go() {
    let bench = Bench::with_story().await;
    let task = bench.task("First").await;
    let watching = Watching::new(&bench);
    let board = watching.board().await;
    assert_eq!(ids(&board["cards"]), ["MA-1", "MA-2", &task]);
    assert_eq!(board["cards"][2]["epic_id"], "MA-1");
    assert_eq!(
        (&board["more"], &board["project"]["slug"]),
        (&json!(false), &json!("my-app"))
    );
    let states = board["states"].as_array().unwrap();
    assert_eq!(states.len(), 13);
    let testing = states
        .iter()
        .find(|column| column["state"] == "in-progress");
    let exit = &testing.unwrap()["exits"][0];
    assert_eq!(
        (&exit["to"], &exit["gate"]),
        (&json!("ready-for-testing"), &json!("tests_passed"))
    );
    let projects = watching.live.projects().await.unwrap();
    assert!(projects.contains(r#""slug":"my-app""#), "{projects}");
    let unknown = watching.live.board("none").await;
    assert!(matches!(unknown, Err(LiveError::Unknown(_))), "{unknown:?}");
    assert_eq!(
        watching.live.plans().await.unwrap(),
        r#"{"plans":[],"unreadable":[]}"#
    );
}

#[tokio::test]
async fn what_changes_is_told_with_those_above_it() {
    let bench = Bench::with_story().await;
    let task = bench.task("First").await;
    let mut watching = Watching::new(&bench);
    bench.bring(&task, "in-progress").await;
    // Several changes may be told together, and the last is told in any case.
    let told = loop {
        let told = watching.next("cards").await;
        assert_eq!(told["project"], "my-app");
        let cards = told["cards"].as_array().unwrap().clone();
        let is_there = |card: &Value| card["id"] == *task && card["status"] == "in-progress";
        if cards.iter().any(is_there) {
            break cards;
        }
    };
    let state_of = |id: &str| {
        let card = told.iter().find(|card| card["id"] == id);
        card.map(|card| card["status"].clone())
    };
    assert_eq!(state_of("MA-2"), Some(json!("in-progress")));
    assert_eq!(state_of("MA-1"), Some(json!("in-progress")));
    bench
        .ok(
            "delete_story",
            json!({"project": "my-app", "story_id": "MA-2"}),
        )
        .await;
    // The task can be reported before its story.
    loop {
        let gone = watching.next("gone").await;
        if gone["ids"].as_array().unwrap().contains(&json!("MA-2")) {
            break;
        }
    }
    assert_eq!(ids(&watching.board().await["cards"]), ["MA-1"]);
}

#[tokio::test]
async fn what_is_no_issue_is_told_by_its_name() {
    let bench = Bench::with_story().await;
    let mut watching = Watching::new(&bench);
    let memory = json!({"project": "my-app", "content": "remembered", "summary": "it"});
    bench.ok("save_memory", memory).await;
    let changed = watching.next("changed").await;
    assert_eq!(changed, json!({"what": "memory", "project": "my-app"}));
    bench.ok("create_project", json!({"name": "Second"})).await;
    let projects = watching.next("projects").await;
    assert_eq!(projects["projects"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn usage_is_shown_by_the_day_on_which_it_was_recorded() {
    let bench = Bench::with_story().await;
    let used =
        json!({"input_tokens": 10, "output_tokens": 5, "cost": 0.5, "provider": "p", "model": "m"});
    bench.ok("record_usage", used.clone()).await;
    bench.clock.advance(86_400);
    let mut of_task = used.clone();
    of_task["project"] = json!("my-app");
    of_task["issue_id"] = json!("MA-2");
    bench.ok("record_usage", of_task).await;
    bench.ok("record_usage", used).await;
    // Another model in the same session is another row.
    let other = json!({"input_tokens": 1, "output_tokens": 1, "cost": 0.1, "model": "n"});
    bench.ok("record_usage", other).await;
    let watching = Watching::new(&bench);
    let usage = |from, to| {
        let live = watching.live.clone();
        async move {
            live.usage(from, to)
                .await
                .map(|text| serde_json::from_str::<Value>(&text).unwrap())
        }
    };
    let all = usage(None, None).await.unwrap();
    let expected = json!({
        "days": [
            {"day": "2026-02-14", "provider": "p", "model": "m", "requests": 1, "input": 10, "output": 5, "cost": 0.5},
            {"day": "2026-02-15", "provider": "p", "model": "m", "requests": 1, "input": 10, "output": 5, "cost": 0.5},
            {"day": "2026-02-15", "provider": "p", "model": "m", "project": "my-app", "requests": 1, "input": 10, "output": 5, "cost": 0.5},
            {"day": "2026-02-15", "provider": "p", "model": "n", "requests": 1, "input": 1, "output": 1, "cost": 0.1},
        ],
        "totals": {"requests": 4, "input": 31, "output": 16, "cost": 1.6},
    });
    assert_eq!(all, expected);
    let one = usage(Some("2026-02-15"), Some("2026-02-15")).await.unwrap();
    assert_eq!(one["days"].as_array().unwrap().len(), 3);
    assert_eq!(one["totals"]["input"], 21);
    for bad in ["yesterday", "2026-2-14", "2026-02-14T00:00:00Z"] {
        let refused = usage(Some(bad), None).await;
        assert!(matches!(refused, Err(LiveError::Unknown(_))), "{refused:?}");
    }
}
