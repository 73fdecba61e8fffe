//! Consent to agents of plans: what is announced before a plan starts one, and how the user agrees at a terminal,
//! through a client and in the dashboard.

use std::fs;

use serde_json::{Value, json};

use crate::{
    plan_agents::{FAILS, Rig},
    pty::{Pty, size},
    support::{Running, get, post_to, said},
};

#[test]
fn validate_run_and_tools_say_beforehand_which_agents_may_start() {
    let rig = Rig::new();
    rig.own("[plans]\nhealer = \"claude\"\n");
    let text = "name: Plan\njobs:\n- producerId: one\n  task: One\n  work: {type: agent, agent: codex, instructions: Do it.}\n";
    rig.workspace.write("plan.yaml", text);
    let healing = "claude heals what fails (named by plans.healer): at most 2 heals per job and 6 per plan, up to 2 \
                   USD per plan where the agent reports its cost";
    let work = "codex (named by the job) does job `one`, work: once per attempt";
    let validated = rig.run(&["plan", "validate", "plan.yaml"]);
    for line in [healing, work] {
        assert!(validated.out.contains(line), "{line}: {validated:?}");
    }
    let mut session = rig.session(&json!({}));
    let arguments = json!({
        "name": "Plan",
        "jobs": [{"producerId": "one", "task": "One", "work": {"type": "agent", "agent": "codex", "instructions": "Do it."}}],
    });
    let made = session.ok("create_copilot_plan", &arguments);
    let status = session.ok(
        "get_copilot_plan_status",
        &json!({"planId": made["planId"]}),
    );
    for line in [healing, work] {
        assert!(made["agents"].to_string().contains(line), "{line}: {made}");
        assert!(
            status["agents"].to_string().contains(line),
            "{line}: {status}"
        );
    }
}

#[test]
fn healer_that_waits_for_consent_or_is_off_is_warned_of_beforehand() {
    let healer = "[plans]\nhealer = \"claude\"\n";
    let awaits = "healing waits: agent `claude` needs your approval, because only a file of the workspace names it as plans.healer";
    let is_off = "healing is off, although plans.healer names `claude`: plans.heal_attempts is 0";
    for (shared, own, expected) in [
        (healer, "", Some(awaits)),
        (
            "",
            "[plans]\nhealer = \"claude\"\nheal_attempts = 0\n",
            Some(is_off),
        ),
        ("[plans]\nheal_attempts = 0\n", healer, Some(is_off)),
        ("", healer, None),
        ("[plans]\nheal_attempts = 0\n", "", None),
    ] {
        let rig = Rig::new();
        rig.own(own);
        rig.workspace.write("orchestra.toml", shared);
        rig.commit();
        let jobs = "jobs:\n- {producerId: one, task: One, work: echo 1 > one.txt}\n";
        let ran = rig.plan(jobs);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let validated = rig.run(&["plan", "validate", "plan.yaml"]);
        let mut session = rig.session(&json!({}));
        let arguments = json!({
            "name": "Other", "startPaused": true,
            "jobs": [{"producerId": "one", "task": "One", "work": "true"}],
        });
        let made = session.ok("create_copilot_plan", &arguments);
        for said in [ran.err, validated.out, made["warnings"].to_string()] {
            match expected {
                Some(warning) => assert!(said.contains(warning), "{warning}: {said}"),
                None => assert!(!said.contains("healing "), "{said}"),
            }
        }
    }
}

#[test]
fn approval_without_a_known_name_lists_agents_and_whether_they_are_installed() {
    let rig = Rig::new();
    fs::remove_file(rig.programs().join("gemini")).unwrap();
    for (arguments, what) in [
        (&["--approve"][..], "--approve takes the name of an agent"),
        (&["--approve", "nobody"], "there is no agent `nobody`"),
    ] {
        let mut all = vec!["plan", "agents"];
        all.extend(arguments);
        let refused = rig.run(&all);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        for part in [what, "claude (installed)", "gemini (not installed)"] {
            assert!(refused.err.contains(part), "{part}: {refused:?}");
        }
    }
    let approved = rig.run(&["plan", "agents", "--approve", "gemini", "--yes"]);
    assert!(
        approved
            .out
            .contains("gemini is approved in this workspace; its program is not installed"),
        "{approved:?}"
    );
    assert_eq!(rig.started(), [""; 0]);
}

#[test]
fn messages_name_the_users_configuration_file_by_its_real_path() {
    let rig = Rig::new();
    let elsewhere = rig.workspace.home().join("settings");
    let mut command = rig.command(&["plan", "agents"]);
    command.env("XDG_CONFIG_HOME", &elsewhere);
    let shown = said(command, "");
    let file = elsewhere.join("orchestra/orchestra.toml");
    let hint = format!("set `healer` of [plans] in your own {}", file.display());
    assert!(shown.out.contains(&hint), "{hint}: {shown:?}");
    assert!(!shown.out.contains("~/.config"), "{shown:?}");
}

#[test]
fn user_at_a_terminal_is_asked_with_command_line_permissions_and_limit() {
    let rig = Rig::new();
    rig.put("copilot", "exit 0");
    let jobs =
        "jobs:\n- {producerId: one, task: One, expectsNoChanges: true, work: '@agent Do it.'}\n";
    rig.workspace
        .write("plan.yaml", &format!("name: Plan\n{jobs}"));
    let mut command = rig.command(&["plan", "run", "plan.yaml"]);
    command.env("TERM", "dumb");
    let mut pty = Pty::start(command, size(200, 50));
    while !pty
        .all
        .contains("Let plans start it in this workspace? [y/N]")
    {
        pty.more().unwrap();
    }
    assert_eq!(rig.started(), [""; 0]);
    for shown in [
        "agent copilot",
        "--allow-all-tools",
        "permissions: ",
        "limit of repairs: at most 2 heals",
        "limit of other work: one run per attempt",
    ] {
        assert!(pty.all.contains(shown), "{shown}: {}", pty.all);
    }
    pty.write("y\n");
    while pty.more().is_some() {}
    assert!(pty.ended().success(), "{}", pty.all);
    assert_eq!(rig.runs(), 1, "{:?}", rig.started());
    // Once per workspace.
    rig.run(&["plan", "delete", "Plan"]);
    assert_eq!(rig.plan(jobs).code, Some(0));
}

#[test]
fn client_that_can_ask_its_user_is_asked_and_one_that_cannot_is_not() {
    let rig = Rig::new();
    let arguments = json!({
        "name": "Plan",
        "jobs": [{"producerId": "one", "task": "One", "work": "@agent Do it."}],
    });
    let mut session = rig.session(&json!({}));
    let made = session.ok("create_copilot_plan", &arguments);
    assert!(
        made["warnings"]
            .to_string()
            .contains("no agent is named for it"),
        "{made}"
    );
    assert_eq!(made["agents"], json!([]), "{made}");
    drop(session);
    let mut session = rig.session(&json!({"elicitation": {}}));
    let mut call = |action: &str| {
        session.send(
            &json!({"jsonrpc": "2.0", "id": 90, "method": "tools/call", "params": {
                "name": "create_copilot_plan", "arguments": arguments,
            }}),
        );
        let asked = session.process.json();
        assert_eq!(asked["method"], "elicitation/create", "{asked}");
        let message = asked["params"]["message"].as_str().unwrap();
        for shown in [
            "agent copilot",
            "--allow-all-tools",
            "permissions: ",
            "limit of repairs: at most 2 heals",
            "limit of other work: one run per attempt",
        ] {
            assert!(message.contains(shown), "{shown}: {message}");
        }
        session.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": action, "content": {}}}));
        let answer = session.process.json();
        assert_eq!(answer["id"], 90, "{answer}");
        answer["result"]["structuredContent"].clone()
    };
    let made = call("decline");
    assert_eq!(made["agents"], json!([]), "{made}");
    let made = call("accept");
    assert!(
        made["agents"]
            .to_string()
            .contains("copilot (agreed to for this workspace)"),
        "{made}"
    );
    // Probed for the plan it may start for now, and run by none that is paused.
    assert_eq!(rig.runs(), 0, "{:?}", rig.started());
}

#[test]
fn declined_agent_is_not_asked_for_again_when_the_plan_is_resumed() {
    let rig = Rig::new();
    rig.put("codex", "exit 0");
    let mut session = rig.session(&json!({"elicitation": {}}));
    let arguments = json!({
        "name": "Plan",
        "startPaused": true,
        "jobs": [{"producerId": "one", "task": "One", "work": "@agent Do it."}],
    });
    let call = |name: &str, arguments: &Value| json!({"jsonrpc": "2.0", "id": 90, "method": "tools/call", "params": {"name": name, "arguments": arguments}});
    session.send(&call("create_copilot_plan", &arguments));
    let asked = session.process.json();
    let message = asked["params"]["message"].as_str().unwrap();
    assert!(
        message.contains("`orchestra plan agents --approve NAME` agrees to another one"),
        "{message}"
    );
    session.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}}));
    let made = session.process.json();
    assert_eq!(made["id"], 90, "{made}");
    session.send(&call("resume_copilot_plan", &json!({"planId": "Plan"})));
    let answer = loop {
        let message = session.process.json();
        assert_ne!(message["method"], "elicitation/create", "{message}");
        if message["id"] == 90 {
            break message;
        }
    };
    assert!(answer["error"].is_null(), "{answer}");
    assert_eq!(rig.runs(), 0, "{:?}", rig.started());
}

#[test]
fn dashboard_approves_an_agent_as_it_was_shown_and_nothing_else() {
    let rig = Rig::new();
    fs::create_dir(rig.workspace.join(".projects")).unwrap();
    rig.workspace
        .write("orchestra.toml", "[plans]\nhealer = \"claude\"\n");
    rig.workspace
        .write("plan.yaml", &format!("name: Plan\n{FAILS}"));
    assert_eq!(rig.run(&["plan", "create", "plan.yaml"]).code, Some(0));
    let up =
        Running::start(rig.command(&["up", "--http", "127.0.0.1:0", "--quic", "off", "--json"]));
    let ready = up.json();
    let address = ready["http"].as_str().unwrap().strip_prefix("http://");
    let address = address.unwrap().trim_end_matches('/').to_owned();
    let shown: Value = serde_json::from_str(&get(&address, "/api/plans/Plan").body).unwrap();
    let offer = &shown["plan"]["offers"][0];
    assert_eq!(offer["agent"], "claude", "{shown}");
    assert!(
        offer["shows"]
            .to_string()
            .contains("--permission-mode acceptEdits"),
        "{offer}"
    );
    let approve = |fingerprint: &str| {
        let body = json!({"fingerprint": fingerprint}).to_string();
        post_to(&address, "/api/agents/claude/approve", &[], &body)
    };
    let refused = approve("0123");
    assert_eq!(refused.status, 403, "{}", refused.body);
    let done = approve(offer["fingerprint"].as_str().unwrap());
    assert_eq!(done.status, 200, "{}", done.body);
    let shown: Value = serde_json::from_str(&get(&address, "/api/plans/Plan").body).unwrap();
    assert_eq!(shown["plan"]["offers"], json!([]), "{shown}");
    assert!(
        shown["plan"]["agents"]
            .to_string()
            .contains("agreed to for this workspace"),
        "{shown}"
    );
    assert_eq!(rig.started(), [""; 0]);
}
