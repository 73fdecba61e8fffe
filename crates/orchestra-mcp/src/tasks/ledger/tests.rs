//! Tests of what tasks may become.

use bytes::Bytes;
use orchestra_wire::{RawJson, Rope};
use serde_json::{Value, json};

use super::*;
use crate::tasks::{state::Waiting, write};

const KEEP: Duration = Duration::from_secs(10);

/// A ledger, and what time it is for it.
struct World {
    ledger: Ledger,
    now: Moment,
}

impl World {
    fn new() -> Self {
        Self::with(TaskLimits::default())
    }

    fn with(limits: TaskLimits) -> Self {
        let limits = TaskLimits {
            keep: KEEP,
            ..limits
        };
        let now = Moment {
            instant: Instant::now(),
            wall: SystemTime::UNIX_EPOCH,
        };
        Self {
            ledger: Ledger::new(limits),
            now,
        }
    }

    fn create(&mut self, bytes: usize) -> Option<(TaskId, CancelSource)> {
        let id = TaskId::draw().unwrap();
        let cancel = CancelSource::new();
        let created = Created {
            owner: Identity::Anyone,
            cancel: cancel.clone(),
            bytes,
        };
        let is_kept = self.ledger.create(id, created, self.now);
        is_kept.then_some((id, cancel))
    }

    fn task(&mut self) -> TaskId {
        self.create(10).unwrap().0
    }

    fn happens(&mut self, id: TaskId, event: Event) -> bool {
        self.ledger.happened(id, event, self.now)
    }

    fn wait(&mut self, time: Duration) {
        self.now.instant += time;
        self.now.wall += time;
    }

    /// The task as a client sees it.
    fn seen(&self, id: TaskId) -> Option<Value> {
        let now = self.now.instant;
        let task = self.ledger.find_for(id, Identity::Anyone, now)?;
        let mut out = Rope::new();
        out.push_byte(b'{');
        write::task(&mut out, id, task, self.ledger.limits(), now);
        write::detail(&mut out, task);
        out.push_byte(b'}');
        Some(serde_json::from_slice(&out.into_vec()).unwrap())
    }

    fn status(&self, id: TaskId) -> String {
        self.seen(id).unwrap()["status"]
            .as_str()
            .unwrap()
            .to_owned()
    }
}

fn result() -> Event {
    Event::Completed(Bytes::from_static(b"{\"content\":[]}"))
}

fn failure() -> Event {
    Event::Failed(RpcError::invalid_params("no"))
}

fn json_of(value: &Value) -> RawJson {
    RawJson::of(value).unwrap()
}

fn question(keys: &[&str], round: u32) -> Event {
    let request = json_of(&json!({"method": "roots/list"}));
    let questions = keys.iter().map(|key| ((*key).to_owned(), request.clone()));
    Event::Asked(Waiting::new(questions, Some("s".into()), round))
}

fn answer(key: &str) -> Event {
    Event::Given(vec![(key.to_owned(), json_of(&json!({"of": key})))])
}

#[test]
fn every_event_is_possible_or_refused_in_every_state() {
    // For each state the status after each event; `-` where nothing changes.
    let events: [fn() -> Event; 5] = [
        result,
        failure,
        || question(&["b"], 2),
        || answer("1.a"),
        || Event::Cancelled("so"),
    ];
    let table = [
        ("working", "completed failed input_required - cancelled"),
        ("input_required", "- failed - working cancelled"),
        ("completed", "- - - - -"),
        ("failed", "- - - - -"),
        ("cancelled", "- - - - -"),
    ];
    for (state, row) in table {
        for (event, expected) in events.iter().zip(row.split(' ')) {
            let mut world = World::new();
            let id = world.task();
            match state {
                "input_required" => world.happens(id, question(&["a"], 1)),
                "completed" => world.happens(id, result()),
                "failed" => world.happens(id, failure()),
                "cancelled" => world.happens(id, Event::Cancelled("so")),
                _ => true,
            };
            assert_eq!(world.status(id), state);
            let before = world.seen(id);
            world.wait(Duration::from_secs(1));
            let changed = world.happens(id, event());
            match expected {
                "-" if state != "working" => assert_eq!(world.seen(id), before, "{state}"),
                "-" => assert_eq!(world.status(id), state),
                after => assert_eq!(world.status(id), after),
            }
            assert_eq!(changed, expected != "-", "{state}, {:?}", event());
        }
    }
}

#[test]
fn a_task_tells_its_state_and_only_what_belongs_to_it() {
    let mut world = World::new();
    let id = world.task();
    world.wait(Duration::from_millis(1_500));
    world.ledger.progress(id, "half", world.now, KEEP);
    let times = json!({
        "taskId": id.to_string(), "createdAt": "1970-01-01T00:00:00.000Z",
        "lastUpdatedAt": "1970-01-01T00:00:01.500Z", "ttlMs": 11_500, "pollIntervalMs": 1_000
    });
    let with = |more: Value| {
        let mut all = times.clone();
        all.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        Some(all)
    };
    let working = json!({"status": "working", "statusMessage": "half"});
    assert_eq!(world.seen(id), with(working));
    world.happens(id, question(&["a", "b"], 1));
    let roots = json!({"method": "roots/list"});
    assert_eq!(
        world.seen(id),
        with(json!({
            "status": "input_required", "statusMessage": "waits for the client's input",
            "inputRequests": {"1.a": roots, "1.b": roots}
        }))
    );
    world.happens(id, answer("1.b"));
    assert_eq!(
        world.seen(id).unwrap()["inputRequests"],
        json!({"1.a": roots})
    );
    world.happens(id, answer("1.a"));
    assert_eq!(world.seen(id), with(json!({"status": "working"})));
    world.happens(id, failure());
    assert_eq!(
        world.seen(id),
        with(json!({
            "status": "failed", "statusMessage": "no", "error": {"code": -32602, "message": "no"}
        }))
    );
}

#[test]
fn a_call_goes_on_with_all_answers_and_no_key_comes_twice() {
    let mut world = World::new();
    let id = world.task();
    for round in 1..4 {
        world.happens(id, question(&["a", "b"], round));
        // Answers of an earlier round, and to what was never asked, are nothing.
        assert!(!world.happens(id, answer(&format!("{}.a", round - 1))));
        assert!(!world.happens(id, answer("a")));
        let (a, b) = (format!("{round}.a"), format!("{round}.b"));
        assert!(world.happens(id, answer(&b)));
        assert!(!world.happens(id, answer(&b)));
        assert!(matches!(
            world.ledger.turn(id, world.now.instant),
            Turn::Wait(..)
        ));
        assert!(world.happens(id, answer(&a)));
        let Turn::Again(answers) = world.ledger.turn(id, world.now.instant) else {
            panic!("the call is made again");
        };
        assert_eq!(answers.state.as_deref(), Some("s"));
        let responses: Value = answers.responses.parse().unwrap();
        assert_eq!(responses, json!({"a": {"of": a}, "b": {"of": b}}));
        assert!(matches!(
            world.ledger.turn(id, world.now.instant),
            Turn::Wait(..)
        ));
    }
}

#[test]
fn a_task_expires_some_time_after_its_last_change_and_never_while_its_call_runs() {
    let mut world = World::new();
    let id = world.task();
    world.wait(KEEP * 3);
    assert!(matches!(
        world.ledger.turn(id, world.now.instant),
        Turn::Wait(..)
    ));
    assert_eq!(world.seen(id).unwrap()["ttlMs"], 40_000);
    world.happens(id, result());
    world.wait(KEEP - Duration::from_millis(1));
    assert_eq!(world.status(id), "completed");
    world.wait(Duration::from_millis(1));
    assert_eq!(world.seen(id), None);
    assert!(matches!(
        world.ledger.turn(id, world.now.instant),
        Turn::Over
    ));
    assert_eq!((world.ledger.held, world.ledger.tasks.len()), (0, 0));
}

#[test]
fn a_call_is_cancelled_by_its_signal_and_a_question_at_once() {
    let mut world = World::new();
    let (id, source) = world.create(1).unwrap();
    assert!(!world.ledger.cancel(id, world.now));
    assert!(source.signal().is_cancelled());
    assert_eq!(world.status(id), "working");
    assert!(world.happens(id, Event::Cancelled("so")));
    let (id, source) = world.create(1).unwrap();
    world.happens(id, question(&["a"], 1));
    assert!(world.ledger.cancel(id, world.now));
    assert!(source.signal().is_cancelled());
    assert_eq!(world.status(id), "cancelled");
    assert!(!world.ledger.cancel(id, world.now));
}

#[test]
fn tasks_are_bounded_in_number_and_bytes() {
    let mut world = World::with(TaskLimits {
        count: 3,
        bytes: 1_000,
        ..TaskLimits::default()
    });
    let (first, _) = world.create(600).unwrap();
    assert!(world.create(401).is_none());
    let (second, _) = world.create(400).unwrap();
    // A result has no more room than is there.
    world.happens(first, Event::Completed(Bytes::from(vec![b' '; 601])));
    assert_eq!(world.status(first), "failed");
    let (third, _) = world.create(0).unwrap();
    assert!(world.create(0).is_none());
    world.happens(third, question(&["a"], 1));
    let large = json_of(&json!("x".repeat(1_000)));
    world.happens(third, Event::Given(vec![("1.a".into(), large)]));
    assert_eq!(world.status(third), "failed");
    // One that is over makes room when it expires.
    world.happens(second, Event::Cancelled("so"));
    world.wait(KEEP);
    assert!(world.create(1_000).is_some());
    assert_eq!(world.ledger.held, 1_000);
}

#[test]
fn nobody_finds_the_task_of_another() {
    let mut world = World::new();
    let id = TaskId::draw().unwrap();
    let created = Created {
        owner: Identity::Token(0),
        cancel: CancelSource::new(),
        bytes: 0,
    };
    assert!(world.ledger.create(id, created, world.now));
    let finds = |owner| {
        let found = world.ledger.find_for(id, owner, world.now.instant);
        found.is_some()
    };
    assert!(finds(Identity::Token(0)));
    assert!(!finds(Identity::Token(1)));
    assert!(!finds(Identity::Anyone));
}

#[test]
fn progress_is_told_now_and_then() {
    let mut world = World::new();
    let id = world.task();
    let often = Duration::from_millis(100);
    assert!(world.ledger.progress(id, "1", world.now, often));
    assert!(!world.ledger.progress(id, "2", world.now, often));
    assert_eq!(world.seen(id).unwrap()["statusMessage"], "2");
    world.wait(often);
    assert!(world.ledger.progress(id, "3", world.now, often));
    world.happens(id, result());
    world.wait(often);
    assert!(!world.ledger.progress(id, "4", world.now, often));
    assert_eq!(world.seen(id).unwrap().get("statusMessage"), None);
}
