//! A real small model, which `cargo xtask soak` serves, with the tools of the weather server.

use crate::{
    chat::{lines, service, weather},
    support::{Workspace, said},
};

/// A model of 135 million parameters has to be shown what a call is.
const QUESTION: &str = r#"Answer as in these examples.

Question: Any weather alerts in Texas?
Answer: <tool_call>
{"name": "get-alerts", "arguments": {"state": "TX"}}
</tool_call>

Question: Any weather alerts in Ohio?
Answer: <tool_call>
{"name": "get-alerts", "arguments": {"state": "OH"}}
</tool_call>

Question: Any weather alerts in California?
Answer:"#;

/// What it says depends on chance, and on the machine in its last digits.
const CONVERSATIONS: usize = 8;

#[test]
fn a_small_model_calls_tools_and_goes_on_with_what_they_answer() {
    // Only a soak serves one.
    let Ok(address) = std::env::var("ORCHESTRA_SOAK_MODEL") else {
        return;
    };
    let (workspace, service) = (Workspace::new(), service());
    let (mut called, mut answered, mut held) = (0, 0, 0);
    for seed in 1..=CONVERSATIONS {
        let mut command = workspace.command(["chat", "--backend", "openai"]);
        command
            .args(["--host", &format!("{address}/v1")])
            .args(["--seed", &seed.to_string(), "--temperature", "0.3"])
            .args(["--max-turns", "2", "--max-seconds", "120"])
            .args(["--env", "WEATHER_API_BASE", "--yes"])
            .arg(weather())
            .env("WEATHER_API_BASE", &service.address);
        let question = serde_json::json!({"query": QUESTION}).to_string();
        let said = said(command, &question);
        let line = &lines(&said)[0];
        let calls = line["tool_calls"].as_array().unwrap();
        let worked = calls.iter().filter(|call| call["is_error"] == false);
        let worked = worked.count();
        let words = line["answer"].as_str().unwrap_or_default();
        println!(
            "seed {seed}: {} calls, of which {worked} worked; {} characters; {}",
            calls.len(),
            words.chars().count(),
            line["error"]
        );
        called += worked;
        answered += usize::from(!words.is_empty());
        held += usize::from(worked > 0 && !words.is_empty());
    }
    println!(
        "counted: {CONVERSATIONS} conversations with a real model, {called} calls of tools that worked, {answered} answers in words, {held} with both"
    );
    assert!(held > 0);
}
