//! A plugin that is admitted, with a certificate of its own and a manifest that needs nothing.

use orchestra_plugin::generated::{
    PluginManifest, StorageReadRequest, StorageReadResponse, StorageWriteRequest,
    StorageWriteResponse, ToolRequest, ToolResponse,
};

use super::{How, Plugin, Stage, of};
use crate::plugins::Caller;

/// Id that `up` of the stage admits.
pub(super) const ADMITTED: &str = "tools.mine";

/// What a plugin asks for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Request {
    /// A tool, over a connection that has not registered.
    Unregistered,
    /// To be known under another id than that of its certificate.
    Register(&'static str),
    /// To be known under the id of a certificate that nobody admitted.
    NotAdmitted,
    Tool(&'static str),
    Write(&'static str),
    Read(&'static str),
}
pub(super) const UNREGISTERED: Request = Request::Unregistered;
pub(super) const NAME_OF_ANOTHER: Request = Request::Register("tools.other");
pub(super) const NAME_OF_ORCHESTRATOR: Request = Request::Register("orchestrator");
pub(super) const NOT_ADMITTED: Request = Request::NotAdmitted;
pub(super) const CREATE_PROJECT: Request = Request::Tool("create_project");
pub(super) const CREATE_PLAN: Request = Request::Tool("create_copilot_plan");
pub(super) const RESUME_PLAN: Request = Request::Tool("resume_copilot_plan");
pub(super) const TOOL_OF_SERVER: Request = Request::Tool("hostile__attack");
pub(super) const DOCUMENT: Request = Request::Write("planted.md");
pub(super) const DOCUMENT_OUTSIDE: Request = Request::Write("../.mcp.json");
pub(super) const READ_DOCUMENT: Request = Request::Read("../.mcp.json");

pub(super) fn attempts(stage: &Stage) {
    let connect = |id: &str| stage.plugin(&format!("{id}-client"));
    let register_own = || {
        let caller = connect(ADMITTED);
        let own = caller.register(ADMITTED, PluginManifest::default());
        assert!(own.accepted, "{own:?}");
        caller
    };
    // Only the first attempt comes before the registration.
    let own = std::cell::OnceCell::new();
    let registered = || own.get_or_init(register_own);
    for attempt in of(Plugin) {
        let How::Quic(request, expected) = attempt.2 else {
            panic!("{attempt}: a plugin asks over QUIC");
        };
        let code = match request {
            Request::Unregistered => call(&connect(ADMITTED), "list_projects"),
            Request::Register(id) => register(&connect(ADMITTED), id),
            Request::NotAdmitted => register(&connect("tools.stranger"), "tools.stranger"),
            Request::Tool(name) => call(registered(), name),
            Request::Write(path) => {
                let document = StorageWriteRequest {
                    path: path.to_owned(),
                    content: "planted".into(),
                    storage_type: "markdown".to_owned(),
                    ..StorageWriteRequest::default()
                };
                let answer: StorageWriteResponse = registered().ask(&document);
                answer.problem.unwrap_or_default().code
            }
            Request::Read(path) => {
                let document = StorageReadRequest {
                    path: path.to_owned(),
                    storage_type: "markdown".to_owned(),
                };
                let answer: StorageReadResponse = registered().ask(&document);
                answer.problem.unwrap_or_default().code
            }
        };
        assert_eq!(code, expected, "{attempt}");
        stage.is_untouched(&format!("a plugin: {attempt}"));
    }
}

/// How a registration ends.
fn register(caller: &Caller, id: &str) -> String {
    let answer = caller.register(id, PluginManifest::default());
    let code = if answer.accepted {
        "accepted"
    } else {
        "refused"
    };
    code.to_owned()
}

fn call(caller: &Caller, tool: &str) -> String {
    let request = ToolRequest {
        tool_name: tool.to_owned(),
        ..ToolRequest::default()
    };
    let answer: ToolResponse = caller.ask(&request);
    assert!(!answer.success, "{answer:?}");
    answer.error_code
}
