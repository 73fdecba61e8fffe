//! Servers of the official SDKs that speak both eras, directly and behind the gateway: clients of either
//! era get the same answers, to questions within a call as well.

use std::{fs, process::Command};

use anyhow::{Context as _, Result};
use serde_json::json;

use super::{Installed, Through, run_through};
use crate::{
    judges::{Absent, Judge, LIMIT, NEWEST_OF_EACH_ERA, client, renew, report, workspace_of_check},
    run::{self, Ended},
    test::Tally,
};

const JUDGES: [(&str, Judge); 2] = [
    ("typescript-v2", Judge::TypeScript("v2.mjs")),
    ("python-v2", Judge::PythonSecond),
];

/// The name of a server, its script in `judges/servers`, and whether Python runs it.
const SERVERS: [(&str, &str, bool); 2] = [
    ("both-typescript", "both.mjs", false),
    ("both-python", "both.py", true),
];

/// How a judge reaches a server.
const WAYS: [(&str, Option<Through>); 3] = [
    (" directly", None),
    ("", Some(Through::Stdio)),
    (" over http", Some(Through::Up)),
];

/// Runs the judges whose name holds `word`, or all.
pub(super) fn all(word: Option<&str>, tally: &mut Tally) {
    for (over, through) in WAYS {
        for (judge_name, judge) in JUDGES {
            for revision in NEWEST_OF_EACH_ERA {
                for server in SERVERS {
                    let name = format!("{judge_name} {revision} {}{over}", server.0);
                    if word.is_none_or(|word| name.contains(word)) {
                        report(&name, sit(judge, revision, server, through), tally);
                    }
                }
            }
        }
    }
}

fn sit(
    judge: Judge,
    revision: &str,
    (name, script, is_python): (&str, &str, bool),
    through: Option<Through>,
) -> Result<Result<Ended>, Absent> {
    let client = client(judge, revision).map_err(Absent)?;
    let installed = Installed::find().map_err(Absent)?;
    let mut server = Command::new(match is_python {
        true => &installed.python,
        false => &installed.node,
    });
    // Those in JavaScript find their packages beside them.
    server.arg(match is_python {
        true => run::root().join("judges/servers").join(script),
        false => installed.home.join(script),
    });
    Ok(hear(client, revision, name, &server, through))
}

fn hear(
    mut client: Command,
    revision: &str,
    name: &str,
    server: &Command,
    through: Option<Through>,
) -> Result<Ended> {
    let script = run::root().join(format!("judges/scripts/both-{revision}.json"));
    client.arg(revision).arg(&script);
    let Some(through) = through else {
        client.arg(server.get_program()).args(server.get_args());
        return run::run_within(&mut client, LIMIT);
    };
    let directory = workspace_of_check();
    renew(&directory)?;
    let directory = directory.canonicalize().context("the judge's workspace")?;
    fs::create_dir(directory.join("home")).context("creating a home directory")?;
    let servers = directory.join("servers.json");
    let args: Vec<_> = server.get_args().map(|arg| arg.to_string_lossy()).collect();
    let program = server.get_program().to_string_lossy();
    let entry = json!({"command": program, "args": args, "prefix": false});
    let text = json!({"mcpServers": {name: entry}}).to_string();
    fs::write(&servers, text).context("writing the servers")?;
    let (ended, _) = run_through(client, through, &directory, &servers, &script)?;
    if ended.success {
        crate::judges::remove(&directory)?;
    }
    Ok(ended)
}
