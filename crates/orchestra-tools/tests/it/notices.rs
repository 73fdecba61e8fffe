//! Update notices of watched resources.

use std::time::Duration;

use orchestra_hub::{Notice, Provider};
use serde_json::json;
use tokio::sync::mpsc::Receiver;

use crate::bench::Bench;

/// Long enough for a busy machine; a notice is there as soon as the change is durable.
const PATIENCE: Duration = Duration::from_secs(60);

async fn next(notices: &mut Receiver<Notice>) -> String {
    match tokio::time::timeout(PATIENCE, notices.recv())
        .await
        .expect("a notice in time")
    {
        Some(Notice::ResourceUpdated(uri)) => uri,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn w33_a_watched_issue_announces_its_change_once_it_is_durable() {
    let bench = Bench::with_story().await;
    let task = bench.task("First").await;
    let other = bench.task("Second").await;
    let mut notices = bench.builtin.notices().unwrap();
    assert!(bench.builtin.notices().is_none(), "handed out once");
    let uri = format!("toon://project/my-app/task/MA-1/MA-2/{task}");
    bench.builtin.watch(&uri);
    // A change of an issue that nobody watches comes first, and is not announced.
    bench.bring(&other, "todo").await;
    bench.bring(&task, "todo").await;
    assert_eq!(next(&mut notices).await, uri);
    assert_eq!(bench.status(&task).await, "todo");

    // Whatever was told of the task so far comes before the document.
    let prd = "toon://project/my-app/prd";
    bench.builtin.watch(prd);
    let write = json!({"project": "my-app", "content": "# New"});
    bench.ok("write_prd", write).await;
    while next(&mut notices).await != prd {}

    bench.builtin.unwatch(&uri);
    // Once this comes, nothing that was told of the task before is on its way any more.
    let status = "toon://project/my-app/status";
    bench.builtin.watch(status);
    let rename =
        |id: &str, title: &str| json!({"project": "my-app", "task_id": id, "title": title});
    bench.ok("update_task", rename(&other, "Another")).await;
    while next(&mut notices).await != status {}

    bench.ok("update_task", rename(&task, "Unseen")).await;
    let last = format!("toon://project/my-app/task/MA-1/MA-2/{other}");
    bench.builtin.watch(&last);
    bench.ok("update_task", rename(&other, "Seen")).await;
    loop {
        let told = next(&mut notices).await;
        assert_ne!(told, uri, "nobody watches it");
        if told == last {
            break;
        }
    }
}

#[tokio::test]
async fn creation_and_cascades_are_announced() {
    let bench = Bench::with_story().await;
    let mut notices = bench.builtin.notices().unwrap();
    bench.builtin.watch("toon://project/my-app/status");
    bench.task("First").await;
    assert_eq!(next(&mut notices).await, "toon://project/my-app/status");
}

#[tokio::test]
async fn only_what_is_there_can_be_watched() {
    let bench = Bench::with_story().await;
    let task = bench.task("First").await;
    for (uri, there) in [
        ("toon://project/my-app/prd".to_owned(), true),
        ("toon://project/my-app/status".to_owned(), true),
        (format!("toon://project/my-app/task/MA-1/MA-2/{task}"), true),
        ("toon://project/nope/prd".to_owned(), false),
        ("toon://project/nope/status".to_owned(), false),
        (
            "toon://project/my-app/task/MA-1/MA-2/MA-999".to_owned(),
            false,
        ),
        ("nonsense".to_owned(), false),
    ] {
        assert_eq!(bench.builtin.can_watch(&uri), there, "{uri}");
    }
}
