//! Programs in the sandbox: a job of a plan, and an upstream server.

use std::fs;

use serde_json::json;

use super::{Actor, How, Job, Server, Stage, of};

/// A script that runs the lines of an actor one after the other, and prints what was not refused, and a word at its end.
fn script(stage: &Stage, actor: Actor) -> String {
    let mut text: String = stage
        .variables()
        .iter()
        .map(|(name, value)| format!("export {name}='{value}'\n"))
        .collect();
    for attempt in of(actor) {
        let How::Line(line) = attempt.2 else { continue };
        text.push_str(&format!(
            "if ( {line} ) > /dev/null 2>&1; then echo '{}'; fi\n",
            attempt.1.replace('`', "")
        ));
    }
    text + "echo all\n"
}

pub(super) fn attempts_of_a_job(stage: &Stage) {
    let script = script(stage, Job);
    let mut lines = String::from("{\n");
    lines.push_str(&script);
    lines.push_str("} > done.txt\n");
    // The same reaches what it may, or all of this would say nothing.
    lines.push_str(
        "orchestra tool call add_comment project=my-app issue_id=MA-1 text='by the job'\n",
    );
    let lines = lines.trim_end().replace('\n', "\n      ");
    let text = format!(
        "name: attack\ntargetBranch: attack\njobs:\n- producerId: inside\n  task: Try\n  autoHeal: false\n  \
         work:\n    type: shell\n    shell: bash\n    command: |\n      {lines}\n"
    );
    fs::write(stage.home().join("attack.yaml"), text).unwrap();
    let file = stage.home().join("attack.yaml");
    let ran = stage.run(["plan", "run", file.to_str().unwrap()]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let done = stage.git(&["show", "attack:done.txt"]);
    assert_eq!(done, "all\n", "what a job was not refused");
    let epic = json!({"project": "my-app", "issue_id": "MA-1"});
    let epic = stage.call("get_history", &epic);
    assert!(epic.contains("by the job"), "{epic}");
    stage.is_untouched("a job");
}

pub(super) fn attempts_of_a_server(stage: &Stage) {
    // In the directory that the server may read.
    stage.write("attack.sh", &script(stage, Server));
    let result = stage.call("hostile__attack", &json!({}));
    let result: serde_json::Value = serde_json::from_str(&result).unwrap();
    let text = &result["result"]["content"][0]["text"];
    assert_eq!(text, "all,", "what a server was not refused: {result}");
    // A tool with the name of one of the board is called by its full name alone.
    let result = stage.call("create_project", &json!({}));
    assert!(
        result.contains("name"),
        "the board misses its argument: {result}"
    );
    assert!(!result.contains("taken"), "{result}");
    let listed = stage
        .send(stage.owner(), "GET", "/api/mcp/tools", &[], "")
        .body;
    assert_eq!(
        listed
            .matches("\"name\":\"hostile__create_project\"")
            .count(),
        1,
        "{listed}"
    );
    assert_eq!(
        listed.matches("\"name\":\"create_project\"").count(),
        1,
        "{listed}"
    );
    stage.is_untouched("a server");
}
