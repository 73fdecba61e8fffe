//! Orchestrators elsewhere that are servers of this program: how they are reached again.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::{
    foreign::Foreign,
    support::{Session, Workspace, until},
};

/// As a server on the network is: often at first, at once for whoever calls, and in the same session.
#[test]
fn an_orchestrator_that_was_away_is_used_again_at_once_in_the_same_session() {
    let workspace = Workspace::board();
    let certs = workspace.home().join(".orchestra/certs");
    let mut orchestrator = Foreign::start(&certs);
    let config = format!(
        "[servers.other]\norchestrator = \"{}\"\ncerts_dir = {:?}\n\
         timeout = \"2s\"\ncircuit = {{ failures = 1, pause = \"1h\" }}\n",
        orchestrator.address(),
        certs.display().to_string(),
    );
    workspace.write("orchestra.toml", &config);
    let approved = workspace.run(["mcp", "approve", "--yes", "other"]);
    assert_eq!(approved.code, Some(0), "{approved:?}");
    let mut session = Session::start(workspace.command(["stdio"]));
    let mut echo = |text: &str| {
        let params = json!({"name": "other__echo", "arguments": {"text": text}});
        let answer = session.request("tools/call", &params);
        let is_error = answer["result"]["isError"] == true;
        (!is_error).then(|| answer["result"]["content"][0]["text"].clone())
    };
    until(|| echo("first").filter(|said| said == "first"));
    let before = orchestrator.last().session;
    orchestrator.go();
    assert_eq!(echo("away"), None);
    orchestrator.come();
    let begin = Instant::now();
    until(|| echo("back").filter(|said| said == "back"));
    // The pause of the circuit is far longer, and one attempt takes some seconds.
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(30), "{took:?}");
    assert_eq!(orchestrator.last().session, before);
}
