//! Where tools are asked, and what shows how far long work is.

use std::{cell::RefCell, os::unix::net::UnixStream, time::Duration};

use orchestra_hub::{Content, Cx, Outcome, Request, Target, Toolset};
use orchestra_store::{Options, ReadError};
use orchestra_wire::RawJson;
use serde_json::{Value, json};

use crate::{
    commands::job::{Refusal, Session},
    config::Config,
    exit::{Exit, Failure},
    serving::Serving,
};

/// How long the sweep for edited files may take.
pub(super) const CATCHING_UP: Duration = Duration::from_secs(30);
/// What is said where there is no project.
pub(super) const NO_PROJECT: &str =
    "there is no project yet; `orchestra tool call create_project name=NAME` creates one";
/// The tools of the board, open for some calls.
pub(super) enum Desk {
    /// In this process.
    Own(Box<Serving>),
    /// Outside the sandbox of the job that this process belongs to.
    OfJob(RefCell<Session>),
}

impl Desk {
    /// Opens the board. Must run inside the runtime.
    pub(super) fn open(config: &Config) -> Result<Self, Failure> {
        let options = Options {
            watch: false,
            ..Options::default()
        };
        let serving = Serving::open(config, options)?;
        // What somebody edited a moment ago is seen by the tools.
        serving.catch_up();
        Ok(Self::Own(Box::new(serving)))
    }

    /// Connects to the board of a job.
    pub(super) fn of_job(stream: UnixStream) -> Result<Self, Failure> {
        Ok(Self::OfJob(RefCell::new(Session::begin(stream)?)))
    }

    /// Has what is searched found by its meaning as well, where a model is configured.
    pub(super) async fn await_engine(&self) {
        if let Self::Own(serving) = self {
            serving.await_engine().await;
        }
    }

    pub(super) fn close(self) {
        if let Self::Own(serving) = self {
            serving.close();
        }
    }

    /// The project that is meant: the one named, else the only one.
    pub(super) async fn project(&self, named: Option<&str>) -> Result<String, Failure> {
        if let Some(named) = named {
            return Ok(named.to_owned());
        }
        let answer = self.call("list_projects", &json!({"limit": 50})).await?;
        let slugs: Vec<&str> = answer["items"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|item| item["slug"].as_str())
            .collect();
        match slugs.as_slice() {
            [only] => Ok((*only).to_owned()),
            [] => Err(Failure::refused(NO_PROJECT)),
            several => Err(Failure::usage_text(format!(
                "there are several projects; name one with --project: {}",
                several.join(", ")
            ))),
        }
    }

    /// Asks a tool about a project; arguments that are null are left out.
    pub(super) async fn ask(
        &self,
        tool: &str,
        project: &str,
        mut arguments: Value,
    ) -> Result<Value, Failure> {
        if let Value::Object(members) = &mut arguments {
            members.retain(|_, value| !value.is_null());
            members.insert("project".to_owned(), project.into());
        }
        self.call(tool, &arguments).await
    }

    async fn call(&self, tool: &str, arguments: &Value) -> Result<Value, Failure> {
        match self {
            Self::Own(serving) => Self::call_own(serving, tool, arguments).await,
            Self::OfJob(session) => Self::call_of_job(session, tool, arguments),
        }
    }

    fn call_of_job(
        session: &RefCell<Session>,
        tool: &str,
        arguments: &Value,
    ) -> Result<Value, Failure> {
        let params = json!({"name": tool, "arguments": arguments});
        let answer = session.borrow_mut().request("tools/call", &params)?;
        let mut result = match answer {
            Ok(result) => result,
            Err(Refusal(text)) => return Err(Failure::refused(crate::output::printable(&text))),
        };
        if result["isError"] != true && result["structuredContent"].is_object() {
            return Ok(result["structuredContent"].take());
        }
        let blocks = result["content"].as_array().into_iter().flatten();
        let texts = blocks.filter_map(|block| block["text"].as_str());
        let text = texts.collect::<Vec<_>>().join("\n");
        let text = crate::output::printable(&text);
        Err(Failure::refused(as_commands(&text)))
    }

    async fn call_own(serving: &Serving, tool: &str, arguments: &Value) -> Result<Value, Failure> {
        let target = Target::Tool {
            name: tool.to_owned(),
            arguments: RawJson::of(arguments)?,
        };
        let attachment = serving.attach(Toolset::All);
        let cx = Cx {
            caller: attachment.caller().clone(),
            ..Cx::default()
        };
        let Outcome::Tool(result) = attachment.call(Request { target, cx }).await? else {
            return Err(
                anyhow::anyhow!("{tool} returned a response that is not a tool result").into(),
            );
        };
        match &result.structured {
            Some(structured) if !result.is_error => Ok(structured.parse()?),
            _ => {
                let texts = result.content.iter().filter_map(|content| match content {
                    Content::Text(text) => Some(text.as_str()),
                    Content::Raw(_) => None,
                });
                let text = texts.collect::<Vec<_>>().join("\n");
                let text = as_commands(&crate::output::printable(&text));
                let is_change = orchestra_tools::only_reads(tool) == Some(false);
                Err(match is_change && serving.is_read_only() {
                    true => Failure::denied(text),
                    false => Failure::refused(text),
                })
            }
        }
    }
}

/// What was said to somebody who calls tools, for somebody who types commands.
pub(super) fn as_commands(text: &str) -> String {
    const COMMANDS: [(&str, &str); 6] = [
        ("search_memory", "`orchestra memory search`"),
        ("list_memory", "`orchestra memory list`"),
        ("forget_memory", "`orchestra memory forget`"),
        ("forget_session", "`orchestra memory forget`"),
        ("list_sessions", "`orchestra tool call list_sessions`"),
        ("list_projects", "`orchestra tool call list_projects`"),
    ];
    let commands = COMMANDS.iter();
    commands.fold(text.to_owned(), |text, (tool, command)| {
        text.replace(tool, command)
    })
}

/// What was not read. A project that is not there is refused, as tools do.
pub(super) fn unread(error: ReadError) -> Failure {
    match error {
        ReadError::Refused(refusal) => Failure::refused(as_commands(&refusal.to_string())),
        error => error.into(),
    }
}

/// How to exit when some lines were refused.
pub(super) const fn exit_of(refused: usize) -> Exit {
    if refused == 0 {
        Exit::Ok
    } else {
        Exit::Refused
    }
}
