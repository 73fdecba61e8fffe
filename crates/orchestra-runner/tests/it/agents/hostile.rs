//! Outputs that lie, flood and break off: nothing fails, nothing is held, nothing false is believed.

use orchestra_runner::agents::{Reader, Stream};
use proptest::{collection::vec, prelude::*};
use serde_json::json;

use super::{Programs, profile_of};

const AGENTS: [&str; 9] = [
    "aider", "claude", "codex", "copilot", "cursor", "gemini", "goose", "opencode", "scripted",
];

#[test]
fn figures_that_cannot_be_meant_are_counted_as_ignored() {
    let agents = Programs::new().agents(&[]);
    let mut reader = Reader::new(agents.profile("claude").unwrap(), None);
    let lies = [
        json!({"type": "result", "total_cost_usd": -5, "num_turns": 1e300}),
        json!({"type": "result", "total_cost_usd": 1e99, "duration_ms": "long"}),
        json!({"type": "result", "usage": {"input_tokens": -1, "output_tokens": 1.5}}),
        json!({"type": "result", "usage": {"input_tokens": u64::MAX}}),
        json!({"type": "result", "session_id": "--resume\nall"}),
        json!({"type": "result", "session_id": "x".repeat(10_000)}),
    ];
    for lie in lies {
        reader.feed(Stream::Out, format!("{lie}\n").as_bytes());
    }
    let reading = reader.finish();
    assert_eq!(reading.usage.cost_micros, None);
    assert_eq!(reading.usage.tokens(), 0);
    assert_eq!(
        (reading.usage.turns, reading.usage.session_ms),
        (None, None)
    );
    assert_eq!(reading.session, None);
    assert_eq!(reading.ignored, 9);
}

#[test]
fn a_program_that_says_all_it_can_often_overflows_nothing() {
    let agents = Programs::new().agents(&[]);
    let mut reader = Reader::new(agents.profile("codex").unwrap(), None);
    let most = json!({"type": "turn.completed", "usage": {"input_tokens": 1_000_000_000_000_u64}});
    let line = format!("{most}\n");
    for _ in 0..10_000 {
        reader.feed(Stream::Out, line.as_bytes());
    }
    assert_eq!(reader.finish().usage.tokens(), 10_000_000_000_000_000);
}

#[test]
fn a_flood_without_an_end_is_not_held() {
    let agents = Programs::new().agents(&[]);
    for agent in AGENTS {
        let mut reader = Reader::new(agents.profile(agent).unwrap(), None);
        let piece = vec![b'x'; 1024 * 1024];
        for _ in 0..40 {
            reader.feed(Stream::Out, &piece);
            reader.feed(Stream::Error, &piece);
        }
        reader.feed(
            Stream::Out,
            b"\n{\"type\":\"result\",\"session_id\":\"after\"}\n",
        );
        assert_eq!(reader.finish().ignored, 1, "{agent}");
    }
    let one = profile_of(&json!({
        "program": "x", "arguments": [["{prompt}"]],
        "output": {"form": "json", "events": [{"session": "session"}]},
    }));
    let mut reader = Reader::new(&one, None);
    for _ in 0..40 {
        reader.feed(Stream::Out, &vec![b' '; 1024 * 1024]);
    }
    reader.feed(Stream::Out, b"{\"session\": \"late\"}");
    let reading = reader.finish();
    assert_eq!(reading.session, None);
    assert!(reading.ignored >= 1);
}

#[test]
fn one_object_over_many_lines_is_read_at_the_end() {
    let one = profile_of(&json!({
        "program": "x", "arguments": [["{prompt}"]],
        "output": {"form": "json", "events": [
            {"session": "session", "tokens": {"input": "stats.in"}, "last": true},
        ]},
    }));
    let mut reader = Reader::new(&one, Some("told"));
    reader.feed(
        Stream::Out,
        b"{\n  \"session\": \"s\",\n  \"stats\": {\"in\": 3}\n}\n",
    );
    assert_eq!(reader.so_far().session.as_deref(), Some("told"));
    let reading = reader.finish();
    assert_eq!(
        (reading.session.as_deref(), reading.usage.tokens()),
        (Some("s"), 3)
    );
    assert!(reading.last);
}

#[test]
fn nested_without_end_is_no_object() {
    let agents = Programs::new().agents(&[]);
    let mut reader = Reader::new(agents.profile("opencode").unwrap(), None);
    let deep = format!("{{\"a\":{}", "[".repeat(500_000));
    reader.feed(Stream::Out, deep.as_bytes());
    reader.feed(Stream::Out, b"\n{\"type\":\"done\",\"sessionID\":\"s\"}\n");
    assert_eq!(reader.finish().session.as_deref(), Some("s"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_are_read(bytes in vec(any::<u8>(), 0..400), agent in 0..AGENTS.len()) {
        let agents = Programs::new().agents(&[]);
        let mut reader = Reader::new(agents.profile(AGENTS[agent]).unwrap(), None);
        reader.feed(Stream::Out, &bytes);
        reader.feed(Stream::Error, &bytes);
        let _ = reader.finish();
    }

    #[test]
    fn any_text_between_figures_changes_none(noise in "[ -~]{0,80}") {
        let agents = Programs::new().agents(&[]);
        let mut reader = Reader::new(agents.profile("codex").unwrap(), None);
        let said = "{\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":5,\"output_tokens\":1}}";
        reader.feed(Stream::Out, format!("{noise}\n{said}\n#{noise}\n").as_bytes());
        prop_assert_eq!(reader.finish().usage.tokens(), 6);
    }
}
