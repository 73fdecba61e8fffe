//! The JSON parsing suite: each text stands as the value of a parameter in a request.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use orchestra_wire::{ErrorCode, Inbound, Message};
use serde::Deserialize;

use crate::Score;

#[derive(Deserialize)]
struct Case {
    name: String,
    input: String,
}

pub(crate) fn play(packages: &Path) -> Result<Score> {
    let path = packages.join("json-test-suite/data/parsing.js");
    let module =
        fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let (_, list) = module
        .split_once("export default")
        .context("the module exports no list")?;
    let list = list.trim().trim_end_matches(';');
    let cases: Vec<Case> = serde_json::from_str(list).context("reading the suite")?;
    let mut score = Score {
        passed: 0,
        failed: Vec::new(),
        left_out: 0,
    };
    for Case { name, input } in cases {
        // A line break inside a line would be two lines.
        if input.contains('\n') {
            score.left_out += 1;
            continue;
        }
        match judge(&name, &input) {
            Ok(()) => score.passed += 1,
            Err(why) => score.failed.push(format!("{name}: {why}")),
        }
    }
    Ok(score)
}

/// A text that must parse is taken, one that must not is a parse error, and where the suite leaves
/// it open either will do.
fn judge(name: &str, input: &str) -> Result<(), String> {
    let arguments = format!(r#"{{"value":{input}}}"#);
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":"#;
    let line = format!("{call}{arguments}}}}}");
    let taken = match orchestra_wire::parse(line.as_bytes()) {
        Ok(Inbound::One(Message::Request(request))) => {
            let fields = request.params.fields().map_err(|error| error.to_string())?;
            let kept = fields.arguments.ok_or("its arguments were lost")?;
            if kept.get() != arguments {
                return Err("its text was changed".to_owned());
            }
            true
        }
        Ok(other) => return Err(format!("taken for {other:?}")),
        Err(malformed) if malformed.error.code == ErrorCode::PARSE_ERROR => false,
        Err(malformed) => return Err(malformed.to_string()),
    };
    match (name.as_bytes().first(), taken) {
        (Some(b'y'), false) => Err("refused, but it is JSON".to_owned()),
        (Some(b'n'), true) => Err("taken, but it is not JSON".to_owned()),
        _ => Ok(()),
    }
}
