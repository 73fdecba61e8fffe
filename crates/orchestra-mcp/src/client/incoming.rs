//! What a server says by itself: progress and questions of a call, changes, logs.

use std::{
    collections::BTreeSet,
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, atomic::Ordering},
    task::{Context, Poll, ready},
};

use orchestra_hub::{ListKind, ProgressSink};
use orchestra_wire::{ErrorCode, RawJson, RequestId, RpcError, text_of};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::{Semaphore, mpsc};

use super::{
    Answer, Incoming, ServerMessage,
    background::ClientKey,
    open::{Asked, MAX_OBJECTIONS, OpenCall, Whose},
    session::{Session, spawn},
};
use crate::{
    attribution::objection,
    repair::{Repaired, question},
    told::{Ask, level_of},
    translation::{self, About},
};

/// The code of MCP for a user who is not there to say yes (sampling, error handling).
const NOT_ALLOWED: ErrorCode = ErrorCode(-1);

/// Number of bytes of a log message or a message of progress that is passed on whole.
const MAX_LOG_BYTES: usize = 64 * 1024;

/// Longest id of a request of the server that is answered, in bytes: an answer repeats it.
const MAX_ID_BYTES: usize = 4 * 1024;

/// Answers to requests of the server that wait to be written.
const ANSWERING: u16 = 64;

/// What the server has said by itself and nobody has taken yet.
///
/// Whoever takes a message sees to it before anybody takes the next. So a call that has its answer
/// can see to what came before it: the last report of its progress is not lost to the race between
/// two tasks.
pub(super) struct Mailbox {
    incoming: Mutex<mpsc::Receiver<Incoming>>,
    answering: Arc<Semaphore>,
}

impl Mailbox {
    pub(super) fn new(incoming: mpsc::Receiver<Incoming>) -> Self {
        Self {
            incoming: Mutex::new(incoming),
            answering: Arc::new(Semaphore::new(ANSWERING.into())),
        }
    }

    /// Sees to everything that has come.
    pub(super) fn empty(&self, session: &Arc<Session>) {
        let mut incoming = self.incoming();
        while let Ok(message) = incoming.try_recv() {
            self.hand_on(session, message);
        }
    }

    /// Sees to the next message; false when there is none any more.
    fn next(&self, session: &Weak<Session>, cx: &mut Context<'_>) -> Poll<bool> {
        let mut incoming = self.incoming();
        match ready!(incoming.poll_recv(cx)).zip(session.upgrade()) {
            None => Poll::Ready(false),
            Some((message, session)) => {
                self.hand_on(&session, message);
                Poll::Ready(true)
            }
        }
    }

    /// Waits until the answers that were given so far are written.
    pub(super) async fn answered(&self) {
        // The semaphore is never closed.
        let _ = self.answering.acquire_many(ANSWERING.into()).await;
    }

    fn incoming(&self) -> MutexGuard<'_, mpsc::Receiver<Incoming>> {
        self.incoming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hand_on(&self, session: &Arc<Session>, Incoming { message, related }: Incoming) {
        session.link.observe(&message);
        match message {
            ServerMessage::Notification { method, params } => {
                notified(session, &method, params, related.as_ref());
            }
            ServerMessage::Missed => session.missed(),
            ServerMessage::Request { id, method, .. } if id.as_bytes().len() > MAX_ID_BYTES => {
                let server = &session.config.name;
                tracing::debug!(server, method, "ignored a request with a long id");
            }
            ServerMessage::Request { id, method, params } => {
                let asked = (id, method, params);
                let Some((id, answer)) = asked_of(session, asked, related.as_ref()) else {
                    return;
                };
                // A server that asks and does not read is not answered any more.
                if let Ok(place) = Arc::clone(&self.answering).try_acquire_owned() {
                    let answered = session.link.respond(id, answer);
                    spawn(async move {
                        let _ = answered.await;
                        drop(place);
                    });
                }
            }
        }
    }
}

/// Hands on what comes in until the link ends.
pub(super) async fn route(mailbox: Arc<Mailbox>, session: Weak<Session>) {
    while poll_fn(|cx| mailbox.next(&session, cx)).await {}
}

fn notified(
    session: &Arc<Session>,
    method: &str,
    params: Option<RawJson>,
    related: Option<&RequestId>,
) {
    match method {
        "notifications/progress" => progress(session, params.as_ref()),
        "notifications/message" => log(session, params.as_ref(), related),
        "notifications/tools/list_changed" => session.list_changed(ListKind::Tools),
        "notifications/prompts/list_changed" => session.list_changed(ListKind::Prompts),
        "notifications/resources/list_changed" => {
            session.list_changed(ListKind::Resources);
            session.list_changed(ListKind::Templates);
            session.resources_changed.notify_one();
        }
        "notifications/resources/updated" => updated(session, params.as_ref()),
        "notifications/subscriptions/acknowledged" => begun(session, params.as_ref(), related),
        // The server gives up a question of its own: whoever was asked answers into the void.
        "notifications/cancelled" => {}
        // Tasks are asked for as often as their server says.
        "notifications/tasks" | "notifications/tasks/status" => {}
        _ => {
            let is_object = |params: &RawJson| params.as_bytes().starts_with(b"{");
            let params = params.filter(is_object);
            let client = cause(session, related, params.as_ref());
            let client = client.map(|client| client.connection);
            session.events.other(method, params, client);
        }
    }
}

fn progress(session: &Arc<Session>, params: Option<&RawJson>) {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Progress<'a> {
        #[serde(borrow)]
        progress_token: &'a RawValue,
        #[serde(borrow)]
        progress: &'a RawValue,
        #[serde(borrow, default)]
        total: Option<&'a RawValue>,
        #[serde(borrow, default)]
        message: Option<&'a RawValue>,
    }
    let Some(report) = params.and_then(|params| params.parse::<Progress<'_>>().ok()) else {
        return;
    };
    let Ok(token) = RequestId::from_raw(report.progress_token) else {
        return;
    };
    let (Some(number), Some(progress)) = (number_of(&token), figure(report.progress)) else {
        return;
    };
    let open = session.calls().get(&number).cloned();
    if let Some(open) = open {
        let message = report.message.and_then(text_of);
        let message = message.as_deref().map(beginning);
        open.hear()
            .progress(progress, report.total.and_then(figure), message);
    }
}

/// The number of ours that an id or a token stands for, also where it came back as text.
fn number_of(id: &RequestId) -> Option<u64> {
    let number = |id: &RequestId| id.as_json().parse().ok();
    number(id).or_else(|| number(&id.other_form()?))
}

/// A finite number, also one that is written as text.
fn figure(value: &RawValue) -> Option<f64> {
    let text = text_of(value);
    let number: f64 = text.as_deref().unwrap_or(value.get()).trim().parse().ok()?;
    number.is_finite().then_some(number)
}

fn log(session: &Arc<Session>, params: Option<&RawJson>, related: Option<&RequestId>) {
    #[derive(Deserialize)]
    struct Message<'a> {
        #[serde(borrow, default)]
        level: Option<&'a RawValue>,
        #[serde(borrow, default)]
        logger: Option<&'a RawValue>,
        #[serde(borrow, default)]
        data: Option<&'a RawValue>,
    }
    let Some(message) = params.and_then(|params| params.parse::<Message<'_>>().ok()) else {
        return;
    };
    let level = message.level.and_then(text_of).unwrap_or_default();
    let level = level_of(&level);
    let logger = message
        .logger
        .and_then(text_of)
        .map(std::borrow::Cow::into_owned);
    let data = message.data.map(RawJson::from_raw);
    let data = data.map_or_else(|| RawJson::from_static("null"), shortened);
    // Of a call, where the connection tells, or where all calls are of one client.
    let sink = find(session, related)
        .or_else(|| newest_of_one(session, |_| true).ok().flatten())
        .map(|open| open.hear())
        .filter(ProgressSink::is_wanted);
    match sink {
        // An orchestrator has named its servers.
        Some(sink) if session.config.names_callers => {
            sink.log(level, logger.as_deref(), &data);
        }
        Some(sink) => {
            let server = &session.config.name;
            let logger = logger.map(|logger| format!("{server}/{logger}"));
            sink.log(level, Some(logger.as_deref().unwrap_or(server)), &data);
        }
        None => session.events.log(level, logger, data),
    }
}

/// The data of a log message. Of long data, the beginning as text.
fn shortened(data: RawJson) -> RawJson {
    let length = data.as_bytes().len();
    if length <= MAX_LOG_BYTES {
        return data;
    }
    let text: Option<String> = data.parse_lossy().ok();
    let text = text.as_deref().unwrap_or(data.as_str());
    let text = format!("{}… ({length} bytes)", beginning(text));
    RawJson::of(&text).unwrap_or_else(|_| RawJson::empty_object())
}

/// The beginning of a text that a server writes for people.
pub(super) fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_LOG_BYTES)]
}

fn updated(session: &Arc<Session>, params: Option<&RawJson>) {
    #[derive(Deserialize)]
    struct Updated<'a> {
        #[serde(borrow)]
        uri: &'a RawValue,
    }
    let uri = params.and_then(|params| {
        let updated: Updated<'_> = params.parse().ok()?;
        text_of(updated.uri).map(std::borrow::Cow::into_owned)
    });
    if let Some(uri) = uri {
        session.events.updated(uri);
    }
}

/// A stream has begun: the one that this came on, or the one that it names.
fn begun(session: &Arc<Session>, params: Option<&RawJson>, related: Option<&RequestId>) {
    #[derive(Deserialize)]
    struct Acknowledged<'a> {
        #[serde(borrow, rename = "_meta")]
        meta: Meta<'a>,
    }
    #[derive(Deserialize)]
    struct Filtered {
        notifications: Filter,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Filter {
        #[serde(default)]
        resource_subscriptions: BTreeSet<String>,
    }
    #[derive(Deserialize)]
    struct Meta<'a> {
        #[serde(borrow, rename = "io.modelcontextprotocol/subscriptionId")]
        stream: &'a RawValue,
    }
    let named = || {
        let told: Acknowledged<'_> = params?.parse().ok()?;
        let number: u64 = told.meta.stream.get().parse().ok()?;
        session.calls().get(&number).cloned()
    };
    if let Some(open) = find(session, related).or_else(named) {
        let filtered = params.and_then(|params| params.parse::<Filtered>().ok());
        let included = filtered.map(|filtered| filtered.notifications.resource_subscriptions);
        *open.included.lock().unwrap_or_else(PoisonError::into_inner) = included;
        open.begun.notify_one();
    }
}

fn find(session: &Arc<Session>, related: Option<&RequestId>) -> Option<Arc<OpenCall>> {
    let number: u64 = related?.as_json().parse().ok()?;
    session.calls().get(&number).cloned()
}

/// What a question is answered with at once; `None` when somebody else is asked.
fn asked_of(
    session: &Arc<Session>,
    (id, method, params): (RequestId, String, Option<RawJson>),
    related: Option<&RequestId>,
) -> Option<(RequestId, Answer)> {
    if method == "ping" {
        return Some((id, Ok(RawJson::empty_object())));
    }
    let params = params.map(|params| accepted(session, &method, params));
    let raw = params
        .as_ref()
        .and_then(|params| serde_json::from_str::<&RawValue>(params.as_str()).ok());
    let Some(ask) = Ask::of(&method, raw) else {
        let error = match method.as_str() {
            "initialize" | "server/discover" => RpcError::new(
                ErrorCode::METHOD_NOT_FOUND,
                format!(
                    "the program returned the request `{method}` to its sender, so it is no MCP server"
                ),
            ),
            _ => RpcError::method_not_found(&method),
        };
        return Some((id, Err(error)));
    };
    if !ask.is_in(session.config.features) {
        let text = format!("{ask} cannot be asked for: `features` of the server do not allow it");
        return Some((id, Err(RpcError::new(NOT_ALLOWED, text))));
    }
    let about = About::of(params.as_ref());
    let find = || -> Result<Arc<OpenCall>, String> {
        let open = whom(session, ask, related, &about)?;
        permit(session, &open, ask, params.as_ref())?;
        Ok(open)
    };
    let found = match ask {
        Ask::Roots => session.roots_for_server(find),
        _ => find().map_err(Err),
    };
    let refused = match found {
        Ok(open) => {
            let gives_roots = ask == Ask::Roots && open.is_of_session;
            let asked = Asked {
                id: id.clone(),
                method,
                params: params.as_ref().map(translation::without_about),
                input: about.input.clone(),
                gives_roots,
            };
            if open.ask(asked) {
                return None;
            }
            if gives_roots {
                session.roots_answered(None);
            }
            "too many questions wait already".to_owned()
        }
        Err(Ok(roots)) => return Some((id, Ok(roots))),
        Err(Err(why)) => why,
    };
    let text = format!("{ask} cannot be asked for: {refused}");
    Some((id, Err(RpcError::new(NOT_ALLOWED, text))))
}

/// Checks whether the client of a call may be asked a question.
///
/// # Errors
/// The objection to the question. A call has a limited number of questions that are read, so that a flood costs little.
fn permit(
    session: &Session,
    open: &OpenCall,
    ask: Ask,
    params: Option<&RawJson>,
) -> Result<(), String> {
    let elicits = matches!(ask, Ask::ElicitForm | Ask::ElicitUrl);
    let Some(params) = params.filter(|_| elicits) else {
        return Ok(());
    };
    if !open.has_room() || open.objections.load(Ordering::Relaxed) >= MAX_OBJECTIONS {
        return Err("too many questions of the call wait or were refused".to_owned());
    }
    let Some(objection) = objection(params, session.config.secrets) else {
        return Ok(());
    };
    open.objections.fetch_add(1, Ordering::Relaxed);
    let server = &session.config.name;
    tracing::warn!(%server, %objection, "refused a request of the server");
    Err(objection.to_string())
}

/// Parameters of a question that clients accept. The first repair is logged.
fn accepted(session: &Session, method: &str, params: RawJson) -> RawJson {
    let Some(Repaired { value, repairs }) = question(method, &params) else {
        return params;
    };
    if let Some(first) = repairs.first()
        && !session.has_odd_questions.swap(true, Ordering::Relaxed)
    {
        let server = &session.config.name;
        tracing::warn!(%server, method, %first, "repaired a question that clients would refuse");
    }
    value
}

/// A message names a call that is no longer open.
struct CallEnded;

/// The call that a message of the server names: the one with which it came, else the one of its `_meta`. `None` where it
/// names none. A `progressToken` names none: in a request of the server it is the server's.
fn named(
    session: &Arc<Session>,
    related: Option<&RequestId>,
    about: &About,
) -> Result<Option<Arc<OpenCall>>, CallEnded> {
    let found = match (find(session, related), &about.input, &about.task) {
        (Some(open), _, _) => Some(open),
        (None, Some(input), _) => session.calls().get(&input.call).cloned(),
        (None, None, Some(task)) => of_task(session, task),
        (None, None, None) if related.is_none() => return Ok(None),
        (None, None, None) => None,
    };
    found.map(Some).ok_or(CallEnded)
}

/// The call that a question belongs to: the one that it names, else the one that runs. Where several
/// callers have calls that run, nobody can tell, and a question must not reach a stranger.
fn whom(
    session: &Arc<Session>,
    ask: Ask,
    related: Option<&RequestId>,
    about: &About,
) -> Result<Arc<OpenCall>, String> {
    let open = match named(session, related, about) {
        Ok(Some(open)) => open,
        Ok(None) => running(session)?,
        Err(CallEnded) => return Err("the call that it belongs to waits here no longer".to_owned()),
    };
    if open.can(ask) {
        return Ok(open);
    }
    Err("the client that calls does not offer it".to_owned())
}

/// The call that runs, of all those whose questions are not out yet; where there is none, the one
/// that may ask more.
fn running(session: &Arc<Session>) -> Result<Arc<OpenCall>, String> {
    let running = sole(session, |open| !open.has_asked());
    let found = match running {
        Ok(None) => sole(session, |_| true),
        found => found,
    };
    found
        .map_err(|Several| {
            "calls of several clients are open or may still run on this connection, and nobody can \
             tell whom to ask; in a larger pool of connections each client would have one of its own"
                .to_owned()
        })?
        .ok_or_else(|| "no call is open".to_owned())
}

/// The client that a notification belongs to: that of the call or task that it names, else the one to which all open calls
/// belong.
fn cause(
    session: &Arc<Session>,
    related: Option<&RequestId>,
    params: Option<&RawJson>,
) -> Option<ClientKey> {
    let about = About::of(params);
    let open = match named(session, related, &about) {
        Ok(Some(open)) => Some(open),
        Ok(None) => sole(session, |_| true).ok().flatten(),
        Err(CallEnded) => return session.background.client_of(about.task.as_deref()?),
    };
    let open = open.filter(|open| open.whose == Whose::Caller)?;
    Some(open.client())
}

fn of_task(session: &Arc<Session>, task: &str) -> Option<Arc<OpenCall>> {
    let calls = session.calls();
    let mut of_task = calls
        .values()
        .filter(|open| open.task.as_deref() == Some(task));
    of_task.next().cloned()
}

/// Calls of several clients are open, or run without being open.
struct Several;

/// Returns the newest matching call, if all matching calls and all background work belong to one client.
fn sole(
    session: &Arc<Session>,
    is_one: impl Fn(&OpenCall) -> bool,
) -> Result<Option<Arc<OpenCall>>, Several> {
    let found = newest_of_one(session, is_one)?;
    let Some(open) = &found else {
        return Ok(None);
    };
    let is_watched = |open: &Arc<OpenCall>| open.whose == Whose::Watchers;
    let is_watched = session.calls().values().any(is_watched);
    match is_watched || session.background.has_other(&open.client()) {
        true => Err(Several),
        false => Ok(found),
    }
}

/// Returns the newest matching call, if all matching calls belong to one client.
fn newest_of_one(
    session: &Arc<Session>,
    is_one: impl Fn(&OpenCall) -> bool,
) -> Result<Option<Arc<OpenCall>>, Several> {
    let calls = session.calls();
    let mut found: Option<(u64, &Arc<OpenCall>)> = None;
    let some = calls
        .iter()
        .filter(|(_, open)| open.whose == Whose::Caller && is_one(open));
    for (number, open) in some {
        match found {
            Some((_, other)) if other.client() != open.client() => return Err(Several),
            Some((newest, _)) if newest > *number => {}
            _ => found = Some((*number, open)),
        }
    }
    Ok(found.map(|(_, open)| Arc::clone(open)))
}
