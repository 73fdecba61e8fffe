//! A call of a server that was started for it alone, put to a hub as every other call is, which
//! records it.

use std::sync::{Arc, Mutex, PoisonError};

use orchestra_gateway::{config::ServerName, rules};
use orchestra_hub::{
    BoxFuture, CallEnd, Caller, Catalog, Cx, Hub, HubConfig, Outcome, Provider, ProviderError,
    ProviderId, Request, ResultKind, Target, Toolset,
};
use orchestra_mcp::client::{ClientError, Reply, Sent, ServerCall, attribute_result};
use orchestra_wire::RawJson;
use tokio::sync::watch;

use super::{Ended, Live, Trouble};
use crate::{config::Config, exit::Failure, serving, workspace};

/// What is put to the hub.
pub(super) struct Put {
    /// The name by which the tool is shown.
    pub(super) name: String,
    pub(super) arguments: RawJson,
    /// What decided of it; nothing where there is no such tool.
    pub(super) rule: Option<String>,
    pub(super) step: Step,
}

/// What becomes of a call.
pub(super) enum Step {
    /// It is made.
    Make(Arc<Live>, Box<ServerCall>),
    /// It is not, and this is why.
    Leave(CallEnd, Ended),
}

/// What came of a call.
type Came = Result<RawJson, Ended>;

/// A server as a provider that answers one call.
struct Once {
    id: ProviderId,
    server: ServerName,
    catalog: watch::Sender<Arc<Catalog>>,
    put: Mutex<Option<(Option<String>, Step)>>,
    came: Arc<Mutex<Option<Came>>>,
}

/// Puts a call to a hub. Where there is a board, its audit file says so. Must run inside a runtime.
pub(super) async fn put(config: &Config, server: &ServerName, put: Put) -> Came {
    let is_recorded = workspace::has_board(&config.workspace);
    let defaults = HubConfig::default();
    let hub = Hub::new(HubConfig {
        // The server has times of its own.
        deadline: defaults.long_deadline,
        audit: is_recorded.then(|| serving::audit(config)).flatten(),
        ..defaults
    });
    let came = Arc::<Mutex<Option<Came>>>::default();
    let id = ProviderId::parse(server.as_str()).ok_or_else(|| gone("it has no name"))?;
    let once = Once {
        id,
        server: server.clone(),
        catalog: watch::Sender::default(),
        put: Mutex::new(Some((put.rule, put.step))),
        came: Arc::clone(&came),
    };
    hub.register(Arc::new(once))
        .map_err(|error| gone(&error.to_string()))?;
    let caller = Caller {
        face: "cli",
        client: None,
    };
    let attachment = hub.attach(caller.clone(), Toolset::All);
    let target = Target::Tool {
        name: put.name,
        arguments: put.arguments,
    };
    let cx = Cx {
        caller,
        ..Cx::default()
    };
    let answered = attachment.call(Request { target, cx }).await;
    let came = came.lock().unwrap_or_else(PoisonError::into_inner).take();
    came.unwrap_or_else(|| {
        let why = answered.err().map(|error| error.to_string());
        Err(gone(&why.unwrap_or_default()))
    })
}

fn gone(why: &str) -> Ended {
    Ended::Failure(Failure::Failed(anyhow::anyhow!("the call failed: {why}")))
}

impl Provider for Once {
    fn id(&self) -> &ProviderId {
        &self.id
    }

    fn catalog(&self) -> watch::Receiver<Arc<Catalog>> {
        self.catalog.subscribe()
    }

    fn may_know(&self, _name: &str) -> bool {
        true
    }

    fn server(&self) -> Option<&str> {
        Some(self.server.as_str())
    }

    fn makes_remarks(&self) -> bool {
        true
    }

    fn serve(&self, request: Request) -> BoxFuture<Result<Outcome, ProviderError>> {
        let put = self
            .put
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let (server, kept) = (self.server.clone(), Arc::clone(&self.came));
        Box::pin(async move {
            let Some((rule, step)) = put else {
                return Err(ProviderError::Cancelled);
            };
            let (came, answer) = match step {
                Step::Make(live, call) => {
                    let is_safe = call.safe;
                    let reply = live.client.call(*call).await;
                    let rule = rule.unwrap_or_default();
                    settle(&server, reply, is_safe, &request.cx, rule)
                }
                Step::Leave(end, why) => match rule {
                    Some(rule) => {
                        request.cx.remark.set(Some(end), rule);
                        (Err(why), Err(left()))
                    }
                    None => (Err(why), Err(unknown())),
                },
            };
            *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(came);
            answer
        })
    }
}

/// What the hub is told of a call that brought no result; nobody else hears it.
fn left() -> ProviderError {
    ProviderError::Unreachable(String::new())
}

/// The same of a tool that there is not.
fn unknown() -> ProviderError {
    ProviderError::Unknown {
        kind: "tool",
        name: String::new(),
    }
}

/// What came of a call, for who asked and for the hub.
fn settle(
    server: &ServerName,
    reply: Result<Reply, ClientError>,
    is_safe: bool,
    cx: &Cx,
    rule: String,
) -> (Came, Result<Outcome, ProviderError>) {
    match reply {
        Ok(Reply::Result(result)) => {
            cx.remark.set(None, rule);
            let result = attribute_result(result);
            let is_error = result.member("isError");
            let outcome = Outcome::Verbatim {
                kind: ResultKind::Tool,
                result: result.clone(),
                is_error: is_error.is_some_and(|is_error| is_error.as_str() == "true"),
            };
            (Ok(result), Ok(outcome))
        }
        Ok(Reply::InputRequired(_)) => {
            cx.remark.set(Some(CallEnd::InputRequired), rule);
            let text = "the tool asks for input, which the command line cannot give";
            (Err(Ended::Failure(Failure::refused(text))), Err(left()))
        }
        Err(error) => {
            let told = format!("{rule}; {}", error.code());
            let (end, remark) = match &error {
                ClientError::Rpc(_) => (CallEnd::Refused, rule),
                ClientError::Cancelled => (CallEnd::Cancelled, rule),
                ClientError::Timeout { .. } => (CallEnd::DeadlineExceeded, told),
                _ => (CallEnd::Unreachable, told),
            };
            cx.remark.set(Some(end), remark);
            let trouble = Trouble::of(server, &error);
            let trouble = match error {
                // It was answered.
                ClientError::Rpc(_) => trouble,
                error => Trouble {
                    is_repeatable: is_safe && error.sent() == Sent::Maybe,
                    ..trouble.of_call(rules::may_have_run(&error, is_safe))
                },
            };
            (Err(Ended::Trouble(trouble)), Err(left()))
        }
    }
}
