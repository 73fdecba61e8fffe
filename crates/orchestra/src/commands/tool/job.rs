//! `orchestra tool` in a job that is in a sandbox: the tools that the job has.

use std::{borrow::Cow, os::unix::net::UnixStream};

use serde_json::{Map, Value, json};

use super::{Command, Listing, Row, print_listing, print_row};
use crate::{
    commands::{
        arguments::{self, Given},
        job::{Refusal, Session},
        told::{self, Printed},
    },
    exit::{Exit, Failure},
    output::{self, Format},
};

pub(super) fn run(stream: UnixStream, command: Command) -> Result<Exit, Failure> {
    let mut session = Session::begin(stream)?;
    let tools = tools(&mut session)?;
    let (call, name) = match command {
        Command::List { json, .. } => {
            let items: Vec<Row> = tools.iter().map(row).collect();
            let total = items.len();
            print_listing(&Listing { items, total }, Format::of_flag(json))?;
            return Ok(Exit::Ok);
        }
        Command::Show { name, json } => {
            let tool = found(&tools, &name).ok_or_else(|| lacks(&name))?;
            print_row(&row(tool), Format::of_flag(json))?;
            return Ok(Exit::Ok);
        }
        Command::Call(call) => {
            let name = call.name.clone().unwrap_or_default();
            (call, name)
        }
    };
    let tool = found(&tools, &name);
    if call.help {
        let tool = tool.ok_or_else(|| lacks(&name))?;
        print_row(&row(tool), Format::of_flag(call.tell.json))?;
        return Ok(Exit::Ok);
    }
    let given = Given::read(call.words, call.args)?;
    if matches!(given, Given::Object { exact: Some(_), .. }) {
        return Err(Failure::usage_text(
            "the arguments have an integer of more than 64 bits, which no tool of a job takes",
        ));
    }
    let (arguments, refusal) = match tool {
        Some(tool) => {
            let schema = &tool["inputSchema"];
            let arguments = given.fit(schema).map_err(Failure::usage)?;
            let refusal = match arguments::check(&arguments, schema) {
                Ok(()) => Exit::Refused,
                Err(_) => Exit::Usage,
            };
            (arguments, refusal)
        }
        // It is put to the board all the same, which records it.
        None => (Map::new(), Exit::Denied),
    };
    let params = json!({"name": name, "arguments": arguments});
    match session.request("tools/call", &params)? {
        Ok(result) => told::print(&name, &Printed::from(result), &call.tell, refusal),
        Err(_) if tool.is_none() => Err(lacks(&name)),
        Err(Refusal(text)) => Err(Failure::refused(text)),
    }
}

fn tools(session: &mut Session) -> Result<Vec<Value>, Failure> {
    match session.request("tools/list", &json!({}))? {
        Ok(mut listed) => match listed["tools"].take() {
            Value::Array(tools) => Ok(tools),
            _ => Err(anyhow::anyhow!("the board listed no tools").into()),
        },
        Err(Refusal(text)) => Err(Failure::refused(text)),
    }
}

fn found<'a>(tools: &'a [Value], name: &str) -> Option<&'a Value> {
    tools.iter().find(|tool| tool["name"] == name)
}

fn lacks(name: &str) -> Failure {
    let text =
        format!("a job in a sandbox has no tool `{name}`; `orchestra tool list` lists its tools");
    Failure::denied(output::printable(&text))
}

fn row(tool: &Value) -> Row {
    let text = |name: &str| tool[name].as_str().map(str::to_owned);
    Row {
        name: text("name").unwrap_or_default(),
        title: text("title"),
        description: text("description"),
        group: Cow::Borrowed("board"),
        input_schema: tool["inputSchema"].clone(),
        output_schema: tool.get("outputSchema").cloned(),
    }
}
