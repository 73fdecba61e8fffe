//! Drives a conversation: asks the model, calls tools, asks the person, and tells what happens.

use std::{
    future::Future,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::FutureExt as _;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};

use crate::{
    backend::{Backend, BoxFuture, Failure},
    chat::{Chat, Due, Ending, Event, Note, Outcome, Verdict, Want},
    hold::Hold,
    request::{Piece, Request},
    thinking::Splitter,
    tool::{Tool, Tools},
};

/// Pieces of an answer that may wait to be shown.
const PIECES: usize = 256;

/// How long a server is left alone before it is asked again: so long for the first time, twice as long for the next.
const PAUSE: Duration = Duration::from_millis(500);

/// Whoever calls tools.
pub trait Toolbox: Send + Sync {
    /// Calls a tool. Dropping the future cancels it.
    fn call(&self, due: Due) -> BoxFuture<Outcome>;

    /// The tools that there are now, where they are others than when this was asked last.
    fn changed(&self) -> Option<Tools> {
        None
    }
}

/// Whoever shows what happens, and decides.
pub trait Face: Send {
    /// The model is asked.
    fn asked(&mut self, _request: &Request) {}

    /// The model says more. Words that may become a call are held back.
    fn says(&mut self, _piece: &Piece) {}

    /// The model has said all that it says before its calls, or at its end.
    fn said(&mut self) {}

    /// Something beside its words.
    fn notes(&mut self, _note: &Note) {}

    /// A call begins.
    fn calls(&mut self, _due: &Due) {}

    /// A call has ended.
    fn called(&mut self, _due: &Due, _outcome: &Outcome, _took: Duration) {}

    /// Whether a call may be made.
    fn decides<'f>(
        &'f mut self,
        due: &'f Due,
    ) -> Pin<Box<dyn Future<Output = Verdict> + Send + 'f>>;
}

/// Takes down what happens, so that it can be played again.
pub trait Record: Send {
    /// Something has happened, at a time since the conversation began.
    fn happened(&mut self, event: &Event, at: Duration);

    /// Something is wanted.
    fn wanted(&mut self, want: &Want);

    /// There are these tools from here on.
    fn tools(&mut self, tools: &Tools);
}

/// Takes nothing down where there is nothing to take it down with.
impl<R: Record> Record for Option<R> {
    fn happened(&mut self, event: &Event, at: Duration) {
        if let Some(record) = self {
            record.happened(event, at);
        }
    }

    fn wanted(&mut self, want: &Want) {
        if let Some(record) = self {
            record.wanted(want);
        }
    }

    fn tools(&mut self, tools: &Tools) {
        if let Some(record) = self {
            record.tools(tools);
        }
    }
}

/// By which a turn is stopped.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<bool>);

/// Stops turns.
#[derive(Debug)]
pub struct Stopper(watch::Sender<bool>);

impl Default for Stopper {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl Stopper {
    /// Stops the turn that is under way.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }

    /// For the next turn.
    #[must_use]
    pub fn next(&self) -> Stop {
        self.0.send_replace(false);
        Stop(self.0.subscribe())
    }
}

impl Stop {
    async fn stopped(&mut self) {
        if self.0.wait_for(|is_stopped| *is_stopped).await.is_err() {
            // Nobody can stop it any more.
            std::future::pending::<()>().await;
        }
    }
}

/// What takes part in a turn.
pub struct Parts<'p> {
    /// The server of the model.
    pub backend: &'p dyn Backend,
    /// Whoever calls tools.
    pub toolbox: &'p dyn Toolbox,
    /// Whoever shows and decides.
    pub face: &'p mut dyn Face,
    /// Whoever takes it down.
    pub record: &'p mut dyn Record,
    /// When the conversation began.
    pub began: Instant,
}

/// What has come of something that was waited for.
enum Came {
    Event(Event),
    Stopped,
    Late,
}

/// A call that has ended.
struct Called {
    due: Due,
    outcome: Outcome,
    took: Duration,
}

/// Says something, and goes on until the turn is over.
pub async fn turn(chat: &mut Chat, text: String, parts: &mut Parts<'_>, mut stop: Stop) -> Ending {
    let mut calls: JoinSet<Called> = JoinSet::new();
    let mut asked_again: u32 = 0;
    look(chat, parts);
    tell(chat, Event::Said(text), parts);
    loop {
        while let Some(want) = chat.poll() {
            parts.record.wanted(&want);
            let came = match want {
                Want::Tell(note) => {
                    if let Note::Again(_) = note {
                        asked_again += 1;
                    }
                    parts.face.notes(&note);
                    continue;
                }
                Want::Call(due) => {
                    parts.face.calls(&due);
                    let (call, began) = (parts.toolbox.call(due.clone()), Instant::now());
                    calls.spawn(async move {
                        let outcome = AssertUnwindSafe(call).catch_unwind().await;
                        let broke = |_| {
                            Outcome::Broken("it broke; this is a fault of the program".to_owned())
                        };
                        let outcome = outcome.unwrap_or_else(broke);
                        let took = began.elapsed();
                        Called { due, outcome, took }
                    });
                    continue;
                }
                Want::Approve(due) => tokio::select! {
                    verdict = parts.face.decides(&due) => {
                        Came::Event(Event::Decided { number: due.number, verdict })
                    }
                    () = stop.stopped() => Came::Stopped,
                },
                Want::Ask(request) => {
                    let deadline = chat.deadline();
                    match paused(asked_again, deadline, parts.began, &mut stop).await {
                        Some(came) => came,
                        None => asked(*request, deadline, parts, &mut stop).await,
                    }
                }
                Want::End(ending) => {
                    // What still runs is of no use to anybody.
                    calls.abort_all();
                    return *ending;
                }
            };
            if !matches!(came, Came::Event(Event::Failed { .. })) {
                asked_again = 0;
            }
            tell(chat, event_of(came), parts);
        }
        let deadline = until(chat.deadline(), parts.began);
        let came = tokio::select! {
            Some(called) = calls.join_next() => match called {
                Ok(called) => {
                    let Called { due, outcome, took } = called;
                    parts.face.called(&due, &outcome, took);
                    look(chat, parts);
                    Came::Event(Event::Answered { number: due.number, outcome })
                }
                // Only what is aborted ends so.
                Err(_) => Came::Stopped,
            },
            () = stop.stopped() => Came::Stopped,
            () = deadline => Came::Late,
        };
        tell(chat, event_of(came), parts);
    }
}

/// Waits before a model is asked again, longer each time; what came meanwhile.
async fn paused(
    times: u32,
    deadline: Option<Duration>,
    began: Instant,
    stop: &mut Stop,
) -> Option<Came> {
    let before = times.checked_sub(1)?;
    tokio::select! {
        () = tokio::time::sleep(PAUSE * (1 << before.min(4))) => None,
        () = stop.stopped() => Some(Came::Stopped),
        () = until(deadline, began) => Some(Came::Late),
    }
}

/// Looks which tools there are: servers come and go.
fn look(chat: &mut Chat, parts: &mut Parts<'_>) {
    if let Some(tools) = parts.toolbox.changed() {
        parts.record.tools(&tools);
        chat.set_tools(tools);
    }
}

fn event_of(came: Came) -> Event {
    let said = String::new();
    match came {
        Came::Event(event) => event,
        Came::Stopped => Event::Stopped { said },
        Came::Late => Event::Late { said },
    }
}

fn tell(chat: &mut Chat, event: Event, parts: &mut Parts<'_>) {
    // As exactly as it can be taken down.
    let passed = u64::try_from(parts.began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let at = Duration::from_millis(passed);
    parts.record.happened(&event, at);
    chat.handle(event, at);
}

async fn until(deadline: Option<Duration>, began: Instant) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until((began + deadline).into()).await,
        None => std::future::pending().await,
    }
}

/// Asks the model, and shows its words as they come.
async fn asked(
    request: Request,
    deadline: Option<Duration>,
    parts: &mut Parts<'_>,
    stop: &mut Stop,
) -> Came {
    parts.face.asked(&request);
    let tools: Vec<Arc<Tool>> = request.tools.clone();
    let (sender, mut pieces) = mpsc::channel(PIECES);
    let mut asking = parts.backend.ask(request, sender);
    let mut shown = Shown {
        splitter: Splitter::default(),
        hold: Hold::new(&tools),
        said: String::new(),
    };
    let deadline = until(deadline, parts.began);
    tokio::pin!(deadline);
    let came = loop {
        tokio::select! {
            // What came is shown before the end is told.
            biased;
            Some(piece) = pieces.recv() => shown.show(piece, parts.face),
            done = &mut asking => break Came::Event(match done {
                Ok(reply) => Event::Replied(reply),
                Err(Failure { trouble, said }) => Event::Failed { trouble, said },
            }),
            () = stop.stopped() => break Came::Stopped,
            () = &mut deadline => break Came::Late,
        }
    };
    drop(asking);
    while let Ok(piece) = pieces.try_recv() {
        shown.show(piece, parts.face);
    }
    for piece in shown.splitter.end() {
        shown.show_split(piece, parts.face);
    }
    let event = match came {
        Came::Event(event) => event,
        Came::Stopped => Event::Stopped { said: shown.said },
        Came::Late => Event::Late { said: shown.said },
    };
    let is_call = match &event {
        Event::Replied(reply) => reply.calls.is_empty() && reply.printed(&tools).is_some(),
        _ => false,
    };
    let rest = shown.hold.rest();
    if !is_call && !rest.is_empty() {
        parts.face.says(&Piece::Text(rest.to_owned()));
    }
    parts.face.said();
    Came::Event(event)
}

/// State of an answer that is shown while it arrives.
struct Shown<'t> {
    splitter: Splitter,
    hold: Hold<'t>,
    /// Text so far, as the server sent it.
    said: String,
}

impl Shown<'_> {
    fn show(&mut self, piece: Piece, face: &mut dyn Face) {
        match piece {
            Piece::Text(text) => {
                self.said.push_str(&text);
                for piece in self.splitter.take(&text) {
                    self.show_split(piece, face);
                }
            }
            thinking @ Piece::Thinking(_) => face.says(&thinking),
        }
    }

    fn show_split(&mut self, piece: Piece, face: &mut dyn Face) {
        match piece {
            Piece::Text(text) => {
                let free = self.hold.take(&text);
                if !free.is_empty() {
                    face.says(&Piece::Text(free));
                }
            }
            thinking @ Piece::Thinking(_) => face.says(&thinking),
        }
    }
}
