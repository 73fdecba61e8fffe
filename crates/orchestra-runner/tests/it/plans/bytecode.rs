//! Bytecode of Python that a job may leave in its worktree.

use std::{collections::BTreeMap, sync::Arc};

use orchestra_plan::{
    spec::JobSpec,
    work::{ProfileName, WorkSpec},
};
use orchestra_process::{CHILD_COMMAND, Launcher};
use orchestra_runner::{
    agents::{Agents, Prober},
    plans::Plans,
};
use serde_json::json;

use super::rig::{self, Rig, create, job, settings, succeeded};

#[tokio::test(flavor = "multi_thread")]
async fn agents_and_commands_without_a_sandbox_read_no_bytecode_of_the_worktree() {
    let rig = Rig::new();
    let mut options = rig.options();
    let shows = "printf %s \"$PYTHONPYCACHEPREFIX\"";
    let profile = json!({
        "program": "sh",
        "prompt": "stdin",
        "arguments": [["-c", format!("cat > /dev/null; {shows} > agent.txt")]],
        "probe": {"version": [], "help": []},
        "output": {"form": "text"},
    });
    let name = ProfileName::parse("shower").unwrap();
    let profiles = BTreeMap::from([(name, serde_json::from_value(profile).unwrap())]);
    let prober = Prober::new(std::env::var_os("PATH").unwrap(), rig::program());
    let prober = prober.launcher(Launcher::new(rig::program(), [CHILD_COMMAND]));
    options.agents = Arc::new(Agents::new(profiles, prober));
    let plans = Plans::new(options);
    let work = json!({"type": "agent", "agent": "shower", "instructions": "Show it."});
    let agent = JobSpec {
        work: serde_json::from_value::<WorkSpec>(work).unwrap(),
        ..job("agent", &[], "true")
    };
    let command = job("command", &[], &format!("{shows} > command.txt"));
    let mut own = job("own", &[], &format!("{shows} > own.txt"));
    own.env = serde_json::from_value(json!({"PYTHONPYCACHEPREFIX": "/own"})).unwrap();
    let made = create(&plans, settings("Bytecode"), vec![agent, command, own]).await;
    succeeded(&plans, made.plan).await;
    for file in ["agent.txt", "command.txt"] {
        let directory = rig.file("result", file);
        assert!(directory.contains("/.git/worktrees/"), "{directory}");
        assert!(directory.ends_with("/orchestra-bytecode"), "{directory}");
    }
    assert_eq!(rig.file("result", "own.txt"), "/own");
}
