//! What a server says by itself: progress and questions of a call, changes, logs.

use std::{
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Poll, ready},
};

use orchestra_hub::{ClientFeatures, Cx, ListKind, ProgressSink};
use orchestra_wire::{RawJson, RequestId, RpcError, text_of};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::{
    sync::{Notify, Semaphore, mpsc},
    time::Instant,
};

use super::{
    Answer, Incoming, Root, ServerMessage,
    session::{Session, spawn},
};
use crate::told::{Ask, level};

/// Questions of one call that wait.
const QUESTIONS: usize = 16;

/// Answers to requests of the server that wait to be written.
const ANSWERING: usize = 64;

/// A call that the server has not answered.
pub(super) struct OpenCall {
    pub(super) began: Instant,
    pub(super) whose: Whose,
    caller: Mutex<Caller>,
    questions: Mutex<Vec<Asked>>,
    /// Rings when there is a question.
    pub(super) asked: Notify,
}

/// On whose behalf a request is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// Somebody uses the server.
    Caller,
    /// It is only watched: nobody is there to be asked.
    Ours,
}

/// Who waits for it, and since when nothing was heard.
struct Caller {
    progress: ProgressSink,
    features: ClientFeatures,
    connection: u64,
    heard: Instant,
}

/// A question of the server.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) id: RequestId,
    pub(super) method: String,
    pub(super) params: Option<RawJson>,
}

impl OpenCall {
    pub(super) fn new(cx: &Cx, whose: Whose) -> Self {
        let now = Instant::now();
        Self {
            began: now,
            whose,
            caller: Mutex::new(Caller {
                progress: cx.progress.clone(),
                features: cx.features,
                connection: cx.connection,
                heard: now,
            }),
            questions: Mutex::default(),
            asked: Notify::new(),
        }
    }

    /// Leaves a question for whoever waits; false when too many wait already.
    fn ask(&self, asked: Asked) -> bool {
        let mut questions = self.questions();
        let has_room = questions.len() < QUESTIONS;
        if has_room {
            questions.push(asked);
            self.asked.notify_one();
        }
        has_room
    }

    /// The questions that wait.
    pub(super) fn take_questions(&self) -> Vec<Asked> {
        std::mem::take(&mut self.questions())
    }

    fn questions(&self) -> MutexGuard<'_, Vec<Asked>> {
        self.questions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// It goes on for whoever made it again.
    pub(super) fn renew(&self, cx: &Cx) {
        let mut caller = self.caller();
        caller.progress = cx.progress.clone();
        caller.features = cx.features;
        caller.connection = cx.connection;
        caller.heard = Instant::now();
    }

    /// When something was heard of it.
    pub(super) fn heard(&self) -> Instant {
        self.caller().heard
    }

    fn caller(&self) -> MutexGuard<'_, Caller> {
        self.caller.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that it goes on; where its progress goes.
    fn hear(&self) -> ProgressSink {
        let mut caller = self.caller();
        caller.heard = Instant::now();
        caller.progress.clone()
    }

    fn can(&self, ask: Ask) -> bool {
        ask.is_in(self.caller().features)
    }
}

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
            answering: Arc::new(Semaphore::new(ANSWERING)),
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

    fn incoming(&self) -> MutexGuard<'_, mpsc::Receiver<Incoming>> {
        self.incoming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hand_on(&self, session: &Arc<Session>, Incoming { message, related }: Incoming) {
        match message {
            ServerMessage::Notification { method, params } => {
                notified(session, &method, params, related.as_ref());
            }
            ServerMessage::Request { id, method, params } => {
                let asked = Asked { id, method, params };
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
        }
        "notifications/resources/updated" => updated(session, params.as_ref()),
        // The server gives up a question of its own: whoever was asked answers into the void.
        "notifications/cancelled" | "notifications/subscriptions/acknowledged" => {}
        // Tasks are asked for as often as their server says.
        "notifications/tasks" | "notifications/tasks/status" => {}
        _ => session.events.other(method, params),
    }
}

fn progress(session: &Arc<Session>, params: Option<&RawJson>) {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Progress<'a> {
        #[serde(borrow)]
        progress_token: &'a RawValue,
        progress: f64,
        total: Option<f64>,
        message: Option<String>,
    }
    let Some(report) = params.and_then(|params| params.parse::<Progress<'_>>().ok()) else {
        return;
    };
    let Ok(number) = report.progress_token.get().parse::<u64>() else {
        return;
    };
    let open = session.calls().get(&number).cloned();
    if let Some(open) = open {
        open.hear()
            .progress(report.progress, report.total, report.message.as_deref());
    }
}

fn log(session: &Arc<Session>, params: Option<&RawJson>, related: Option<&RequestId>) {
    #[derive(Deserialize)]
    struct Message<'a> {
        #[serde(borrow)]
        level: &'a RawValue,
        logger: Option<String>,
        #[serde(borrow)]
        data: &'a RawValue,
    }
    let Some(message) = params.and_then(|params| params.parse::<Message<'_>>().ok()) else {
        return;
    };
    let Ok(level) = level(message.level) else {
        return;
    };
    let data = RawJson::from_raw(message.data);
    // Of a call, where the connection tells, or where all calls are of one client.
    let sink = find(session, related)
        .or_else(|| newest_of_one(session).ok().flatten())
        .map(|open| open.hear())
        .filter(ProgressSink::is_wanted);
    match sink {
        Some(sink) => sink.log(level, message.logger.as_deref(), &data),
        None => session.events.log(level, message.logger, data),
    }
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

fn find(session: &Arc<Session>, related: Option<&RequestId>) -> Option<Arc<OpenCall>> {
    let number: u64 = related?.as_json().parse().ok()?;
    session.calls().get(&number).cloned()
}

/// What a question is answered with at once; `None` when somebody else is asked.
fn asked_of(
    session: &Arc<Session>,
    asked: Asked,
    related: Option<&RequestId>,
) -> Option<(RequestId, Answer)> {
    let id = asked.id.clone();
    if asked.method == "ping" {
        return Some((id, Ok(RawJson::empty_object())));
    }
    let params = asked
        .params
        .as_ref()
        .and_then(|params| serde_json::from_str::<&RawValue>(params.as_str()).ok());
    let Some(ask) = Ask::of(&asked.method, params) else {
        return Some((id, Err(RpcError::method_not_found(&asked.method))));
    };
    let refused = match whom(session, ask, related) {
        Ok(open) => match open.ask(asked) {
            true => return None,
            false => "too many questions wait already".to_owned(),
        },
        Err(_) if ask == Ask::Roots => {
            return Some((id, Ok(Root::answer(&session.config.roots))));
        }
        Err(why) => why,
    };
    let text = format!("{ask} cannot be asked for: {refused}");
    // The code of MCP for a user who is not there to say yes (sampling, error handling).
    Some((id, Err(RpcError::new(orchestra_wire::ErrorCode(-1), text))))
}

/// The call that a question belongs to: the one it came with, else the one that runs. Where several
/// callers have calls that run, nobody can tell, and a question must not reach a stranger.
fn whom(
    session: &Arc<Session>,
    ask: Ask,
    related: Option<&RequestId>,
) -> Result<Arc<OpenCall>, String> {
    let open = match find(session, related) {
        Some(open) => open,
        None => newest_of_one(session)
            .map_err(|Several| {
                "several clients have calls open; nobody can tell whom to ask".to_owned()
            })?
            .ok_or_else(|| "no call is open".to_owned())?,
    };
    if open.can(ask) {
        return Ok(open);
    }
    Err("the client that calls does not offer it".to_owned())
}

/// Calls of several clients are open.
struct Several;

/// The call that began last, where all that are open are of one client.
fn newest_of_one(session: &Arc<Session>) -> Result<Option<Arc<OpenCall>>, Several> {
    let calls = session.calls();
    let mut found: Option<(u64, &Arc<OpenCall>)> = None;
    for (number, open) in calls.iter().filter(|(_, open)| open.whose == Whose::Caller) {
        match found {
            Some((_, other)) if other.caller().connection != open.caller().connection => {
                return Err(Several);
            }
            Some((newest, _)) if newest > *number => {}
            _ => found = Some((*number, open)),
        }
    }
    Ok(found.map(|(_, open)| Arc::clone(open)))
}
