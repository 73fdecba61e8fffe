//! Outputs in the forms that the programs document, and what is read from them.

use orchestra_runner::agents::{Reader, Reading, Stream, Tokens};

use super::Programs;

/// Reads an output, cut into pieces anywhere.
fn read(agent: &str, stream: Stream, output: &str) -> Reading {
    let programs = Programs::new();
    let agents = programs.agents(&[]);
    let profile = agents.profile(agent).unwrap();
    let whole = {
        let mut reader = Reader::new(profile, None);
        reader.feed(stream, output.as_bytes());
        reader.finish()
    };
    let mut reader = Reader::new(profile, None);
    for piece in output.as_bytes().chunks(7) {
        reader.feed(stream, piece);
    }
    assert_eq!(
        reader.finish(),
        whole,
        "{agent} reads the same wherever it is cut"
    );
    whole
}

fn tokens(input: u64, output: u64, cache_read: u64, cache_write: u64) -> Tokens {
    Tokens {
        input,
        output,
        cache_read,
        cache_write,
        unsplit: 0,
    }
}

// code.claude.com, "Run Claude Code programmatically" (stream-json) and "Track cost and usage".
#[test]
fn claude_says_its_session_models_cost_and_turns() {
    let output = r#"{"type":"system","subtype":"init","cwd":"/w","session_id":"0f-1","tools":["Bash"],"model":"model-a","permissionMode":"acceptEdits"}
{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"a {\"type\":\"result\"} in a text"}],"usage":{"input_tokens":1}},"session_id":"0f-1"}
{"type":"result","subtype":"success","is_error":false,"duration_ms":5400,"duration_api_ms":4200,"num_turns":3,"result":"Done.","session_id":"0f-1","total_cost_usd":0.0421,"usage":{"input_tokens":12,"cache_creation_input_tokens":300,"cache_read_input_tokens":4000,"output_tokens":250},"modelUsage":{"model-a":{"inputTokens":10,"outputTokens":240,"cacheReadInputTokens":4000,"cacheCreationInputTokens":300,"costUSD":0.04},"model-b":{"inputTokens":2,"outputTokens":10,"cacheReadInputTokens":0,"cacheCreationInputTokens":0,"costUSD":0.0021}}}
"#;
    let reading = read("claude", Stream::Out, output);
    assert_eq!(reading.session.as_deref(), Some("0f-1"));
    assert_eq!(reading.usage.models["model-a"], tokens(10, 240, 4_000, 300));
    assert_eq!(reading.usage.models["model-b"], tokens(2, 10, 0, 0));
    assert_eq!(reading.usage.cost_micros, Some(42_100));
    assert_eq!(
        (reading.usage.turns, reading.usage.api_ms),
        (Some(3), Some(4_200))
    );
    assert!(reading.last && reading.complete && !reading.failed);
    assert_eq!(reading.ignored, 0);
}

#[test]
fn what_a_resumed_session_used_before_is_taken_off_where_all_of_it_is_reported() {
    let programs = Programs::new();
    let agents = programs.agents(&[]);
    let used = |agent: &str, output: &str, before: &str| {
        let before = read(agent, Stream::Out, before).usage;
        let profile = agents.profile(agent).unwrap();
        profile.used(&read(agent, Stream::Out, output), Some(&before))
    };
    let claude = |cost: &str| format!("{{\"type\":\"result\",\"total_cost_usd\":{cost}}}");
    let run = used("claude", &claude("0.05"), &claude("0.02"));
    assert_eq!(run.cost_micros, Some(30_000));
    let codex = |tokens: u64| {
        format!("{{\"type\":\"turn.completed\",\"usage\":{{\"input_tokens\":{tokens}}}}}")
    };
    assert_eq!(used("codex", &codex(5), &codex(3)).tokens(), 5);
}

#[test]
fn claude_says_that_it_failed() {
    let output = r#"{"type":"result","subtype":"success","is_error":true,"duration_ms":900,"duration_api_ms":0,"num_turns":1,"result":"API Error: 529 overloaded_error","session_id":"0f-1","total_cost_usd":0,"usage":{"input_tokens":0,"output_tokens":0}}
"#;
    let reading = read("claude", Stream::Out, output);
    assert!(reading.failed && reading.transient && !reading.complete);
    assert_eq!(
        reading.error.as_deref(),
        Some("API Error: 529 overloaded_error")
    );
}

// github.com/openai/codex, docs/exec.md ("JSON output mode") and exec/src/exec_events.rs.
#[test]
fn codex_says_its_thread_and_the_tokens_of_each_turn() {
    let output = r#"{"type":"thread.started","thread_id":"019-a"}
{"type":"turn.started"}
{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"ok"}}
{"type":"turn.completed","usage":{"input_tokens":24763,"cached_input_tokens":24448,"output_tokens":122}}
{"type":"turn.completed","usage":{"input_tokens":100,"cached_input_tokens":0,"output_tokens":8}}
"#;
    let reading = read("codex", Stream::Out, output);
    assert_eq!(reading.session.as_deref(), Some("019-a"));
    assert_eq!(
        reading.usage.models["(not named)"],
        tokens(415, 130, 24_448, 0)
    );
    assert_eq!(
        (reading.usage.turns, reading.usage.cost_micros),
        (Some(2), None)
    );
    let failed = read(
        "codex",
        Stream::Out,
        r#"{"type":"turn.failed","error":{"message":"no model"}}"#,
    );
    assert!(failed.failed);
    assert_eq!(failed.error.as_deref(), Some("no model"));
}

// github.com/google-gemini/gemini-cli, docs/cli/headless.md ("Streaming JSON output").
#[test]
fn gemini_says_its_session_and_tokens_by_model() {
    let output = r#"{"type":"init","timestamp":"t","session_id":"5b","model":"gemini-2.5-pro"}
{"type":"message","timestamp":"t","role":"assistant","content":"ok","delta":true}
{"type":"result","timestamp":"t","status":"success","stats":{"total_tokens":120,"input_tokens":100,"output_tokens":20,"cached":60,"input":40,"duration_ms":1200,"tool_calls":0,"models":{"gemini-2.5-pro":{"total_tokens":120,"input_tokens":100,"output_tokens":20,"cached":60,"input":40}}}}
"#;
    let reading = read("gemini", Stream::Out, output);
    assert_eq!(reading.session.as_deref(), Some("5b"));
    assert_eq!(
        reading.usage.models["gemini-2.5-pro"],
        tokens(40, 20, 60, 0)
    );
    assert_eq!(reading.usage.session_ms, Some(1_200));
    assert!(reading.last && reading.complete);
}

// cursor.com, "Output format" of its CLI (stream-json): no tokens and no money are documented.
#[test]
fn cursor_says_its_session_and_times() {
    let output = r#"{"type":"system","subtype":"init","apiKeySource":"login","cwd":"/w","session_id":"c6","model":"M 1","permissionMode":"default"}
{"type":"result","subtype":"success","duration_ms":5234,"duration_api_ms":5234,"is_error":false,"result":"Done","session_id":"c6","request_id":"r"}
"#;
    let reading = read("cursor", Stream::Out, output);
    assert_eq!(reading.session.as_deref(), Some("c6"));
    assert_eq!(
        (reading.usage.api_ms, reading.usage.tokens()),
        (Some(5_234), 0)
    );
    assert!(reading.last && reading.complete);
}

#[test]
fn opencode_says_the_tokens_and_cost_of_each_step() {
    let output = r#"{"type":"step_start","timestamp":1,"sessionID":"ses_1","part":{"type":"step-start"}}
{"type":"step_finish","timestamp":2,"sessionID":"ses_1","part":{"type":"step-finish","reason":"tool-calls","cost":0.01,"tokens":{"input":100,"output":10,"reasoning":5,"cache":{"read":50,"write":7}}}}
{"type":"step_finish","timestamp":3,"sessionID":"ses_1","part":{"type":"step-finish","reason":"stop","cost":0.02,"tokens":{"input":1,"output":2,"reasoning":0,"cache":{"read":3,"write":4}}}}
{"type":"done","timestamp":4,"sessionID":"ses_1","reason":"idle","rejected":[]}
"#;
    let reading = read("opencode", Stream::Out, output);
    assert_eq!(reading.session.as_deref(), Some("ses_1"));
    assert_eq!(reading.usage.models["(not named)"], tokens(101, 12, 53, 11));
    assert_eq!(
        (reading.usage.cost_micros, reading.usage.turns),
        (Some(30_000), Some(2))
    );
    assert!(reading.last && reading.complete);
}

#[test]
fn goose_says_its_tokens_split_or_not() {
    let reading = read(
        "goose",
        Stream::Out,
        "{\"type\":\"complete\",\"total_tokens\":900}\n",
    );
    assert_eq!(reading.usage.models["(not named)"].unsplit, 900);
    let split =
        "{\"type\":\"complete\",\"total_tokens\":900,\"input_tokens\":800,\"output_tokens\":100}\n";
    let reading = read("goose", Stream::Out, split);
    assert_eq!(reading.usage.models["(not named)"], tokens(800, 100, 0, 0));
    let failed = read(
        "goose",
        Stream::Out,
        "{\"type\":\"error\",\"error\":\"no provider\"}\n",
    );
    assert_eq!(
        (failed.failed, failed.error.as_deref()),
        (true, Some("no provider"))
    );
}

// github.com/Aider-AI/aider, aider/coders/base_coder.py (calculate_and_show_tokens_and_cost).
#[test]
fn aider_says_tokens_and_cost_of_each_message() {
    let output = "Aider v0.86\n\u{1b}[32mTokens: 2.3k sent, 130 received. Cost: $0.01 message, $0.01 session.\u{1b}[0m\n\
                  Applied edit to a.py\n\
                  Tokens: 12k sent, 3.0k cache write, 1.2k cache hit, 400 received.\n\
                  Cost: $0.02 message, $0.03 session.\n\
                  Tokens: 5 sent, 6 received.\n";
    let reading = read("aider", Stream::Out, output);
    assert_eq!(
        reading.usage.models["(not named)"],
        tokens(2_300 + 7_800 + 5, 536, 1_200, 3_000)
    );
    assert_eq!(reading.usage.cost_micros, Some(30_000));
    assert_eq!(reading.session, None);
}

// docs.github.com, "About GitHub Copilot CLI", and outputs in issues of github.com/github/copilot-cli.
#[test]
fn copilot_says_its_summary_in_three_forms() {
    let first = "Total usage est:       0.33 Premium requests\nTotal duration (API):  12s\n\
                 Total duration (wall): 14s\nTotal code changes:    3 lines added, 1 lines removed\n\
                 Usage by model:\n    claude-haiku-4.5     157.1k input, 1.1k output, 149.4k cache read (Est. 0.33 Premium requests)\n";
    let reading = read("copilot", Stream::Error, first);
    assert_eq!(reading.usage.premium_milli, Some(330));
    assert_eq!(
        reading.usage.models["claude-haiku-4.5"],
        tokens(7_700, 1_100, 149_400, 0)
    );
    assert_eq!(
        (reading.usage.lines_added, reading.usage.lines_removed),
        (Some(3), Some(1))
    );
    let second = "Total usage est:        7 Premium requests\n API time spent:         2m 59.626s\n \
                  Total session time:     12m 15.77s\n Total code changes:     +206 -77\n Breakdown by AI model:\n  \
                  claude-sonnet-4.5       453.0k in, 13.1k out, 405.7k cached (Est. 7 Premium requests)\n  \
                  claude-haiku-4.5        2.0m in, 22.1k out, 1.8m cached (Est. 0 Premium requests)\n";
    let reading = read("copilot", Stream::Error, second);
    assert_eq!(reading.usage.premium_milli, Some(7_000));
    assert_eq!(
        (reading.usage.api_ms, reading.usage.session_ms),
        (Some(179_626), Some(735_770))
    );
    assert_eq!(
        reading.usage.models["claude-sonnet-4.5"],
        tokens(47_300, 13_100, 405_700, 0)
    );
    assert_eq!(
        reading.usage.models["claude-haiku-4.5"],
        tokens(200_000, 22_100, 1_800_000, 0)
    );
    assert!(reading.last);
    let third = "\nChanges    +12 -3\nRequests   1 Premium (2m 50s)\n\
                 Tokens     ↑ 223.6k (166.1k cached, 57.5k written) • ↓ 9.5k (6.4k reasoning)\n\
                 Resume     copilot --resume=7bf9be3c-7961-4016-a285-5ae4eeae1b49\n";
    let reading = read("copilot", Stream::Error, third);
    assert_eq!(
        reading.session.as_deref(),
        Some("7bf9be3c-7961-4016-a285-5ae4eeae1b49")
    );
    assert_eq!(
        reading.usage.models["(not named)"],
        tokens(0, 9_500, 166_100, 57_500)
    );
    assert_eq!(
        (reading.usage.lines_added, reading.usage.session_ms),
        (Some(12), Some(170_000))
    );
    let credits = "AI Credits 3.16 (2s)\nTokens     ↑ 29.5k • ↓ 4\n";
    let reading = read("copilot", Stream::Error, credits);
    assert_eq!(reading.usage.models["(not named)"], tokens(29_500, 4, 0, 0));
    assert_eq!(reading.usage.cost_micros, None, "credits are no money");
}

#[test]
fn a_profile_says_what_its_output_does_not_tell() {
    let programs = Programs::new();
    let agents = programs.agents(&[]);
    let tells = |name: &str| {
        let tells = agents.profile(name).unwrap().tells();
        (tells.session, tells.tokens, tells.cost, tells.context)
    };
    for (name, expected) in [
        ("copilot", (true, true, false, false)),
        ("claude", (true, true, true, true)),
        ("codex", (true, true, false, false)),
        ("gemini", (true, true, false, false)),
        ("cursor", (true, false, false, false)),
        ("aider", (false, true, true, false)),
        ("opencode", (true, true, true, true)),
        ("scripted", (true, true, true, true)),
    ] {
        assert_eq!(tells(name), expected, "{name}");
    }
}

#[test]
fn claude_and_opencode_say_how_full_their_context_is_while_they_run() {
    let claude = r#"{"type":"assistant","message":{"id":"m1","model":"model-a","content":[],"usage":{"input_tokens":4,"cache_creation_input_tokens":1000,"cache_read_input_tokens":20000,"output_tokens":7}},"parent_tool_use_id":null,"session_id":"0f-1"}
{"type":"assistant","message":{"id":"m2","model":"model-a","content":[],"usage":{"input_tokens":6,"cache_creation_input_tokens":500,"cache_read_input_tokens":21000,"output_tokens":9}},"parent_tool_use_id":null,"session_id":"0f-1"}
{"type":"assistant","message":{"id":"m3","model":"model-b","content":[],"usage":{"input_tokens":90000,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":9}},"parent_tool_use_id":"toolu_1","session_id":"0f-1"}
"#;
    // What a helper of the agent is given does not fill the agent's own context.
    let reading = read("claude", Stream::Out, claude);
    assert_eq!(reading.context, Some(21_506));
    // What it used is said at its end.
    assert_eq!(reading.usage.tokens(), 0);
    let opencode = r#"{"type":"step_finish","timestamp":2,"sessionID":"ses_1","part":{"type":"step-finish","reason":"tool-calls","cost":0.01,"tokens":{"input":100,"output":10,"reasoning":5,"cache":{"read":50,"write":7}}}}
"#;
    assert_eq!(read("opencode", Stream::Out, opencode).context, Some(157));
    let codex = r#"{"type":"turn.completed","usage":{"input_tokens":24763,"cached_input_tokens":24448,"output_tokens":122}}
"#;
    // A turn is many calls, so that its sum is not what the context holds.
    assert_eq!(read("codex", Stream::Out, codex).context, None);
}
