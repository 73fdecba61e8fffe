//! Calls that their server goes on with after it has answered: they are followed to their end.

use std::{pin::pin, sync::Arc, time::Duration};

use orchestra_hub::{BoxFuture, Cx, Later};
use orchestra_wire::{ErrorCode, RawJson, Rope, RpcError, write};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::{
    Answer, ClientError, Reply, ServerCall,
    background::ClientKey,
    incoming::beginning,
    open::OpenCall,
    params,
    parking::State,
    results,
    session::{Place, Session, spawn},
};
use crate::tasks::EXTENSION;

/// How often a server is asked that does not say how often it wants to be.
const POLL: Duration = Duration::from_secs(1);

/// It is not asked more often than this, whatever it says, and not more rarely.
const POLL_BOUNDS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(60));

/// Waits for the end of a task, in the session era.
const RESULT: &str = "tasks/result";

/// How long one question about a task may go unanswered.
const ASK: Duration = Duration::from_secs(30);

/// A server names the task that a call has become in its first answer, soon after the call. For so
/// long the answer to a call that nobody waits for is waited for.
const NAMED: Duration = Duration::from_secs(1);

/// What is answered, or asked, within this is no long work.
const SOON: Duration = Duration::from_millis(250);

/// A task of a server.
#[derive(Debug, Clone)]
pub(super) struct TaskName {
    id: String,
    poll: Duration,
    /// One of revision 2025-11-25, whose result has a method of its own.
    of_session: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Told<'a> {
    #[serde(default)]
    task_id: String,
    #[serde(default)]
    status: String,
    status_message: Option<String>,
    poll_interval_ms: Option<f64>,
    /// The name of 2025-11-25.
    poll_interval: Option<f64>,
    #[serde(borrow)]
    input_requests: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

impl TaskName {
    /// The task that a result names.
    pub(super) fn of(result: &RawJson, of_session: bool) -> Option<Self> {
        #[derive(Deserialize)]
        struct Nested<'a> {
            #[serde(borrow)]
            task: Told<'a>,
        }
        let told = match of_session {
            true => result.parse::<Nested<'_>>().ok()?.task,
            false => result.parse::<Told<'_>>().ok()?,
        };
        let poll = told.poll();
        (!told.task_id.is_empty()).then_some(Self {
            id: told.task_id,
            poll,
            of_session,
        })
    }
}

impl Told<'_> {
    fn poll(&self) -> Duration {
        let asked = self.poll_interval_ms.or(self.poll_interval);
        let asked = asked.filter(|millis| millis.is_finite() && *millis >= 0.0);
        let asked = asked.map_or(POLL, |millis| Duration::from_millis(millis as u64));
        asked.clamp(POLL_BOUNDS.0, POLL_BOUNDS.1)
    }
}

/// Waits for a call, and reports that it lasts when it is not answered soon.
pub(super) async fn lasting<T>(calling: impl Future<Output = T>, later: &Later) -> T {
    let mut calling = pin!(calling);
    match timeout(SOON, &mut calling).await {
        Ok(reply) => reply,
        Err(_) => {
            later.begin();
            calling.await
        }
    }
}

/// A task on behalf of a client. If it is dropped before it has ended or asked something, the server is asked to cancel
/// it.
pub(super) struct FollowedTask {
    session: Arc<Session>,
    task: TaskName,
    client: ClientKey,
    is_over: bool,
}

impl FollowedTask {
    pub(super) fn new(session: &Arc<Session>, task: TaskName, client: ClientKey) -> Self {
        session.background.begin_task(&task.id, &client);
        Self {
            session: Arc::clone(session),
            task,
            client,
            is_over: false,
        }
    }

    /// Follows the task until it ends or asks something.
    pub(super) async fn follow(mut self, call: &ServerCall) -> Result<Reply, ClientError> {
        if let Some(later) = &call.cx.later {
            later.begin();
        }
        let began = Instant::now();
        let last = call.cx.deadline.map(Instant::from_std);
        let mut pause = self.task.poll;
        let mut said = None;
        let reply = loop {
            let late = async {
                match last {
                    Some(last) => sleep_until(last).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = sleep(pause) => {}
                () = late => return Err(ClientError::Timeout { after: began.elapsed() }),
            }
            let ask = about(&self.task.id, "tasks/get", named(&self.task.id));
            let result = self.session.ask_within(&ask, ASK).await?;
            let told: Told<'_> = result
                .parse()
                .map_err(|error| ClientError::InvalidMessage {
                    what: format!("the answer to tasks/get has no known form: {error}"),
                })?;
            pause = told.poll();
            if told.status_message.is_some() && told.status_message != said {
                let message = told.status_message.as_deref().map(beginning);
                call.cx
                    .progress
                    .progress(began.elapsed().as_secs_f64(), None, message);
                said.clone_from(&told.status_message);
            }
            match (told.status.as_str(), self.task.of_session) {
                ("working", _) => {}
                // The end of such a task, its questions before it included, is had by another method.
                (_, true) => {
                    let reply = session_result(&self.session, call, &self.task.id).await;
                    self.is_over = matches!(reply, Ok(_) | Err(ClientError::Rpc(_)));
                    return reply;
                }
                ("completed", false) => {
                    let result = told
                        .result
                        .map_or_else(RawJson::empty_object, RawJson::from_raw);
                    break Ok(Reply::Result(result));
                }
                ("failed", false) => {
                    let error = told.error.map(RpcError::from_raw);
                    let error = error.unwrap_or_else(|| broke("the task failed"));
                    break Err(ClientError::Rpc(error));
                }
                ("input_required", false) => {
                    let mut input =
                        results::input(told.input_requests, None, &self.session.config)?;
                    input.state = Some(State::Task(&self.task.id).to_string());
                    break Ok(Reply::InputRequired(input));
                }
                ("cancelled", false) => {
                    break Err(ClientError::Rpc(broke("the server cancelled the task")));
                }
                _ => {
                    return Err(ClientError::InvalidMessage {
                        what: "a task in a state that is not known".to_owned(),
                    });
                }
            }
        };
        self.is_over = true;
        reply
    }
}

impl Drop for FollowedTask {
    fn drop(&mut self) {
        let background = &self.session.background;
        if !self.is_over {
            background.abandon(self.client.clone(), self.session.config.call_timeout);
            let (session, id) = (Arc::clone(&self.session), self.task.id.clone());
            spawn(async move {
                let call = about(&id, "tasks/cancel", named(&id));
                let _ = session.ask_within(&call, ASK).await;
            });
        }
        background.end_task(&self.task.id, &self.client);
    }
}

/// Gives up a call that may have become a task already: its answer is waited for where it may name
/// one, and then that is cancelled. It keeps its place until then.
pub(super) fn give_up(
    session: Arc<Session>,
    open: &OpenCall,
    response: BoxFuture<Result<Answer, ClientError>>,
    place: Option<Place>,
) {
    let (until, client) = (open.began + NAMED, open.client());
    if until <= Instant::now() {
        return;
    }
    spawn(async move {
        let _place = place;
        let Ok(Ok(Ok(result))) = timeout_at(until, response).await else {
            return;
        };
        let kind = results::Kind::of(session.era(), &result);
        if let Ok(results::Told::Task(task)) = kind.told(result, &session.config) {
            drop(FollowedTask::new(&session, task, client));
        }
    });
}

/// Hands a task the answers that it asked for, and follows it again.
pub(super) async fn resume(
    session: &Arc<Session>,
    call: &ServerCall,
    id: &str,
) -> Result<Reply, ClientError> {
    if let Some(answers) = &call.cx.answers {
        let mut rope = Rope::new();
        rope.push(b"{\"taskId\":");
        write::string(&mut rope, id);
        rope.push(b",\"inputResponses\":");
        write::raw(&mut rope, &answers.responses);
        rope.push_byte(b'}');
        let update = about(id, "tasks/update", params::raw(rope));
        session.ask_within(&update, ASK).await?;
    }
    let task = TaskName {
        id: id.to_owned(),
        poll: POLL_BOUNDS.0,
        of_session: false,
    };
    let followed = FollowedTask::new(session, task, ClientKey::of(&call.cx));
    followed.follow(call).await
}

/// `tasks/result`: waits for the end, and is asked questions like any call.
async fn session_result(
    session: &Arc<Session>,
    call: &ServerCall,
    id: &str,
) -> Result<Reply, ClientError> {
    let call = ServerCall {
        as_task: false,
        ..ServerCall::new(RESULT, named(id), call.cx.clone())
    };
    Box::pin(session.call(&call, None)).await
}

/// The task whose end a call waits for.
pub(super) fn awaited(call: &ServerCall) -> Option<String> {
    if call.method != RESULT {
        return None;
    }
    let told: Told<'_> = call.params.as_ref()?.parse().ok()?;
    Some(told.task_id)
}

/// Whether an error says that a call must become a task, for which its client must know tasks (MCP
/// 2026-07-28, `MissingRequiredClientCapabilityError`).
pub(super) fn are_wanted_by(error: &RpcError) -> bool {
    let wanted = error.data.as_ref().and_then(|data| {
        let capabilities = data.member("requiredCapabilities")?;
        capabilities.member("extensions")?.member(EXTENSION)
    });
    error.code == ErrorCode::MISSING_CLIENT_CAPABILITY && wanted.is_some()
}

/// A request about a task, which is also named in a header over HTTP (extension tasks, transports).
fn about(id: &str, method: &'static str, params: Option<RawJson>) -> ServerCall {
    ServerCall {
        name: Some(id.to_owned()),
        ..ServerCall::new(method, params, Cx::default())
    }
}

fn broke(text: &'static str) -> RpcError {
    RpcError::new(orchestra_wire::ErrorCode::INTERNAL_ERROR, text)
}

fn named(id: &str) -> Option<RawJson> {
    RawJson::of(&serde_json::json!({ "taskId": id })).ok()
}
