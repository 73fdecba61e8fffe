//! A gateway that is nothing but a way to one server: callers hear of every change of the lists that
//! they have.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use serde_json::Value;
use tokio::time::timeout;

use crate::played::{Bench, PATIENCE, Played, tool, tools_changed, until};

fn names(tools: &Value) -> Vec<&str> {
    let tools = tools.as_array().unwrap().iter();
    tools.map(|tool| tool["name"].as_str().unwrap()).collect()
}

/// The server answers with a list and reports at once that it has changed; the caller does not have
/// the answer yet.
#[tokio::test(start_paused = true)]
async fn change_of_a_list_whose_first_answer_is_on_the_way_is_announced() {
    let server = Played::new(vec![tool("a")]);
    let bench = Bench::relay(&server);
    let attachment = Arc::new(bench.attach());
    let mut notices = attachment.take_notices().unwrap();
    server.holds_lists.send_replace(true);
    let listing = tokio::spawn({
        let attachment = Arc::clone(&attachment);
        async move { Bench::list_tools(&attachment).await }
    });
    until(|| server.lists.load(Ordering::SeqCst) == 1).await;
    server.change_tools(vec![tool("a"), tool("b")]);
    // Nothing is left to be done before the answer comes.
    let none = timeout(Duration::from_secs(1), notices.next()).await;
    assert!(none.is_err(), "{none:?}");
    server.holds_lists.send_replace(false);
    let listed = timeout(PATIENCE, listing).await.expect("an answer in time");
    assert_eq!(names(&listed.unwrap()), ["a"]);
    tools_changed(&mut notices).await;
    assert_eq!(names(&Bench::list_tools(&attachment).await), ["a", "b"]);
    // And the next one.
    server.change_tools(vec![tool("c")]);
    tools_changed(&mut notices).await;
    assert_eq!(names(&Bench::list_tools(&attachment).await), ["c"]);
}

#[tokio::test(start_paused = true)]
async fn changed_list_that_cannot_be_fetched_is_fetched_again() {
    let server = Played::new(vec![tool("a")]);
    let bench = Bench::relay(&server);
    let attachment = bench.attach();
    let mut notices = attachment.take_notices().unwrap();
    assert_eq!(names(&Bench::list_tools(&attachment).await), ["a"]);
    server.is_mute.store(true, Ordering::SeqCst);
    server.change_tools(vec![tool("b")]);
    until(|| server.failed_lists.load(Ordering::SeqCst) == 1).await;
    server.is_mute.store(false, Ordering::SeqCst);
    tools_changed(&mut notices).await;
    assert_eq!(names(&Bench::list_tools(&attachment).await), ["b"]);
}
