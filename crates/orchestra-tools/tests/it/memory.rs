//! Weaknesses of memory and sessions.

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
