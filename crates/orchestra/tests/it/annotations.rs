//! Annotations of the tools, by which clients decide which calls they approve without asking their user.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::{Session, Workspace};

/// The tools that can start a process: they accept commands or plans, or let those start.
pub(crate) const STARTS: &str = "create_copilot_plan scaffold_copilot_plan finalize_copilot_plan clone_copilot_plan \
    add_copilot_plan_job add_copilot_plan_jobs update_copilot_plan update_copilot_plan_job \
    bulk_update_copilot_plan_jobs reshape_copilot_plan resume_copilot_plan retry_copilot_plan retry_copilot_job \
    run_copilot_integration_test";

/// The other tools that change something. None of them accepts a command, a plan of jobs, an agent or a server.
const CHANGES: &str = "create_project rename_project delete_project write_prd create_epic update_epic delete_epic \
    create_story update_story delete_story create_task update_task delete_task move_issue add_dependency \
    remove_dependency add_comment get_next_task set_current_task complete_task claim_task release_task advance_task \
    reject_task start_prd_session answer_prd_question abandon_prd_session skip_prd_question back_prd_question \
    split_prd report_bug log_request save_memory forget_memory save_session update_memory forget_session \
    record_usage reset_session_usage save_plan receive_hook_event install_skills install_agents install_docs \
    regenerate_readme pause_copilot_plan cancel_copilot_plan delete_copilot_plan archive_copilot_plan \
    recover_copilot_plan force_fail_copilot_job";

fn tools(arguments: &[&str]) -> Vec<Value> {
    let workspace = Workspace::board();
    let mut session = Session::start(workspace.command([&["stdio"], arguments].concat()));
    let listed = session.request("tools/list", &json!({}));
    listed["result"]["tools"].as_array().unwrap().clone()
}

fn named(tools: &[Value], is_meant: impl Fn(&Value) -> bool) -> BTreeSet<&str> {
    let meant = tools.iter().filter(|tool| is_meant(&tool["annotations"]));
    meant.map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[test]
fn tools_that_can_start_a_process_are_listed_and_announced_as_destructive() {
    let tools = tools(&[]);
    let starts: BTreeSet<&str> = STARTS.split_whitespace().collect();
    let listed: BTreeSet<&str> = [STARTS, CHANGES]
        .iter()
        .flat_map(|names| names.split_whitespace())
        .collect();
    let changing = named(&tools, |hints| hints["readOnlyHint"] != true);
    assert_eq!(
        changing, listed,
        "a new tool belongs into STARTS or CHANGES"
    );
    let reaching = named(&tools, |hints| hints["openWorldHint"] != false);
    assert_eq!(reaching, starts);
    for tool in &tools {
        let (name, hints) = (tool["name"].as_str().unwrap(), &tool["annotations"]);
        if starts.contains(name) {
            assert_eq!(hints["destructiveHint"], true, "{name}: {hints}");
        }
        let is_complete = hints["readOnlyHint"] == true
            || (hints["destructiveHint"].is_boolean() && hints["idempotentHint"].is_boolean());
        assert!(is_complete, "{name}: {hints}");
    }
}

#[test]
fn tool_that_calls_any_other_is_announced_as_destructive() {
    let tools = tools(&["--tools", "search"]);
    let destructive = named(&tools, |hints| hints["destructiveHint"] == true);
    assert_eq!(destructive, BTreeSet::from(["call_tool"]));
    let reaching = named(&tools, |hints| hints["openWorldHint"] != false);
    assert_eq!(reaching, destructive);
}
