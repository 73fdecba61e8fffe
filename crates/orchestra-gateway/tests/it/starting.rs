//! Calls of servers of which it is not known yet what they offer.

use std::{sync::atomic::Ordering, time::Duration};

use orchestra_gateway::config::Pins;
use orchestra_hub::{Cx, HubNotice, ListKind, LogLevel, Outcome, ProviderError, Target};
use orchestra_wire::Revision;
use serde_json::json;
use tokio::time::{Instant, interval, timeout};

use crate::{
    log::Lines,
    played::{Bench, PATIENCE, Played, config, text, tool, tool_call, tools_changed, until},
};

/// A call that has so long.
fn within(seconds: u64) -> Cx {
    let deadline = std::time::Instant::now() + Duration::from_secs(seconds);
    Cx {
        deadline: Some(deadline),
        ..Cx::default()
    }
}

#[tokio::test]
async fn a_call_waits_for_a_server_that_is_still_starting() {
    let (here, slow) = (Played::new(vec![tool("a")]), Played::new(vec![tool("get")]));
    slow.is_held.send_replace(true);
    let bench = Bench::new(&[("here", &here), ("slow", &slow)]);
    bench.gateway.apply(vec![config("here"), config("slow")]);
    // Lists do not wait any longer after this.
    assert_eq!(bench.tools().await, ["here__a"]);
    assert!(bench.attach().is_settled());
    let call = bench.ask(tool_call("slow__get", &json!({"x": 1})), Cx::default());
    let open = async {
        until(|| slow.connects.load(Ordering::SeqCst) == 1).await;
        assert!(!text(bench.call("here__a", json!({})).await).1);
        slow.is_held.send_replace(false);
    };
    let (answer, ()) = tokio::join!(call, open);
    assert!(!text(answer.unwrap()).1);
    let expected = json!({"name": "get", "arguments": {"x": 1}});
    assert_eq!(slow.heard("tools/call"), [expected]);
    // What it has not is not there, now that this is known.
    let error = bench.try_call("slow__put", json!({})).await.unwrap_err();
    assert_eq!(error.to_string(), "unknown tool: slow__put");
}

#[tokio::test]
async fn a_call_of_a_server_that_does_not_come_says_why() {
    let (away, slow) = (
        Played::new(vec![tool("get")]),
        Played::new(vec![tool("get")]),
    );
    away.is_away.store(true, Ordering::SeqCst);
    slow.is_held.send_replace(true);
    let bench = Bench::new(&[("away", &away), ("slow", &slow)]);
    let all = ["away", "slow", "none"].map(config);
    bench.gateway.apply(all.to_vec());
    bench.tools().await;
    for (name, what, advice) in [
        ("away__get", "nobody is there", "Try again"),
        ("slow__get", "still starting", "Try again"),
        (
            "none__get",
            "there is no such server",
            "`orchestra mcp validate`",
        ),
    ] {
        let answer = bench.ask(tool_call(name, &json!({})), within(1)).await;
        let (told, is_error) = text(answer.unwrap());
        assert!(is_error && told.contains(what), "{told}");
        assert!(
            told.contains("The call did not run.") && told.contains(advice),
            "{told}"
        );
    }
    let prompt = Target::Prompt {
        name: "away__p_q".into(),
        arguments: std::collections::BTreeMap::new(),
    };
    let error = bench.ask(prompt, within(1)).await.unwrap_err();
    assert!(matches!(&error, ProviderError::Unreachable(why) if why.contains("nobody is there")));
}

/// A start that hangs keeps calls for one start, not until the server is given up.
#[tokio::test(start_paused = true)]
async fn a_call_of_a_server_that_hangs_is_answered_after_one_start() {
    let hangs = Played::new(vec![tool("get")]);
    hangs.is_held.send_replace(true);
    let bench = Bench::new(&[("hangs", &hangs)]);
    let mut config = config("hangs");
    (config.start_timeout, config.timeout) = (Duration::from_secs(5), Duration::from_secs(12));
    let one_start = config.start_timeout + Duration::from_secs(1);
    bench.gateway.apply(vec![config]);
    let told = async |what: &str, connects: usize| {
        let begun = Instant::now();
        let answer = bench
            .ask(tool_call("hangs__get", &json!({})), within(900))
            .await;
        let (text, is_error) = text(answer.unwrap());
        assert!(
            is_error && text.contains("The call did not run."),
            "{what}: {text}"
        );
        assert!(begun.elapsed() < one_start, "{what}: {:?}", begun.elapsed());
        assert_eq!(hangs.connects.load(Ordering::SeqCst), connects, "{what}");
    };
    told("never seen", 1).await;
    hangs.is_held.send_replace(false);
    let mut pace = interval(Duration::from_millis(100));
    loop {
        pace.tick().await;
        let answer = bench
            .ask(tool_call("hangs__get", &json!({})), within(900))
            .await;
        if !text(answer.unwrap()).1 {
            break;
        }
    }
    let before = hangs.connects.load(Ordering::SeqCst);
    hangs.is_held.send_replace(true);
    hangs.crash();
    until(|| hangs.connects.load(Ordering::SeqCst) == before + 1).await;
    told("its restart hangs", before + 1).await;
    let begun = Instant::now();
    told("between two starts", before + 1).await;
    assert!(
        begun.elapsed() < Duration::from_secs(1),
        "{:?}",
        begun.elapsed()
    );
}

/// That its tools cannot be listed does not mean that it has none.
#[tokio::test(start_paused = true)]
async fn a_server_whose_tools_cannot_be_listed_is_not_shown_without_any() {
    let server = Played::new(vec![tool("get")]);
    server.is_mute.store(true, Ordering::SeqCst);
    let bench = Bench::new(&[("s", &server)]);
    bench.gateway.apply(vec![config("s")]);
    assert_eq!(bench.tools().await, Vec::<String>::new());
    assert!(!bench.hub.peers()[0].1.is_known);
    let (told, is_error) = text(bench.call("s__get", json!({})).await);
    assert!(is_error && told.contains("the index is broken"), "{told}");
    assert!(
        told.contains("cannot be listed") && told.contains("did not run"),
        "{told}"
    );
    let attachment = bench.attach();
    let mut notices = attachment.take_notices().unwrap();
    server.is_mute.store(false, Ordering::SeqCst);
    // It is asked again.
    while bench.tools().await.is_empty() {
        tools_changed(&mut notices).await;
    }
    assert!(!text(bench.call("s__get", json!({})).await).1);
}

/// What of it cannot be listed is not shown as if there were none, and the rest is there.
#[tokio::test]
async fn prompts_that_cannot_be_listed_are_not_shown_as_none() {
    let server = Played::new(vec![tool("get")]);
    server.has_broken_prompts.store(true, Ordering::SeqCst);
    let bench = Bench::new(&[("s", &server)]);
    bench.gateway.apply(vec![config("s")]);
    assert_eq!(bench.tools().await, ["s__get"]);
    let list = |kind| {
        let revision = Revision::NEWEST;
        let (start, limit) = (0, 10);
        let target = Target::List {
            kind,
            revision,
            start,
            limit,
        };
        bench.ask(target, Cx::default())
    };
    let error = list(ListKind::Prompts).await.unwrap_err().to_string();
    assert!(
        error.contains("no prompts are known: s is ready"),
        "{error}"
    );
    list(ListKind::Tools).await.unwrap();
    list(ListKind::Resources).await.unwrap();
    // It has none.
    list(ListKind::Templates).await.unwrap();
}

#[tokio::test]
async fn unknown_names_are_refused_with_the_cause_of_a_failed_list() {
    let server = Played::new(vec![tool("get")]);
    server.has_broken_prompts.store(true, Ordering::SeqCst);
    let slow = Played::new(vec![tool("get")]);
    slow.is_held.send_replace(true);
    let bench = Bench::new(&[("s", &server), ("slow", &slow)]);
    bench.gateway.apply(vec![config("s"), config("slow")]);
    assert_eq!(bench.tools().await, ["s__get"]);
    let prompt = Target::Prompt {
        name: "s__p_q".into(),
        arguments: std::collections::BTreeMap::new(),
    };
    let error = bench.ask(prompt, Cx::default()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "unknown prompt: s__p_q; a server whose current prompts are not known may have it: s is ready \
         (its prompts cannot be listed: \"the index is broken\")"
    );
    let error = bench.try_call("put", json!({})).await.unwrap_err();
    let expected = "current tools are not known may have it: slow is starting";
    assert!(error.to_string().ends_with(expected), "{error}");
}

#[tokio::test]
async fn the_bare_name_of_a_tool_is_taken_where_only_one_server_has_it() {
    let one = Played::new(vec![tool("do.it"), tool("same")]);
    let two = Played::new(vec![tool("same")]);
    let bench = Bench::new(&[("one", &one), ("two", &two)]);
    bench.gateway.apply(vec![config("one"), config("two")]);
    bench.tools().await;
    assert!(!text(bench.call("do.it", json!({"x": 1})).await).1);
    let expected = json!({"name": "do.it", "arguments": {"x": 1}});
    assert_eq!(one.heard("tools/call"), [expected]);
    let error = bench.try_call("same", json!({})).await.unwrap_err();
    let told = error.to_string();
    assert!(
        told.starts_with("unknown tool: same; ") && told.ends_with(": one__same, two__same"),
        "{told}"
    );
}

#[tokio::test]
async fn short_name_is_refused_while_the_tools_of_another_server_are_unknown() {
    let (good, evil) = (
        Played::new(vec![tool("pay")]),
        Played::new(vec![tool("pay")]),
    );
    good.is_held.send_replace(true);
    let bench = Bench::new(&[("good", &good), ("evil", &evil)]);
    bench.gateway.apply(vec![config("good"), config("evil")]);
    assert_eq!(bench.tools().await, ["evil__pay"]);
    let error = bench.try_call("pay", json!({})).await.unwrap_err();
    let told = error.to_string();
    for part in ["unknown tool: pay; ", ": evil__pay; ", "good is "] {
        assert!(told.contains(part), "{told}");
    }
    let attachment = bench.attach();
    let mut notices = attachment.take_notices().unwrap();
    good.is_held.send_replace(false);
    while bench.tools().await.len() < 2 {
        tools_changed(&mut notices).await;
    }
    let told = bench.try_call("pay", json!({})).await.unwrap_err();
    assert!(
        told.to_string().ends_with(": evil__pay, good__pay"),
        "{told}"
    );
    assert!(evil.heard("tools/call").is_empty());
}

#[tokio::test]
async fn how_many_tools_are_pinned_is_told_once() {
    let lines = Lines::default();
    let _guard = lines.listen();
    let server = Played::new(vec![tool("a"), tool("b")]);
    let names = [("s", &server), ("follows", &server)];
    let bench = Bench::new(&names);
    let mut follows = config("follows");
    follows.pins = Pins::Follow;
    bench.gateway.apply(vec![config("s"), follows]);
    bench.tools().await;
    let pinned = || {
        let told = lines.take().into_iter();
        told.filter(|line| line.contains("pinned"))
            .collect::<Vec<_>>()
    };
    let told = pinned();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("server=\"s\" tools=2"), "{told:?}");
    let attachment = bench.attach();
    let mut notices = attachment.take_notices().unwrap();
    server.change_tools(vec![tool("a"), tool("b"), tool("c")]);
    while bench.tools().await.len() < 6 {
        tools_changed(&mut notices).await;
    }
    drop(attachment);
    bench.gateway.close(Duration::from_secs(5)).await;
    let again = Bench::in_state(bench.state.clone(), &names);
    again.gateway.apply(vec![config("s")]);
    again.tools().await;
    assert!(!text(again.call("s__a", json!({})).await).1);
    assert_eq!(pinned(), Vec::<String>::new());
}

/// Whoever asked for logs is told, and not more often than every five seconds.
#[tokio::test(start_paused = true)]
async fn who_goes_away_and_comes_back_is_told_without_a_flood() {
    let server = Played::new(vec![tool("get")]);
    let bench = Bench::new(&[("s", &server)]);
    bench.gateway.apply(vec![config("s")]);
    bench.tools().await;
    let attachment = bench.attach();
    attachment.set_log_level(Some(LogLevel::Warning));
    let mut notices = attachment.take_notices().unwrap();
    let mut told = async || loop {
        let HubNotice::Log {
            level,
            logger,
            data,
        } = timeout(PATIENCE, notices.next()).await.unwrap().unwrap()
        else {
            continue;
        };
        assert_eq!((level, logger.as_deref()), (LogLevel::Warning, Some("s")));
        return (Instant::now(), data.parse::<String>().unwrap());
    };
    server.is_away.store(true, Ordering::SeqCst);
    server.crash();
    let (first, text) = told().await;
    assert!(
        text.starts_with("the server s is away: restarting ("),
        "{text}"
    );
    server.is_away.store(false, Ordering::SeqCst);
    let (second, text) = told().await;
    assert_eq!(text, "the server s is back");
    assert!(second - first >= Duration::from_secs(5));
    // Now it comes and goes all the time.
    let (begun, mut messages) = (Instant::now(), 0);
    while begun.elapsed() < Duration::from_secs(60) {
        server.crash();
        let told = timeout(Duration::from_millis(300), told()).await;
        messages += usize::from(told.is_ok());
    }
    assert!(messages <= 13, "{messages}");
}

/// A list of the tools, as a client asks for it.
fn list_of_tools() -> Target {
    Target::List {
        kind: ListKind::Tools,
        revision: Revision::NEWEST,
        start: 0,
        limit: usize::MAX,
    }
}

#[tokio::test(start_paused = true)]
async fn list_of_late_servers_alone_is_empty_and_changes() {
    let late = Played::new(vec![tool("get")]);
    late.is_held.send_replace(true);
    let bench = Bench::new(&[("late", &late)]);
    bench.gateway.apply(vec![config("late")]);
    let attachment = bench.attach();
    let mut notices = attachment.take_notices().unwrap();
    let listed = bench.ask(list_of_tools(), Cx::default()).await.unwrap();
    let Outcome::List { items, .. } = listed else {
        panic!("{listed:?}")
    };
    assert!(items.is_empty(), "{items:?}");
    late.is_held.send_replace(false);
    tools_changed(&mut notices).await;
    assert_eq!(bench.tools().await, ["late__get"]);
}

#[tokio::test(start_paused = true)]
async fn first_list_of_tools_that_fails_is_fetched_again_while_clients_wait() {
    let server = Played::new(vec![tool("get")]);
    server.is_mute.store(true, Ordering::SeqCst);
    let bench = Bench::new(&[("s", &server)]);
    let begun = Instant::now();
    bench.gateway.apply(vec![config("s")]);
    until(|| server.failed_lists.load(Ordering::SeqCst) > 0).await;
    server.is_mute.store(false, Ordering::SeqCst);
    assert_eq!(bench.tools().await, ["s__get"]);
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert!(!text(bench.call("s__get", json!({})).await).1);
}

#[tokio::test(start_paused = true)]
async fn list_of_a_server_that_cannot_list_its_tools_is_empty_and_changes() {
    let server = Played::new(vec![tool("get")]);
    server.is_mute.store(true, Ordering::SeqCst);
    let bench = Bench::new(&[("s", &server)]);
    bench.gateway.apply(vec![config("s")]);
    assert_eq!(bench.tools().await, Vec::<String>::new());
    let attachment = bench.attach();
    let mut notices = attachment.take_notices().unwrap();
    let listed = bench.ask(list_of_tools(), Cx::default()).await.unwrap();
    let Outcome::List { items, .. } = listed else {
        panic!("{listed:?}")
    };
    assert!(items.is_empty(), "{items:?}");
    let recovered = Instant::now();
    server.is_mute.store(false, Ordering::SeqCst);
    tools_changed(&mut notices).await;
    assert!(recovered.elapsed() < Duration::from_secs(2));
    assert_eq!(bench.tools().await, ["s__get"]);
}

/// More of them would keep each other from the processors until none is ready.
#[tokio::test(start_paused = true)]
async fn servers_start_some_at_once_and_none_waits_for_one_that_hangs() {
    const SERVERS: usize = 200;
    let server = Played::new(vec![tool("get")]);
    server.is_held.send_replace(true);
    let names: Vec<String> = (0..SERVERS).map(|number| format!("s{number}")).collect();
    let played: Vec<(&str, &std::sync::Arc<Played>)> =
        names.iter().map(|name| (&**name, &server)).collect();
    let bench = Bench::new(&played);
    let configs = names.iter().map(|name| config(name)).collect();
    bench.gateway.apply(configs);
    let started = || server.connects.load(Ordering::SeqCst);
    let processors = std::thread::available_parallelism().unwrap().get();
    let begin = tokio::time::Instant::now();
    until(|| started() > processors).await;
    // The first ones do not become ready, so the next ones start after their time is over. The clock is paused.
    until(|| started() > processors + 1).await;
    assert!(begin.elapsed() >= Duration::from_secs(3));
    server.is_held.send_replace(false);
    until(|| bench.hub.providers().iter().all(|(_, is_ready)| *is_ready)).await;
    assert_eq!(started(), SERVERS);
}
