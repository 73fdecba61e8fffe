//! Attempts on everything that docs/security.md lists, against one running `up`: another user of the machine, a job in the
//! sandbox, an upstream server in the sandbox, a plugin with a certificate of its own, a page of another origin and a
//! model.
//!
//! [`ATTEMPTS`] is the whole of it: who tries what, and how it is refused. After each attempt the stage is looked at for
//! what must not have happened.

mod model;
mod page;
mod plugin;
mod program;
mod stage;
mod user;

use std::fmt;

use stage::Stage;

use crate::local_users::{self, BIN, DAEMON};

/// Who tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Actor {
    /// Another user of this machine, root included where it is not the owner.
    User,
    /// A shell line of a plan, in the sandbox.
    Job,
    /// An upstream server, in the sandbox.
    Server,
    /// A plugin that is admitted and needs nothing, with a certificate of its own.
    Plugin,
    /// A page of another origin, in a browser of the owner.
    Page,
    /// A model that the owner chats with, in a pipe, where nobody agrees to anything.
    Model,
}
use Actor::{Job, Model, Page, Plugin, Server, User};

/// How it is tried. Whatever the way, it must be refused.
#[derive(Clone, Copy)]
enum How {
    /// A line of bash, which must fail. [`Stage::variables`] lists what it may name.
    Line(&'static str),
    /// An HTTP request, refused with this status: method, path, headers and body.
    Http(
        u16,
        &'static str,
        &'static str,
        &'static [(&'static str, &'static str)],
        &'static str,
    ),
    /// A request over QUIC, refused with this code.
    Quic(plugin::Request, &'static str),
    /// A call that a model makes or prints.
    Call(model::Form, &'static str, &'static str),
}
use How::{Call, Http, Line, Quic};

/// An attempt: who, what of the table, and how.
struct Attempt(&'static [Actor], &'static str, How);

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.1)
    }
}

/// All three programs that run on this machine without being the owner's own.
const PROGRAMS: &[Actor] = &[User, Job, Server];
/// Those that may not even read private state. A sandboxed server reads its workspace, git directory included.
const STRANGERS: &[Actor] = &[User, Job];

const JSON: (&str, &str) = ("Content-Type", "application/json");
const TEXT: (&str, &str) = ("Content-Type", "text/plain");
const FORM: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");
const EVIL: (&str, &str) = ("Origin", "http://evil.example");
const NULL: (&str, &str) = ("Origin", "null");
const OTHER_PORT: (&str, &str) = ("Origin", "http://localhost:1");
const IMAGE: (&str, &str) = ("Sec-Fetch-Site", "cross-site");
const REBOUND: (&str, &str) = ("Host", "evil.example");
const WRONG: (&str, &str) = (
    "Authorization",
    "Bearer 0000000000000000000000000000000000000000000",
);
const GUESSED: (&str, &str) = (
    "Cookie",
    "orchestra=0000000000000000000000000000000000000000000",
);

const CREATE: &str = r#"{"name": "create_project", "arguments": {"name": "Planted"}}"#;
const CREATE_RPC: &str = r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "create_project", "arguments": {"name": "Planted"}}}"#;
const CREATE_PLAN: &str = r#"{"name": "planted", "jobs": [{"producerId": "one", "task": "Run", "work": "touch CANARY", "expectsNoChanges": true}]}"#;
const RESUME_RPC: &str = r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "resume_copilot_plan", "arguments": {"planId": "waiting"}}}"#;

const TOOLS: &str = "/api/mcp/tools/call";
const RESUME: &str = "/api/plans/waiting/resume";
const APPROVE: &str = "/api/servers/waits/approve";

/// Who tries what, and how.
#[rustfmt::skip]
const ATTEMPTS: &[Attempt] = &[
    // Files of the user and of the system.
    Attempt(PROGRAMS, "your token", Line("cat \"$TOKEN\"")),
    Attempt(PROGRAMS, "a token of its own choice", Line("echo planted > \"$TOKEN\"")),
    Attempt(PROGRAMS, "decisions on servers and agents, read", Line("cat \"$DECISIONS\"")),
    Attempt(PROGRAMS, "decisions on servers and agents, written", Line("echo '{}' > \"$DECISIONS\"")),
    Attempt(PROGRAMS, "list of databases of plans", Line("echo '{}' > \"$STATE/plans.json\"")),
    Attempt(PROGRAMS, "certificates and the key of the authority", Line("ls \"$CERTS\"")),
    Attempt(PROGRAMS, "your configuration", Line("echo x >> \"$CONFIG/mcp.json\"")),
    Attempt(PROGRAMS, "a configuration of its own", Line("echo x > \"$CONFIG/orchestra.toml\"")),
    Attempt(PROGRAMS, "any other file of yours", Line("cat \"$SECRET\"")),
    Attempt(PROGRAMS, "a file outside its directories", Line("touch \"$CANARY\"")),
    // Databases of plans and run files.
    Attempt(STRANGERS, "database of plans", Line("cat \"$PLANS/plans.db\"")),
    Attempt(PROGRAMS, "database of plans, written", Line("echo x >> \"$PLANS/plans.db\"")),
    Attempt(PROGRAMS, "a plan beside the database", Line("touch \"$PLANS/planted\"")),
    Attempt(STRANGERS, "endpoint file of `up`", Line("cat \"$RUN/endpoint.json\"")),
    Attempt(PROGRAMS, "another endpoint of `up`", Line("echo '{}' > \"$RUN/endpoint.json\"")),
    Attempt(STRANGERS, "endpoint file of the runner, with its token", Line("cat \"$RUNNER\"")),
    Attempt(PROGRAMS, "another endpoint of the runner", Line("echo '{}' > \"$RUNNER\"")),
    Attempt(STRANGERS, "audit of calls", Line("cat \"$RUN/audit.jsonl\"")),
    Attempt(PROGRAMS, "audit of calls, written", Line("echo x >> \"$RUN/audit.jsonl\"")),
    // Files of the workspace that start programs later.
    Attempt(PROGRAMS, "a server in `.mcp.json`", Line("echo x >> \"$WORK/.mcp.json\"")),
    Attempt(PROGRAMS, "`orchestra.toml`", Line("echo x >> \"$WORK/orchestra.toml\"")),
    Attempt(PROGRAMS, "a git hook", Line("touch \"$WORK/.git/hooks/pre-commit\"")),
    Attempt(PROGRAMS, "`.git/config`", Line("echo '[core]' >> \"$WORK/.git/config\"")),
    Attempt(PROGRAMS, "settings of an agent", Line("mkdir -p \"$WORK/.claude\" && touch \"$WORK/.claude/settings.json\"")),
    Attempt(PROGRAMS, "the board as files", Line("touch \"$WORK/.projects/planted.md\"")),
    // Sockets, ports and processes.
    Attempt(PROGRAMS, "socket of the runner, with its token", Line("perl -MIO::Socket::UNIX -e '$s = IO::Socket::UNIX->new($ARGV[0]) or exit 1; $SIG{PIPE} = \"IGNORE\"; print $s \"$ARGV[1]\\n\"; $s->flush; exit(defined(<$s>) ? 0 : 1)' \"$SOCKET\" \"$HELLO\"")),
    Attempt(&[Job, Server], "port of `up`", Line("exec 3<>\"/dev/tcp/127.0.0.1/$PORT\"")),
    Attempt(PROGRAMS, "signals to `up`", Line("kill -TERM \"$UP\"")),
    Attempt(PROGRAMS, "environment of `up`", Line("test -n \"$(tr -d '\\0' < \"/proc/$UP/environ\")\"")),
    Attempt(&[User, Server], "board of a job, by a descriptor", Line("ORCHESTRA_SOCKET=3 orchestra tool list")),
    // Commands of the program.
    Attempt(PROGRAMS, "`plan resume`", Line("orchestra --workspace \"$WORK\" plan resume waiting")),
    Attempt(&[User], "`plan trust`", Line("orchestra --workspace \"$WORK\" plan trust --yes")),
    Attempt(PROGRAMS, "`mcp approve`", Line("orchestra --workspace \"$WORK\" mcp approve waits --yes")),
    Attempt(PROGRAMS, "`tool call`", Line("orchestra --workspace \"$WORK\" tool call create_project name=Planted")),
    Attempt(PROGRAMS, "`token`", Line("HOME=$OWNER_HOME orchestra token")),
    // The board of a job.
    Attempt(&[Job], "a plan, by the board of a job", Line("orchestra tool call create_copilot_plan name=planted jobs='[{\"producerId\": \"one\", \"task\": \"Run\", \"work\": \"true\"}]'")),
    Attempt(&[Job], "start of a plan, by the board of a job", Line("orchestra tool call resume_copilot_plan planId=waiting")),
    Attempt(&[Job], "retry of a job, by the board of a job", Line("orchestra tool call retry_copilot_plan planId=waiting")),
    Attempt(&[Job], "plans, by the board of a job", Line("orchestra tool call list_copilot_plans")),
    Attempt(&[Job], "a server, by the board of a job", Line("orchestra tool call hostile__attack")),
    Attempt(&[Job], "installation of skills, by the board of a job", Line("orchestra tool call install_skills")),
    Attempt(&[Job], "removal of a project, by the board of a job", Line("orchestra tool call delete_project project=my-app")),
    Attempt(&[Job], "cost, by the board of a job", Line("orchestra tool call get_usage")),
    // HTTP of `up`, another user.
    Attempt(&[User], "a tool over REST", Http(401, "POST", TOOLS, &[JSON], CREATE)),
    Attempt(&[User], "a tool over REST, with a guessed token", Http(401, "POST", TOOLS, &[JSON, WRONG], CREATE)),
    Attempt(&[User], "a tool over REST, with a guessed cookie", Http(401, "POST", TOOLS, &[JSON, GUESSED], CREATE)),
    Attempt(&[User], "a tool over MCP", Http(401, "POST", "/mcp", &[JSON], CREATE_RPC)),
    Attempt(&[User], "a tool over /rpc", Http(401, "POST", "/rpc", &[JSON], CREATE_RPC)),
    Attempt(&[User], "a plan", Http(401, "POST", "/api/plans", &[JSON], CREATE_PLAN)),
    Attempt(&[User], "start of a plan", Http(401, "POST", RESUME, &[JSON], "")),
    Attempt(&[User], "approval of a server", Http(401, "POST", APPROVE, &[JSON], "{}")),
    Attempt(&[User], "definition of a server", Http(401, "GET", "/api/servers/waits/definition", &[], "")),
    Attempt(&[User], "approval of an agent", Http(401, "POST", "/api/agents/claude/approve", &[JSON], "{}")),
    Attempt(&[User], "events", Http(401, "GET", "/api/events", &[], "")),
    Attempt(&[User], "figures", Http(401, "GET", "/metrics", &[], "")),
    // HTTP of `up`, a page.
    Attempt(&[Page], "a tool, as a page sends text", Http(403, "POST", "/mcp", &[EVIL, TEXT], CREATE_RPC)),
    Attempt(&[Page], "a tool, as a page sends JSON", Http(403, "POST", "/mcp", &[EVIL, JSON], CREATE_RPC)),
    Attempt(&[Page], "a tool, as a form sends it", Http(403, "POST", TOOLS, &[EVIL, FORM], "name=create_project")),
    Attempt(&[Page], "a tool, from a frame without an origin", Http(403, "POST", TOOLS, &[NULL, JSON], CREATE)),
    Attempt(&[Page], "a tool, as a page of another port sends text", Http(403, "POST", "/mcp", &[OTHER_PORT, TEXT], CREATE_RPC)),
    Attempt(&[Page], "start of a plan, as a page sends it", Http(403, "POST", RESUME, &[EVIL], "")),
    Attempt(&[Page], "start of a plan, as a page of another port sends it", Http(403, "POST", RESUME, &[OTHER_PORT, TEXT], "")),
    Attempt(&[Page], "start of a plan by a tool", Http(403, "POST", "/rpc", &[EVIL, TEXT], RESUME_RPC)),
    Attempt(&[Page], "a plan, as a page sends it", Http(403, "POST", "/api/plans", &[EVIL, JSON], CREATE_PLAN)),
    Attempt(&[Page], "approval of a server, as a page sends it", Http(403, "POST", APPROVE, &[EVIL, JSON], "{}")),
    Attempt(&[Page], "approval of an agent, as a page sends it", Http(403, "POST", "/api/agents/claude/approve", &[EVIL, JSON], "{}")),
    Attempt(&[Page], "question whether JSON may be sent", Http(403, "OPTIONS", "/mcp", &[EVIL, ("Access-Control-Request-Method", "POST"), ("Access-Control-Request-Headers", "content-type")], "")),
    Attempt(&[Page], "events, as an EventSource", Http(403, "GET", "/api/events", &[EVIL, ("Accept", "text/event-stream")], "")),
    Attempt(&[Page], "stream of MCP, as an EventSource", Http(403, "GET", "/mcp", &[EVIL, ("Accept", "text/event-stream")], "")),
    Attempt(&[Page], "events, as a WebSocket", Http(403, "GET", "/api/events", page::WEBSOCKET, "")),
    Attempt(&[Page], "events, as an image", Http(403, "GET", "/api/events", &[IMAGE], "")),
    Attempt(&[Page], "the board, as an image", Http(403, "GET", "/api/board", &[IMAGE], "")),
    Attempt(&[Page], "a tool, without an origin", Http(403, "POST", TOOLS, &[IMAGE, JSON], CREATE)),
    Attempt(&[Page], "a tool, from a name that leads here", Http(403, "POST", TOOLS, &[REBOUND, JSON], CREATE)),
    Attempt(&[Page], "a tool, from the origin of a name that leads here", Http(403, "POST", TOOLS, &[REBOUND, EVIL, JSON], CREATE)),
    Attempt(&[Page], "dashboard, from a name that leads here", Http(403, "GET", "/board", &[REBOUND], "")),
    Attempt(&[Page], "login, with a guessed token", Http(403, "POST", "/api/login", &[EVIL, JSON], r#"{"token": "guess"}"#)),
    // QUIC, a plugin.
    Attempt(&[Plugin], "a tool before it has registered", Quic(plugin::UNREGISTERED, "not_registered")),
    Attempt(&[Plugin], "the name of another plugin", Quic(plugin::NAME_OF_ANOTHER, "refused")),
    Attempt(&[Plugin], "the name of the orchestrator", Quic(plugin::NAME_OF_ORCHESTRATOR, "refused")),
    Attempt(&[Plugin], "a certificate that nobody admitted", Quic(plugin::NOT_ADMITTED, "refused")),
    Attempt(&[Plugin], "a tool that its manifest does not name", Quic(plugin::CREATE_PROJECT, "not_permitted")),
    Attempt(&[Plugin], "a plan", Quic(plugin::CREATE_PLAN, "not_permitted")),
    Attempt(&[Plugin], "start of a plan", Quic(plugin::RESUME_PLAN, "not_permitted")),
    Attempt(&[Plugin], "a tool of an upstream server", Quic(plugin::TOOL_OF_SERVER, "not_permitted")),
    Attempt(&[Plugin], "documents", Quic(plugin::DOCUMENT, "not_permitted")),
    Attempt(&[Plugin], "documents outside of the board", Quic(plugin::DOCUMENT_OUTSIDE, "not_permitted")),
    Attempt(&[Plugin], "documents, to read", Quic(plugin::READ_DOCUMENT, "not_permitted")),
    // A model, in a chat.
    Attempt(&[Model], "a tool that changes something", Call(model::MADE, "create_project", r#"{"name": "Planted"}"#)),
    Attempt(&[Model], "the same, printed", Call(model::PRINTED, "create_project", r#"{"name": "Planted"}"#)),
    Attempt(&[Model], "the same, as a result of a tool orders it", Call(model::ORDERED, "create_project", r#"{"name": "Planted"}"#)),
    Attempt(&[Model], "removal of a project", Call(model::MADE, "delete_project", r#"{"project": "my-app"}"#)),
    Attempt(&[Model], "a plan", Call(model::MADE, "create_copilot_plan", CREATE_PLAN)),
    Attempt(&[Model], "start of a plan", Call(model::MADE, "resume_copilot_plan", r#"{"planId": "waiting"}"#)),
    Attempt(&[Model], "start of a plan, as a result of a tool orders it", Call(model::ORDERED, "resume_copilot_plan", r#"{"planId": "waiting"}"#)),
    Attempt(&[Model], "installation of skills", Call(model::MADE, "install_skills", "{}")),
];

/// The attempts of an actor.
fn of(actor: Actor) -> impl Iterator<Item = &'static Attempt> {
    ATTEMPTS
        .iter()
        .filter(move |attempt| attempt.0.contains(&actor))
}

#[test]
fn each_actor_has_attempts_and_no_attempt_is_without_one() {
    for actor in [User, Job, Server, Plugin, Page, Model] {
        assert!(of(actor).count() > 7, "{actor:?}");
    }
    for attempt in ATTEMPTS {
        assert!(!attempt.0.is_empty(), "{attempt}");
    }
}

#[test]
fn every_actor_is_refused_by_up_of_this_user() {
    let stage = Stage::start(None);
    page::attempts(&stage);
    plugin::attempts(&stage);
    model::attempts(&stage);
    program::attempts_of_a_job(&stage);
    program::attempts_of_a_server(&stage);
    if local_users::is_root("every_actor_is_refused_by_up_of_this_user") {
        user::attempts(&stage, DAEMON);
    }
    stage.end();
}

#[test]
fn every_actor_is_refused_by_up_of_an_ordinary_user() {
    if !local_users::is_root("every_actor_is_refused_by_up_of_an_ordinary_user") {
        return;
    }
    let stage = Stage::start(Some(BIN));
    page::attempts(&stage);
    model::attempts(&stage);
    program::attempts_of_a_job(&stage);
    program::attempts_of_a_server(&stage);
    user::attempts(&stage, DAEMON);
    // Root reads every file, and is no exception over HTTP.
    user::requests(&stage, 0);
    stage.end();
}
