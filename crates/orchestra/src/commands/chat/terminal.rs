//! A conversation at a terminal.

mod commands;
mod does;
mod editor;
mod face;
mod images;
mod markdown;
pub(super) mod notes;

use std::{
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Instant,
};

use orchestra_chat::{Ending, Stopper};
use orchestra_fs::{Access, Directory};
use tokio::{task::JoinHandle, time::timeout};

use super::{
    files::{self, Keep},
    model::{Model, NoModel, Source},
    remember,
    room::Room,
    talk::{Conversation, Manner},
};
use crate::{
    exit::{Exit, Failure},
    output, servers,
};
use commands::Command;
use editor::{Editor, Mode, Typed, Words};
use face::Screen;

/// Where what was typed is remembered, in the user's state.
const HISTORY: &str = "chat-history";

/// How a terminal is told where the prompt begins.
const SIGN: &str = "";

/// Holds a conversation until its person leaves.
///
/// # Errors
/// When the system does not tell of signals.
pub(super) async fn run(
    room: &Room,
    source: Source,
    manner: Manner,
    keep: Keep,
) -> Result<Exit, Failure> {
    let interrupts = Interrupts::listen()?;
    let _mode = Mode::current();
    let words = Words::default();
    // What is typed is kept where conversations are.
    let state = servers::state_directory().ok();
    let history = state.filter(|_| keep.is_kept()).and_then(history_file);
    let paint = output::paint();
    let mut editor = Editor::new(
        history.as_deref(),
        words.clone(),
        paint,
        Arc::clone(&interrupts.over),
    );
    let mut opening = Some(tokio::spawn(opened(source.clone(), words.clone())));
    let mut conversation = Conversation::new(room, source, manner, keep)?;
    output::complain(&greeting(&conversation));
    let mut is_settled = false;
    // A second one in a row leaves.
    let mut was_interrupted = false;
    loop {
        kept(&conversation, &words);
        let typed = tokio::select! {
            biased;
            typed = editor.read(SIGN, None) => typed,
            () = interrupts.abandoned() => Typed::End,
        };
        if interrupts.is_over() {
            return Ok(Exit::Ok);
        }
        let text = match typed {
            Typed::End => return Ok(Exit::Ok),
            Typed::Interrupt if was_interrupted => return Ok(Exit::Ok),
            Typed::Interrupt => {
                was_interrupted = true;
                output::complain("press Ctrl-C again to exit");
                continue;
            }
            Typed::Text(text) => text,
        };
        was_interrupted = false;
        if text.trim().is_empty() {
            continue;
        }
        match Command::parse(&text) {
            Some(Ok(Command::Quit)) => return Ok(Exit::Ok),
            Some(Ok(command)) => {
                interrupts.begin();
                let done = async {
                    settle(room, &mut is_settled, &words, &command).await;
                    does::what(&mut conversation, &mut opening, command).await
                };
                let done = tokio::select! {
                    biased;
                    done = done => done,
                    () = interrupts.more_than(0) => {
                        was_interrupted = true;
                        Err("stopped".to_owned())
                    }
                };
                match done {
                    Ok(text) if text.is_empty() => {}
                    Ok(text) => output::lines(&output::printable(&text))?,
                    Err(why) => output::complain(&output::printable(&why)),
                }
            }
            Some(Err(why)) => output::complain(&output::printable(&why)),
            None => {
                was_interrupted = turn(
                    &mut conversation,
                    &mut opening,
                    &mut is_settled,
                    &interrupts,
                    &text,
                )
                .await;
                offered(room, &words);
            }
        }
        if interrupts.is_over() {
            return Ok(Exit::Ok);
        }
    }
}

/// One turn; whether it was interrupted.
async fn turn(
    conversation: &mut Conversation<'_>,
    opening: &mut Option<Opening>,
    is_settled: &mut bool,
    interrupts: &Interrupts,
    text: &str,
) -> bool {
    let stopper = Stopper::default();
    let mut screen = Screen::new(output::paint(), &stopper);
    let began = Instant::now();
    interrupts.begin();
    let ended = {
        let saying = async {
            let ready = ready(conversation, opening, is_settled, &mut screen);
            tokio::select! {
                biased;
                ready = ready => ready?,
                () = interrupts.more_than(0) => return Ok(None),
            }
            conversation
                .say(text, &mut screen, &stopper)
                .await
                .map(Some)
        };
        tokio::pin!(saying);
        let mut times = 0;
        loop {
            tokio::select! {
                biased;
                ended = &mut saying => break Some(ended),
                () = interrupts.more_than(times) => {
                    times += 1;
                    // What does not end by itself then is not waited for.
                    if times > 1 || interrupts.is_over() {
                        break None;
                    }
                    stopper.stop();
                }
            }
        }
    };
    let took = began.elapsed();
    let is_interrupted = interrupts.times() > 0;
    match ended {
        None => {
            // The terminal is as it was, and what was said is kept.
            drop(screen);
            interrupts.end();
            tokio::select! {
                biased;
                () = editor::let_go() => {}
                () = interrupts.abandoned() => {}
            }
        }
        Some(Err(no_model)) => screen.line(&no_model.words()),
        Some(Ok(None)) => screen.line("stopped"),
        Some(Ok(Some(ending))) => {
            if let Some(why) = ending.how.why() {
                screen.line(&why);
            }
            screen.line(&notes::used(&ending, took));
            drop(screen);
            let times = interrupts.times();
            tokio::select! {
                biased;
                () = left_behind(conversation, &ending) => {}
                () = interrupts.more_than(times) => output::complain("stopped"),
            }
        }
    }
    is_interrupted
}

/// What a turn leaves behind: its usage, and a memory where that is wanted.
async fn left_behind(conversation: &mut Conversation<'_>, ending: &Ending) {
    remember::usage(conversation, ending).await;
    let project = conversation.manner.remember.clone();
    if let Some(project) = project.filter(|_| ending.how.is_answer())
        && let Err(why) = remember::turn(conversation, &project, None).await
    {
        output::complain(&output::printable(&format!("not remembered: {why}")));
    }
}

/// Waits for the servers and the model, before the first turn.
async fn ready(
    conversation: &mut Conversation<'_>,
    opening: &mut Option<Opening>,
    is_settled: &mut bool,
    screen: &mut Screen<'_>,
) -> Result<(), NoModel> {
    if !*is_settled {
        screen.wait("waiting for servers");
        let told = conversation.room.settled().await;
        *is_settled = true;
        screen.wait_no_more();
        told.iter().for_each(|line| screen.line(line));
    }
    if let Some(opened) = opening.take() {
        screen.wait("asking for the model");
        let opened = opened.await;
        screen.wait_no_more();
        if let Ok(opened) = opened {
            conversation.take(opened?);
        }
    }
    Ok(())
}

/// A model that is asked for meanwhile.
type Opening = JoinHandle<Result<Model, NoModel>>;

/// Asks for the model, and for the names of all that there are.
async fn opened(source: Source, words: Words) -> Result<Model, NoModel> {
    let model = source.open().await;
    if let Ok(models) = source.models().await {
        words.know(|known| known.models = models);
    }
    model
}

/// Commands that are about servers wait for these to have said what they offer.
async fn settle(room: &Room, is_settled: &mut bool, words: &Words, command: &Command) {
    let is_about = matches!(
        command,
        Command::Tools(_) | Command::Servers | Command::Enable(_) | Command::Disable(_)
    );
    if is_about && !std::mem::replace(is_settled, true) {
        room.settled()
            .await
            .iter()
            .for_each(|line| output::complain(line));
    }
    offered(room, words);
}

/// Tells completion what there is.
fn offered(room: &Room, words: &Words) {
    let servers = room.peers().into_iter().map(|(name, _)| name);
    let offered = servers.chain(room.names()).collect();
    words.know(|known| known.offered = offered);
}

/// Tells completion which conversations there are.
fn kept(conversation: &Conversation<'_>, words: &Words) {
    let directory = conversation.directory().map(files::all);
    let names = directory.iter().flatten().map(|path| files::name(path));
    let names = names.collect();
    words.know(|known| known.sessions = names);
}

fn greeting(conversation: &Conversation<'_>) -> String {
    let model = conversation
        .source
        .named()
        .map(|model| format!(" with {model}"));
    let gone_on = conversation.turns();
    let gone_on = match gone_on {
        0 => String::new(),
        turns => format!(", after {}", files::turns(turns)),
    };
    let mut text = format!(
        "A conversation{}{gone_on}. /help lists commands; Ctrl-D leaves.",
        model.unwrap_or_default()
    );
    if !conversation.room.has_board() && !conversation.room.is_alone() {
        text.push_str(
            "\nThere is no board here, so its tools are not there; `orchestra init` makes one.",
        );
    }
    for line in conversation.room.protection() {
        text.push('\n');
        text.push_str(&line);
    }
    output::printable(&text).into_owned()
}

/// The file of what was typed, which is made where it is not there, and is its user's alone.
fn history_file(state: PathBuf) -> Option<PathBuf> {
    let path = state.join(HISTORY);
    let made =
        Directory::private(&state).and_then(|directory| directory.append(HISTORY, Access::Private));
    if let Err(error) = made {
        let error = std::io::Error::from(error);
        tracing::debug!(%error, "cannot store the input history");
        return None;
    }
    Some(path)
}

/// Ctrl-C while nothing is typed, and what ends the program: a signal, or that the terminal hangs up.
#[derive(Default)]
struct Interrupts {
    times: Arc<AtomicUsize>,
    /// Whether the program is to end.
    over: Arc<AtomicBool>,
    /// Whether the terminal is gone: nothing that reads from it comes to an end.
    is_gone: Arc<AtomicBool>,
    told: Arc<tokio::sync::Notify>,
}

impl Interrupts {
    #[cfg(unix)]
    fn listen() -> io::Result<Self> {
        use futures_util::FutureExt as _;
        use tokio::signal::unix::{SignalKind, signal};
        let interrupts = Self::default();
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hang_up = signal(SignalKind::hangup())?;
        let (times, told) = (Arc::clone(&interrupts.times), Arc::clone(&interrupts.told));
        let (over, is_gone) = (
            Arc::clone(&interrupts.over),
            Arc::clone(&interrupts.is_gone),
        );
        let mut gone = Box::pin(crate::stopping::hung_up(io::stdin()).fuse());
        tokio::spawn(async move {
            loop {
                let ends = tokio::select! {
                    _ = interrupt.recv() => false,
                    _ = terminate.recv() => true,
                    _ = hang_up.recv() => true,
                    () = &mut gone => {
                        is_gone.store(true, Ordering::SeqCst);
                        true
                    }
                };
                over.fetch_or(ends, Ordering::SeqCst);
                times.fetch_add(1, Ordering::SeqCst);
                told.notify_waiters();
            }
        });
        Ok(interrupts)
    }

    #[cfg(not(unix))]
    fn listen() -> io::Result<Self> {
        let interrupts = Self::default();
        let (times, told) = (Arc::clone(&interrupts.times), Arc::clone(&interrupts.told));
        tokio::spawn(async move {
            while tokio::signal::ctrl_c().await.is_ok() {
                times.fetch_add(1, Ordering::SeqCst);
                told.notify_waiters();
            }
        });
        Ok(interrupts)
    }

    /// A turn begins: what came before does not count.
    fn begin(&self) {
        self.times.store(0, Ordering::SeqCst);
    }

    fn times(&self) -> usize {
        self.times.load(Ordering::SeqCst)
    }

    /// Waits until there were more than so many, or the program is to end.
    async fn more_than(&self, times: usize) {
        loop {
            let told = self.told.notified();
            if self.times() > times || self.is_over() {
                return;
            }
            told.await;
        }
    }

    /// Whether the program is to end.
    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// Ends the program.
    fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
        self.told.notify_waiters();
    }

    /// Waits until the program is to end and what reads from the terminal is not waited for any more.
    async fn abandoned(&self) {
        loop {
            let told = self.told.notified();
            if self.is_gone.load(Ordering::SeqCst) {
                return;
            }
            if self.is_over() {
                let _ = timeout(editor::LETS_GO, told).await;
                return;
            }
            told.await;
        }
    }
}
