//! What the journal keeps, whatever becomes of its disk, its writer and its files.

mod rebuilding;

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    sync::{Arc, Mutex, mpsc},
    time::{Duration, Instant},
};

use orchestra_runner::journal::{
    Append, AppendError, EVENTS_FILE, Fault, Fresh, Journal, Once, OnceKey, Options, Original,
    PLAN_FILE, PlanKey, Readable, Reader, Receipt, originals, read_export, read_original,
};
use rusqlite::Connection;
use serde_json::{Value, json, value::to_raw_value};

struct Shown;

impl Readable for Shown {
    fn plan(&self, plan: &PlanKey) -> Option<Value> {
        Some(json!({"name": plan.as_str()}))
    }

    fn event(&self, mut event: Value) -> Value {
        if let Some(event) = event.as_object_mut() {
            event.remove("secret");
        }
        event
    }
}

fn with_files() -> Options {
    Options {
        readable: Some(Arc::new(Shown)),
        ..Options::default()
    }
}

fn open(root: &Path) -> Journal {
    Journal::open(root, Options::default()).unwrap()
}

fn plan(name: &str) -> PlanKey {
    PlanKey::parse(name).unwrap()
}

fn append(name: &str, expected: u64, bodies: &[Value]) -> Append {
    let at = |(number, body)| Fresh::new(1_000 + number as u64, body).unwrap();
    Append {
        plan: plan(name),
        expected,
        events: bodies.iter().enumerate().map(at).collect(),
        once: None,
    }
}

async fn add(journal: &Journal, name: &str, expected: u64, body: Value) -> Receipt {
    journal
        .append(append(name, expected, &[body]))
        .await
        .unwrap()
}

fn bodies(reader: &Reader, name: &str) -> Vec<Value> {
    let page = reader.events(&plan(name), 0, 1_000).unwrap();
    assert!(page.damage.is_none(), "{page:?}");
    page.events
        .iter()
        .map(|event| serde_json::from_str(event.body.get()).unwrap())
        .collect()
}

fn database(root: &Path) -> Connection {
    Connection::open(root.join("plans.db")).unwrap()
}

#[tokio::test]
async fn events_are_kept_in_their_order_and_who_was_too_late_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().join("a b \u{1f980}/plans");
    // Who takes the lock makes the directory, and nobody else.
    assert!(Journal::open(&root, Options::default()).is_err() && !root.exists());
    fs::create_dir_all(&root).unwrap();
    let journal = open(&root);
    let first = journal
        .append(append("a", 0, &[json!(1), json!({"two": 2})]))
        .await
        .unwrap();
    assert_eq!((first.seq, first.number), (2, 2));
    assert_eq!(add(&journal, "b", 0, json!("b")).await.seq, 3);
    let late = journal
        .append(append("a", 1, &[json!("late")]))
        .await
        .unwrap_err();
    assert_eq!(
        late.to_string(),
        "plan a changed after it was read: it has 2 events, not 1; read it again before you change it"
    );
    assert_eq!(add(&journal, "a", 2, json!(3)).await.seq, 4);
    assert_eq!(*journal.committed().borrow(), 4);
    let reader = Reader::new(&root);
    assert_eq!(
        bodies(&reader, "a"),
        [json!(1), json!({"two": 2}), json!(3)]
    );
    assert_eq!(bodies(&reader, "c"), [] as [Value; 0]);
    let all = reader.all_events(1, 2).unwrap();
    let places: Vec<_> = all
        .events
        .iter()
        .map(|event| (event.seq, event.plan.as_str(), event.number))
        .collect();
    assert_eq!(places, [(2, "a", 2), (3, "b", 1)]);
    assert!(all.is_more && !reader.all_events(3, 2).unwrap().is_more);
    assert_eq!((all.events[0].at, reader.last().unwrap()), (1_001, 4));
    let plans = reader.plans(None).unwrap();
    assert_eq!(plans.len(), 2);
    assert_eq!(
        (plans[0].number, plans[0].seq, plans[0].began),
        (3, 4, 1_000)
    );
    reader.check().unwrap();
    for (name, mode) in [("plans.db", 0o600), ("plans.db-wal", 0o600)] {
        let found = fs::metadata(root.join(name)).unwrap().permissions().mode();
        assert_eq!(found & 0o777, mode, "{name}");
    }
    journal.close().await;
    let closed = journal
        .append(append("a", 3, &[json!(4)]))
        .await
        .unwrap_err();
    assert!(matches!(closed, AppendError::Fault(Fault::Closed)));
    assert_eq!(bodies(&open(&root).reader(), "a").len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_at_the_same_time_is_committed_together() {
    let root = tempfile::tempdir().unwrap();
    let journal = open(root.path());
    let (tasks, each) = (64_u64, 50);
    let begin = Instant::now();
    let mut work = tokio::task::JoinSet::new();
    for task in 0..tasks {
        let journal = journal.clone();
        work.spawn(async move {
            for number in 0..each {
                add(
                    &journal,
                    &format!("p{task}"),
                    number,
                    json!({"number": number}),
                )
                .await;
            }
        });
    }
    work.join_all().await;
    let seconds = begin.elapsed().as_secs_f64();
    let alone = Instant::now();
    for number in 0..each {
        add(&journal, "alone", number, json!({"number": number})).await;
    }
    println!(
        "{:.0} appends/s of {tasks} at once, {:.0} appends/s of one",
        (tasks * each) as f64 / seconds,
        each as f64 / alone.elapsed().as_secs_f64()
    );
    assert_eq!(journal.reader().last().unwrap(), (tasks + 1) * each);
}

#[tokio::test]
async fn who_has_lost_its_place_without_knowing_keeps_nothing() {
    let root = tempfile::tempdir().unwrap();
    let old = open(root.path());
    add(&old, "a", 0, json!(1)).await;
    let new = open(root.path());
    assert_eq!((old.epoch(), new.epoch()), (1, 2));
    let refused = old.append(append("a", 1, &[json!(2)])).await.unwrap_err();
    assert!(
        matches!(refused, AppendError::Fault(Fault::Fenced)),
        "{refused:?}"
    );
    add(&new, "a", 1, json!("new")).await;
    assert_eq!(bodies(&new.reader(), "a"), [json!(1), json!("new")]);
}

#[tokio::test]
async fn what_has_a_key_is_done_once() {
    let root = tempfile::tempdir().unwrap();
    let journal = open(root.path());
    let key = OnceKey::parse("0123456789abcdef").unwrap();
    let once = |answer: &str| Once {
        key: key.clone(),
        answer: to_raw_value(answer).unwrap(),
    };
    let ask = |answer| Append {
        once: Some(once(answer)),
        ..append("a", 0, &[json!(1)])
    };
    assert!(journal.append(ask("first")).await.unwrap().before.is_none());
    journal.close().await;
    let journal = open(root.path());
    let again = journal.append(ask("second")).await.unwrap();
    assert_eq!(again.before.unwrap().get(), r#""first""#);
    assert_eq!(bodies(&journal.reader(), "a"), [json!(1)]);
    assert_eq!(
        journal.reader().answer(&key).unwrap().unwrap().get(),
        r#""first""#
    );
}

#[tokio::test]
async fn a_deleted_plan_leaves_its_farewell_and_nothing_else() {
    let root = tempfile::tempdir().unwrap();
    let journal = Journal::open(root.path(), with_files()).unwrap();
    journal
        .append(append("a", 0, &vec![json!("event"); 5_000]))
        .await
        .unwrap();
    add(&journal, "b", 0, json!("b")).await;
    journal.flush_files().await;
    assert!(root.path().join("a").join(PLAN_FILE).exists());
    journal.close().await;
    // Nobody sweeps: as when the process is killed before.
    let journal = open(root.path());
    let farewell = Fresh::new(9, &"farewell").unwrap();
    let deleted = journal
        .delete(plan("a"), 5_000, farewell, None)
        .await
        .unwrap();
    assert_eq!((deleted.seq, deleted.number), (5_002, 5_001));
    journal.close().await;
    assert!(root.path().join("a").exists());
    let journal = Journal::open(root.path(), with_files()).unwrap();
    journal.flush_files().await;
    assert!(!root.path().join("a").exists() && root.path().join("b").exists());
    let reader = journal.reader();
    assert_eq!(bodies(&reader, "a"), [json!("farewell")]);
    let rows = reader.plans(None).unwrap();
    assert!(rows[0].is_deleted && rows[0].is_swept && !rows[1].is_deleted);
    let gone = journal
        .append(append("a", 5_001, &[json!("more")]))
        .await
        .unwrap_err();
    assert_eq!(gone.to_string(), "plan a was deleted");
    assert_eq!(add(&journal, "b", 1, json!("more")).await.seq, 5_003);
    let all = reader.all_events(0, 1_000).unwrap();
    let seqs: Vec<_> = all.events.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, [5_001, 5_002, 5_003]);
}

#[tokio::test]
async fn what_another_program_wrote_is_not_touched() {
    let root = tempfile::tempdir().unwrap();
    open(root.path()).close().await;
    let change = |sql: &str| database(root.path()).execute_batch(sql).unwrap();
    change("PRAGMA journal_mode = DELETE; PRAGMA user_version = 99");
    let before = fs::read(root.path().join("plans.db")).unwrap();
    let newer = Journal::open(root.path(), Options::default()).unwrap_err();
    assert_eq!(
        newer.to_string(),
        "the plans' database has schema 99, but this program supports schemas up to 1; update the program"
    );
    assert!(matches!(
        Reader::new(root.path()).plans(None),
        Err(Fault::Newer { .. })
    ));
    assert_eq!(fs::read(root.path().join("plans.db")).unwrap(), before);
    change("PRAGMA user_version = 1; PRAGMA application_id = 5");
    let foreign = Journal::open(root.path(), Options::default()).unwrap_err();
    assert!(matches!(foreign, Fault::Foreign(_)), "{foreign:?}");
}

#[tokio::test]
async fn a_full_disk_refuses_and_forgets_nothing() {
    let root = tempfile::tempdir().unwrap();
    let small = Options {
        max_bytes: 256 * 1024,
        ..Options::default()
    };
    let journal = Journal::open(root.path(), small).unwrap();
    let text = "x".repeat(20_000);
    let mut kept = 0;
    let full = loop {
        match journal.append(append("a", kept, &[json!(text)])).await {
            Ok(_) => kept += 1,
            Err(error) => break error,
        }
        assert!(kept < 100);
    };
    assert!(
        matches!(full, AppendError::Fault(Fault::DiskFull)),
        "{full:?}"
    );
    assert!(kept > 5);
    // What is small enough has room, also beside what is not.
    let (small, large) = tokio::join!(
        journal.append(append("b", 0, &[json!(1)])),
        journal.append(append("c", 0, &[json!(text)]))
    );
    assert!(small.is_ok() && large.is_err(), "{small:?} {large:?}");
    journal.close().await;
    let journal = open(root.path());
    assert_eq!(bodies(&journal.reader(), "a").len() as u64, kept);
    add(&journal, "a", kept, json!(text)).await;
}

#[tokio::test]
async fn a_database_that_is_taken_away_is_missed() {
    let root = tempfile::tempdir().unwrap();
    let journal = open(root.path());
    add(&journal, "a", 0, json!(1)).await;
    fs::remove_file(root.path().join("plans.db")).unwrap();
    let gone = journal
        .append(append("a", 1, &[json!(2)]))
        .await
        .unwrap_err();
    assert!(matches!(gone, AppendError::Fault(Fault::Gone)), "{gone:?}");
    assert!(journal.reader().plans(None).unwrap().is_empty());
}

#[tokio::test]
async fn what_cannot_be_written_can_be_read() {
    let root = tempfile::tempdir().unwrap();
    let journal = open(root.path());
    add(&journal, "a", 0, json!(1)).await;
    journal.close().await;
    let mode = |mode| {
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(root.path(), mode.clone()).unwrap();
    };
    fs::set_permissions(
        root.path().join("plans.db"),
        fs::Permissions::from_mode(0o400),
    )
    .unwrap();
    mode(0o500);
    assert_eq!(bodies(&Reader::new(root.path()), "a"), [json!(1)]);
    if !rustix::process::geteuid().is_root() {
        let refused = Journal::open(root.path(), Options::default()).unwrap_err();
        assert!(matches!(refused, Fault::ReadOnly), "{refused:?}");
    }
    mode(0o700);
}

#[tokio::test]
async fn the_readable_files_say_what_happened_without_secrets() {
    let root = tempfile::tempdir().unwrap();
    let journal = Journal::open(root.path(), with_files()).unwrap();
    add(&journal, "a", 0, json!({"n": 1, "secret": "hunter2"})).await;
    add(&journal, "a", 1, json!({"n": 2})).await;
    journal.flush_files().await;
    let directory = root.path().join("a");
    let shown: Value =
        serde_json::from_slice(&fs::read(directory.join(PLAN_FILE)).unwrap()).unwrap();
    assert_eq!(
        shown,
        json!({"schema": 1, "id": "a", "events": 2, "plan": {"name": "a"}})
    );
    let text = fs::read_to_string(directory.join(EVENTS_FILE)).unwrap();
    assert!(!text.contains("hunter2"));
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], r#"{"schema":1,"plan":"a"}"#);
    assert!(
        lines[1].starts_with(r#"{"seq":1,"number":1,"at":1000,"event":{"n":1},"check":""#),
        "{text}"
    );
    for (path, mode) in [
        ("a", 0o700),
        ("a/plan.json", 0o600),
        ("a/events.jsonl", 0o600),
    ] {
        let found = fs::metadata(root.path().join(path))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(found & 0o777, mode, "{path}");
    }
    // What is missing is made anew, at the next change or the next start.
    fs::remove_file(directory.join(EVENTS_FILE)).unwrap();
    add(&journal, "a", 2, json!({"n": 3})).await;
    journal.flush_files().await;
    assert_eq!(
        fs::read_to_string(directory.join(EVENTS_FILE))
            .unwrap()
            .lines()
            .count(),
        4
    );
    journal.close().await;
    fs::remove_dir_all(&directory).unwrap();
    let journal = Journal::open(root.path(), with_files()).unwrap();
    journal.close().await;
    assert!(
        fs::read_to_string(directory.join(EVENTS_FILE))
            .unwrap()
            .starts_with(&text)
    );
}

/// Shows plans when the test permits it.
struct Gate {
    asked: mpsc::SyncSender<()>,
    permits: Mutex<mpsc::Receiver<()>>,
}

impl Readable for Gate {
    fn plan(&self, _: &PlanKey) -> Option<Value> {
        self.asked.send(()).ok()?;
        let permits = self.permits.lock().ok()?;
        permits.recv().ok()?;
        Some(json!({}))
    }

    fn event(&self, event: Value) -> Value {
        event
    }
}

#[tokio::test]
async fn event_that_comes_while_the_state_is_written_is_in_both_files_afterwards() {
    let root = tempfile::tempdir().unwrap();
    let ((asked, asks), (permit, permits)) = (mpsc::sync_channel(9), mpsc::channel());
    let permits = Mutex::new(permits);
    let options = Options {
        readable: Some(Arc::new(Gate { asked, permits })),
        ..Options::default()
    };
    let journal = Journal::open(root.path(), options).unwrap();
    add(&journal, "a", 0, json!(1)).await;
    asks.recv().unwrap();
    add(&journal, "a", 1, json!(2)).await;
    for _ in 0..9 {
        permit.send(()).unwrap();
    }
    journal.flush_files().await;
    assert_eq!(events_shown(root.path()), 2);
    let events = read_export(&root.path().join("a").join(EVENTS_FILE), &plan("a"));
    assert_eq!(events.unwrap().unwrap().events.len(), 2);
}

#[tokio::test]
async fn state_that_is_behind_the_events_is_written_again_at_the_next_start() {
    let root = tempfile::tempdir().unwrap();
    let journal = Journal::open(root.path(), with_files()).unwrap();
    add(&journal, "a", 0, json!(1)).await;
    add(&journal, "a", 1, json!(2)).await;
    journal.close().await;
    let file = root.path().join("a").join(PLAN_FILE);
    let text = fs::read_to_string(&file).unwrap();
    let behind = text.replace("\"events\": 2", "\"events\": 1");
    assert_ne!(behind, text);
    fs::write(&file, behind).unwrap();
    let journal = Journal::open(root.path(), with_files()).unwrap();
    journal.close().await;
    assert_eq!(events_shown(root.path()), 2);
}

/// Number of the last event in the state of plan `a`.
fn events_shown(root: &Path) -> u64 {
    let text = fs::read(root.join("a").join(PLAN_FILE)).unwrap();
    let shown: Value = serde_json::from_slice(&text).unwrap();
    shown["events"].as_u64().unwrap()
}

#[tokio::test]
async fn what_a_power_cut_left_of_a_file_is_mended() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("a").join(EVENTS_FILE);
    let journal = Journal::open(root.path(), with_files()).unwrap();
    for number in 0..4 {
        add(&journal, "a", number, json!({"number": number})).await;
    }
    journal.close().await;
    let whole = fs::read(&file).unwrap();
    let cuts = (0..whole.len()).step_by(7).chain([whole.len() - 1]);
    for cut in cuts {
        let mut torn = whole[..cut].to_vec();
        // Blocks that were never written read as zeros.
        torn.resize(torn.len() + cut % 3 * 50, 0);
        fs::write(&file, &torn).unwrap();
        if let Some(read) = read_export(&file, &plan("a")).unwrap() {
            assert!(read.bytes as usize <= cut && read.events.len() <= 4);
        }
        Journal::open(root.path(), with_files())
            .unwrap()
            .close()
            .await;
        assert!(fs::read(&file).unwrap() == whole, "cut at {cut}");
    }
    let read = read_export(&file, &plan("a")).unwrap().unwrap();
    assert!(!read.is_torn && read.events.len() == 4);
}

#[tokio::test]
async fn what_happens_at_once_is_written_at_once() {
    let root = tempfile::tempdir().unwrap();
    let journal = Journal::open(root.path(), with_files()).unwrap();
    for number in 0..50 {
        add(&journal, "a", number, json!(number)).await;
    }
    let file = root.path().join("a").join(EVENTS_FILE);
    let end = Instant::now() + Duration::from_secs(20);
    // Without anybody asking for it.
    while read_export(&file, &plan("a"))
        .unwrap()
        .is_none_or(|read| read.events.len() < 50)
    {
        assert!(Instant::now() < end);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn plans_of_the_earlier_system_are_read_as_far_as_they_can_be() {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str, value: &Value| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, value.to_string()).unwrap();
    };
    let id = "6c84fb90-12c4-11e1-840d-7b25c5ee775a";
    let job = |id: &str, producer: &str, dependencies: Value| json!({"id": id, "producerId": producer, "task": format!("do {producer}"), "dependencies": dependencies, "hasWork": true});
    let mut first = job("n1", "first", json!([]));
    first["workRef"] = json!("specs/n1/attempts/1/work.json");
    let mut second = job("n2", "second", json!(["n1", "nobody", 5]));
    second["workRef"] = json!("../../outside.json");
    second["postchecks"] = json!("cargo test");
    second["autoHeal"] = json!(false);
    let plan = json!({
        "id": id,
        "spec": {"name": "Old", "baseBranch": "main", "maxParallel": 4},
        "targetBranch": "feature/x",
        "env": {"TOKEN": "hunter2"},
        "isPaused": true,
        "createdAt": 1_700_000_000_000.5,
        "jobs": [first, second, job("n3", "third", json!(["second"])), job("sv", "__snapshot-validation__", json!(["n3"])), 7, {}],
        "nodeStates": {"n1": {"status": "succeeded", "attempts": 2, "completedCommit": "abc"}, "n2": []},
    });
    write(&format!("{id}/plan.json"), &plan);
    write("outside.json", &json!("secret"));
    write(
        &format!("{id}/specs/n1/attempts/1/work.json"),
        &json!({"type": "agent", "model": "m"}),
    );
    fs::write(
        root.path()
            .join(id)
            .join("specs/n1/attempts/1/work_instructions.md"),
        "long text",
    )
    .unwrap();
    // Under the producer id, through the link of the latest attempt.
    write(
        &format!("{id}/specs/third/attempts/3/work.json"),
        &json!("make"),
    );
    std::os::unix::fs::symlink(
        "attempts/3",
        root.path().join(id).join("specs/third/current"),
    )
    .unwrap();
    write(
        "plan-old-1.json",
        &json!({"id": "old-1", "jobs": {"a": {"id": "a", "work": "true"}}}),
    );
    write("plans-index.json", &json!({}));
    write("ours/plan.json", &json!({"schema": 1, "jobs": []}));
    fs::write(root.path().join("plan-broken.json"), "{").unwrap();

    let found = originals(root.path()).unwrap();
    let names: Vec<_> = found
        .iter()
        .map(|original| original.plan.as_str())
        .collect();
    assert_eq!(names, [id, "old-1"]);
    let plan = read_original(&found[0]).unwrap();
    assert_eq!(
        (plan.name.as_str(), plan.is_paused, plan.max_parallel),
        ("Old", true, Some(4))
    );
    assert_eq!(
        (plan.target_branch.as_deref(), plan.created_at),
        (Some("feature/x"), Some(1_700_000_000_000))
    );
    assert_eq!(plan.env_names, ["TOKEN"]);
    assert!(!format!("{plan:?}").contains("hunter2") && !format!("{plan:?}").contains("secret"));
    let producers: Vec<_> = plan
        .jobs
        .iter()
        .map(|job| job.producer_id.as_str())
        .collect();
    assert_eq!(producers, ["first", "second", "third"]);
    let [first, second, third] = &plan.jobs[..] else {
        panic!()
    };
    assert_eq!(
        first.work,
        Some(json!({"type": "agent", "model": "m", "instructions": "long text"}))
    );
    assert_eq!(
        (first.status.as_deref(), first.attempts),
        (Some("succeeded"), Some(2))
    );
    assert_eq!(
        (&second.dependencies[..], &second.work),
        (&["first".to_owned()][..], &None)
    );
    assert_eq!(second.postchecks, Some(json!("cargo test")));
    assert!(first.auto_heal && !second.auto_heal);
    assert_eq!(third.work, Some(json!("make")));
    assert_eq!(plan.notes.len(), 4, "{:?}", plan.notes);
    let old = read_original(&found[1]).unwrap();
    assert_eq!(
        (old.jobs[0].producer_id.as_str(), &old.jobs[0].work),
        ("a", &Some(json!("true")))
    );
    let broken = Original {
        path: root.path().join("plan-broken.json"),
        ..found[1].clone()
    };
    assert!(
        read_original(&broken)
            .unwrap_err()
            .to_string()
            .contains("is not a plan of the earlier system")
    );
}

#[tokio::test]
async fn several_appends_are_kept_together_or_not_at_all() {
    let root = tempfile::tempdir().unwrap();
    let journal = open(root.path());
    let all = |first: Append, second: Append| journal.append_all(vec![first, second]);
    let both = all(
        append("a", 0, &[json!(1)]),
        append("b", 0, &[json!(1), json!(2)]),
    );
    let kept = both.await.unwrap();
    assert_eq!(kept.seq, 3);
    assert_eq!(*journal.committed().borrow(), 3);
    // The second is too late: nothing is kept of the first either, and no place is used up.
    let refused = all(append("a", 1, &[json!(2)]), append("b", 0, &[json!(3)])).await;
    assert!(matches!(refused, Err(AppendError::Conflict { .. })));
    let reader = journal.reader();
    assert_eq!(bodies(&reader, "a"), [json!(1)]);
    assert_eq!(add(&journal, "a", 1, json!(2)).await.seq, 4);
    // Nor when one was asked for before.
    let once = Once {
        key: OnceKey::parse("0123456789abcdef").unwrap(),
        answer: to_raw_value(&7).unwrap(),
    };
    let keyed = |expected| Append {
        once: Some(once.clone()),
        ..append("b", expected, &[json!(3)])
    };
    journal.append(keyed(2)).await.unwrap();
    let again = all(append("a", 2, &[json!(3)]), keyed(3)).await.unwrap();
    assert_eq!(again.before.unwrap().get(), "7");
    assert_eq!(bodies(&reader, "a"), [json!(1), json!(2)]);
    // The same plan twice, in its order.
    let twice = all(append("a", 2, &[json!(3)]), append("a", 3, &[json!(4)]));
    assert_eq!(twice.await.unwrap().seq, 7);
    assert_eq!(bodies(&reader, "a").len(), 4);
}

/// SQLite evaluates such a column when it reads a row, and an expression can take any time.
#[tokio::test]
async fn database_with_a_column_that_is_computed_is_neither_read_nor_written() {
    for planted in [
        "ALTER TABLE event ADD COLUMN planted AS (hex(json))",
        "DROP TABLE fact; CREATE VIEW fact AS SELECT 'epoch' AS name, 0 AS value",
    ] {
        let root = tempfile::tempdir().unwrap();
        let journal = open(root.path());
        add(&journal, "a", 0, json!(1)).await;
        journal.close().await;
        database(root.path()).execute_batch(planted).unwrap();
        let read = Reader::new(root.path()).events(&plan("a"), 0, 10);
        assert!(matches!(read, Err(Fault::Damaged)), "{planted}");
        let written = Journal::open(root.path(), Options::default());
        assert!(matches!(written, Err(Fault::Damaged)), "{planted}");
    }
}
