//! Weaknesses of memory and sessions.

use orchestra_hub::Provider as _;
use serde_json::{Value, json};

use crate::bench::{Bench, ids};

#[tokio::test]
async fn w28_memory_answers_do_not_depend_on_what_answers() {
    let bench = Bench::with_story().await;
    for number in 0..3 {
        let chunk = json!({"project": "my-app", "content": format!("The cache holds {number} pages"), "summary": "cache"});
        bench.ok("save_memory", chunk).await;
    }
    let query = json!({"project": "my-app", "query": "cache pages", "limit": 2});
    let first = bench.ok("search_memory", query.clone()).await;
    assert_eq!(
        first,
        bench.ok("search_memory", query).await,
        "the order is the same each time"
    );
    assert_eq!(first["items"].as_array().unwrap().len(), 2);
    for item in first["items"].as_array().unwrap() {
        assert!(
            item["id"].is_string()
                && item["content"].is_string()
                && item["score"].as_f64() > Some(0.0)
        );
    }
}

#[tokio::test]
async fn w30_a_session_is_known_by_project_and_id() {
    let bench = Bench::with_story().await;
    bench.ok("create_project", json!({"name": "Other"})).await;
    let save = |project: &str, summary: &str, events: Value| json!({"project": project, "session_id": "s-1", "summary": summary, "events": events});
    let events =
        json!([{"type": "note", "summary": "Read the code", "timestamp": "2026-02-14T10:00:00Z"}]);
    let saved = bench
        .ok("save_session", save("my-app", "First", events))
        .await;
    bench
        .ok("save_session", save("other", "Elsewhere", json!([])))
        .await;
    bench.clock.advance(60);
    bench
        .ok("save_session", save("my-app", "Second", json!([])))
        .await;
    let session = bench
        .ok(
            "get_session",
            json!({"project": "my-app", "session_id": "s-1"}),
        )
        .await;
    assert_eq!(
        (&session["summary"], &session["started_at"]),
        (&json!("Second"), &saved["started_at"])
    );
    assert_ne!(session["ended_at"], session["started_at"]);
    assert_eq!(session["events"][0]["timestamp"], "2026-02-14T10:00:00Z");
    assert_eq!(
        bench
            .ok("list_sessions", json!({"project": "my-app"}))
            .await["total"],
        1
    );
    let other = bench
        .ok(
            "get_session",
            json!({"project": "other", "session_id": "s-1"}),
        )
        .await;
    assert_eq!(other["summary"], "Elsewhere");
    assert!(
        bench
            .refused(
                "get_session",
                json!({"project": "my-app", "session_id": "index"})
            )
            .await
            .contains("session_id")
    );
}

#[tokio::test]
async fn w39_memory_search_finds_words_and_not_parts_of_them() {
    let bench = Bench::with_story().await;
    let save = |content: &str| json!({"project": "my-app", "content": content, "summary": "note"});
    bench
        .ok(
            "save_memory",
            save("The database is the slow part of exports"),
        )
        .await;
    bench
        .ok(
            "save_memory",
            save("Exports write rows as they come; exports are quick now"),
        )
        .await;
    let search = async |query: &str| {
        bench
            .ok(
                "search_memory",
                json!({"project": "my-app", "query": query}),
            )
            .await
    };
    assert_eq!(search("abas").await["total"], 0);
    assert_eq!(ids(&search("rows").await), ["mem-2"]);
    assert_eq!(
        ids(&search("exports").await)[0],
        "mem-2",
        "what speaks of it more comes first"
    );
    for hostile in [
        "\"",
        "a AND (",
        "NEAR(",
        "*",
        "'; DROP TABLE chunk",
        "-x",
        "",
    ] {
        search(hostile).await;
    }
}

#[tokio::test]
async fn w41_memories_can_be_forgotten_are_merged_and_capped() {
    let bench = Bench::with_story().await;
    let save = |content: &str| json!({"project": "my-app", "content": content, "summary": "note"});
    let first = bench.ok("save_memory", save("The cache is warm")).await;
    assert_eq!(
        (&first["id"], first.get("content")),
        (&json!("mem-1"), None)
    );
    let again = bench.ok("save_memory", save("The cache is warm")).await;
    assert_eq!(
        (&again["id"], &again["merged"]),
        (&first["id"], &json!(true))
    );
    bench
        .refused("save_memory", save(&"x".repeat(70_000)))
        .await;
    let forget = json!({"project": "my-app", "memory_id": first["id"]});
    bench.ok("forget_memory", forget.clone()).await;
    bench.refused("forget_memory", forget).await;
    assert_eq!(
        bench
            .ok(
                "search_memory",
                json!({"project": "my-app", "query": "cache"})
            )
            .await["total"],
        0
    );
    let next = bench.ok("save_memory", save("Another")).await;
    assert_ne!(next["id"], first["id"], "the id is not used again");
}

/// What the earlier program counted: the share of the query's words that occur anywhere in a text.
fn substrings(text: &str, query: &str) -> f64 {
    let words: Vec<&str> = query.split_whitespace().collect();
    let found = words.iter().filter(|word| text.contains(**word)).count();
    found as f64 / words.len() as f64
}

#[tokio::test]
async fn w39_a_short_word_does_not_find_the_words_it_is_a_part_of() {
    let bench = Bench::with_story().await;
    let text = "the database of the depot";
    let save = json!({"project": "my-app", "content": text, "summary": "note"});
    bench.ok("save_memory", save).await;
    assert_eq!(substrings(text, "ta"), 1.0, "as it was");
    let query = json!({"project": "my-app", "query": "ta"});
    assert_eq!(bench.ok("search_memory", query).await["total"], 0);
}

#[tokio::test]
async fn found_by_other_words_and_told_why() {
    let bench = Bench::with_story().await;
    let long = "Partners retried each webhook up to five times. ".to_owned()
        + &"So it goes on. ".repeat(40);
    let save = |content: &str, source: &str| json!({"project": "my-app", "content": content, "summary": "note", "source": source, "tags": [source]});
    bench.ok("save_memory", save(&long, "task")).await;
    bench
        .ok("save_memory", save("Webhooks are signed", "prd"))
        .await;
    let query = |more: Value| {
        let mut query = json!({"project": "my-app", "query": "why do we retry webhooks"});
        query
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        query
    };
    let found = bench.ok("search_memory", query(json!({}))).await;
    assert_eq!(ids(&found), ["mem-1", "mem-2"]);
    let first = &found["items"][0];
    assert!(first["why"].as_str().unwrap().contains("retry"), "{first}");
    assert!(
        first["snippet"].as_str().unwrap().contains("retried"),
        "{first}"
    );
    assert!(
        found["items"][1].get("snippet").is_none(),
        "it is the whole text"
    );
    for filter in [json!({"source": "prd"}), json!({"tags": ["prd"]})] {
        let found = bench.ok("search_memory", query(filter)).await;
        assert_eq!(ids(&found), ["mem-2"]);
    }
    let later = json!({"since": "2999-01-01T00:00:00Z"});
    assert_eq!(bench.ok("search_memory", query(later)).await["total"], 0);
    let context = bench
        .ok("get_context", query(json!({"max_tokens": 100})))
        .await;
    assert!(
        context["items"][0].get("content").is_none(),
        "it is too long"
    );
    assert!(context["items"][0]["snippet"].is_string());
}

#[tokio::test]
async fn w41_memories_are_changed_superseded_and_expire() {
    let bench = Bench::with_story().await;
    let p = |more: Value| {
        let mut arguments = json!({"project": "my-app"});
        for (name, value) in more.as_object().unwrap() {
            arguments[name] = value.clone();
        }
        arguments
    };
    let save = |content: &str| p(json!({"content": content, "summary": "", "tags": ["deploy"]}));
    bench.ok("save_memory", save("We deploy on Fridays")).await;
    let mut better = save("We deploy on Mondays");
    better["supersedes"] = json!(["mem-1"]);
    better["expires_in_days"] = json!(2);
    let saved = bench.ok("save_memory", better.clone()).await;
    assert!(saved["expires_at"].is_string(), "{saved}");
    let search = p(json!({"query": "deploy"}));
    assert_eq!(
        ids(&bench.ok("search_memory", search.clone()).await),
        ["mem-2"]
    );
    let both = p(json!({"query": "deploy", "include_superseded": true}));
    assert_eq!(bench.ok("search_memory", both).await["total"], 2);
    let old = p(json!({"memory_id": "mem-1"}));
    let old = bench.ok("get_memory", old).await;
    assert_eq!(old["superseded_by"], "mem-2", "it stays readable");
    let listed = bench
        .ok("list_memory", p(json!({"state": "superseded"})))
        .await;
    assert_eq!(ids(&listed), ["mem-1"]);

    let seen = bench
        .ok("get_memory", p(json!({"memory_id": "mem-2"})))
        .await;
    let change = p(
        json!({"memory_id": "mem-2", "summary": "when we deploy", "tags": [],
        "expires_at": "none", "version": seen["version"]}),
    );
    let changed = bench.ok("update_memory", change.clone()).await;
    assert_eq!(
        (
            &changed["summary"],
            &changed["expires_at"],
            &changed["tags"]
        ),
        (&json!("when we deploy"), &Value::Null, &Value::Null)
    );
    assert!(
        bench
            .refused("update_memory", change)
            .await
            .contains("has changed")
    );
    for end in ["2099-01-01T00:00:00Z", "none"] {
        let twice = p(json!({"memory_id": "mem-2", "expires_at": end, "expires_in_days": 1}));
        let refusal = bench.refused("update_memory", twice).await;
        assert!(refusal.contains("not both"), "{refusal}");
    }
    let wrong = p(json!({"memory_id": "mem-2", "version": "1"}));
    let refusal = bench.refused("update_memory", wrong).await;
    assert!(
        refusal.contains("16 hexadecimal digits of a version"),
        "{refusal}"
    );
    let soon = p(json!({"memory_id": "mem-2", "expires_in_days": 1}));
    bench.ok("update_memory", soon).await;
    bench.clock.advance(86_400);
    assert_eq!(
        ids(&bench.ok("search_memory", search).await),
        ["mem-1"],
        "what superseded it has expired"
    );
    better["supersedes"] = json!(["mem-99"]);
    assert!(
        bench
            .refused("save_memory", better)
            .await
            .contains("mem-99")
    );
}

#[tokio::test]
async fn w28_every_list_of_memories_has_one_shape() {
    let bench = Bench::with_story().await;
    for count in [33, 100_000] {
        let tags: Vec<String> = (0..count).map(|n| format!("t{n}")).collect();
        for (tool, more) in [
            ("save_memory", json!({"content": "x", "summary": "x"})),
            ("search_memory", json!({"query": "x"})),
            ("update_memory", json!({"memory_id": "mem-1"})),
        ] {
            let mut many = json!({"project": "my-app", "tags": tags});
            many.as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            let refusal = bench.refused(tool, many).await;
            assert_eq!(refusal, "argument `tags`: is too long: at most 32 values");
        }
    }
    let save = json!({"project": "my-app", "content": "The cache is warm", "summary": "cache"});
    bench.ok("save_memory", save).await;
    for (tool, arguments) in [
        (
            "search_memory",
            json!({"project": "my-app", "query": "cache"}),
        ),
        (
            "get_context",
            json!({"project": "my-app", "query": "cache"}),
        ),
        ("list_memory", json!({"project": "my-app"})),
    ] {
        let answer = bench.ok(tool, arguments).await;
        assert_eq!(
            (&answer["total"], &answer["items"][0]["id"]),
            (&json!(1), &json!("mem-1")),
            "{tool}"
        );
        assert_eq!(answer["items"][0]["summary"], "cache", "{tool}");
    }
}

#[tokio::test]
async fn w30_a_session_keeps_the_times_that_it_was_told() {
    let bench = Bench::with_story().await;
    let save = |more: Value| {
        let mut arguments = json!({"project": "my-app", "session_id": "s", "summary": "S"});
        for (name, value) in more.as_object().unwrap() {
            arguments[name] = value.clone();
        }
        arguments
    };
    let times = json!({"started_at": "2026-01-05T09:00:00Z", "ended_at": "2026-01-05T12:00:00Z"});
    let saved = bench.ok("save_session", save(times)).await;
    assert_eq!(saved["ended_at"], "2026-01-05T12:00:00Z");
    let events = json!({"events": [{"type": "note", "summary": "later", "timestamp": "2026-01-05T13:00:00Z"}]});
    let saved = bench.ok("save_session", save(events)).await;
    assert_eq!(
        (&saved["started_at"], &saved["ended_at"]),
        (
            &json!("2026-01-05T09:00:00Z"),
            &json!("2026-01-05T13:00:00Z")
        )
    );
    let wrong = json!({"started_at": "2026-01-05T09:00:00Z", "ended_at": "2026-01-04T00:00:00Z"});
    assert!(
        bench
            .refused("save_session", save(wrong))
            .await
            .contains("ended_at")
    );
    let forget = json!({"project": "my-app", "session_id": "s"});
    bench.ok("forget_session", forget.clone()).await;
    bench.refused("forget_session", forget).await;
}

/// The earlier program took all of these, and made something of them that nobody had said.
#[tokio::test]
async fn what_was_taken_in_silence_is_refused_with_what_to_do() {
    let bench = Bench::with_story().await;
    let event = |event: Value| json!({"project": "my-app", "session_id": "s", "summary": "S", "events": [event]});
    let save = |project: &str, tags: Value| json!({"project": project, "content": "c", "summary": "s", "tags": tags});
    for (tool, arguments, told) in [
        // It made directories for projects that nobody had created.
        ("save_memory", save("nobody", json!([])), "list_projects"),
        // It dropped tags that were no texts.
        ("save_memory", save("my-app", json!(["a", 1])), "`tags[1]`"),
        // It wrote `<nil>` for what an event did not say.
        ("save_session", event(json!({"type": "note"})), "`summary`"),
        ("save_session", event(json!({"summary": "began"})), "`type`"),
        // It took now for any time.
        (
            "save_session",
            event(json!({"type": "note", "summary": "began", "timestamp": "yesterday"})),
            "timestamp",
        ),
        // It took ten for what is no number of hits.
        (
            "search_memory",
            json!({"project": "my-app", "query": "c", "limit": -1}),
            "`limit`",
        ),
        // It answered with the path of a file.
        (
            "get_session",
            json!({"project": "my-app", "session_id": "gone"}),
            "list_sessions",
        ),
    ] {
        let refusal = bench.refused(tool, arguments).await;
        assert!(refusal.contains(told), "{tool}: {refusal}");
        let path = bench.directory.path().to_str().unwrap();
        assert!(!refusal.contains(path), "{tool}: {refusal}");
    }
    assert_eq!(bench.ok("list_projects", json!({})).await["total"], 1);
}

/// The earlier program listed the oldest of the latest first, or the latest, by what answered.
#[tokio::test]
async fn w28_sessions_are_listed_from_the_latest_on() {
    let bench = Bench::with_story().await;
    for id in ["a", "b", "c"] {
        let save = json!({"project": "my-app", "session_id": id, "summary": "S"});
        bench.ok("save_session", save).await;
        bench.clock.advance(60);
    }
    // One that goes on ends later.
    let save = json!({"project": "my-app", "session_id": "a", "summary": "S again"});
    bench.ok("save_session", save).await;
    let list = bench
        .ok("list_sessions", json!({"project": "my-app", "limit": 2}))
        .await;
    let items = list["items"].as_array().unwrap().iter();
    let listed: Vec<&Value> = items.map(|item| &item["session_id"]).collect();
    assert_eq!(listed, ["a", "c"]);
    assert_eq!(list["total"], 3);
}

/// However much too long it is: there is one limit, and the model is told it before.
#[tokio::test]
async fn a_text_that_is_too_long_meets_one_limit() {
    let bench = Bench::with_story().await;
    for bytes in [65_537, 70_000, 300_000] {
        let long = "x".repeat(bytes);
        for (content, summary, told) in [
            (
                long.as_str(),
                "s",
                "`content`: is too long: at most 65536 bytes",
            ),
            (
                "c",
                long.as_str(),
                "`summary`: is too long: at most 4096 bytes",
            ),
        ] {
            let save = json!({"project": "my-app", "content": content, "summary": summary});
            let refused = bench.refused("save_memory", save).await;
            assert!(refused.contains(told), "{refused}");
        }
    }
    let catalog = bench.builtin.catalog().borrow().clone();
    for name in ["save_memory", "update_memory"] {
        let tool = catalog.tools.iter().find(|tool| tool.name == name);
        let schema: Value = tool.unwrap().input_schema.parse().unwrap();
        assert_eq!(
            schema["properties"]["content"]["description"],
            "At most 65536 bytes."
        );
    }
}
