//! The terminal: what is drawn on it, the keys that are pressed at it, and that it is as it was whenever and
//! however this ends.

use std::{
    io::{self, Stdout},
    panic,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use anyhow::Context as _;
use ratatui::{
    Terminal,
    backend::CrosstermBackend,
    crossterm::{
        cursor::Show,
        event::{self, Event},
        execute,
        terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode},
    },
};
use tokio::{
    sync::mpsc::{self, Receiver, Sender},
    time::Instant,
};

use super::{
    clock,
    draw::{Theme, draw, ticks},
    feed::{self, News},
    model::{Model, Want},
    screen::{Act, Screen},
};
use crate::{
    config::Config,
    exit::{Exit, Failure},
    stopping::Signals,
};

/// How often is drawn at most.
const FRAME: Duration = Duration::from_millis(40);

/// How often is drawn while a time is seen that goes on.
const TICK: Duration = Duration::from_secs(1);

/// How much may wait to be taken in.
const WAITING: usize = 256;

/// Shows the workspace until somebody leaves.
///
/// # Errors
/// When the terminal cannot be drawn on.
pub(super) async fn run(config: &Config, project: Option<&str>) -> Result<Exit, Failure> {
    let signals = Signals::at_terminal(io::stdin())?;
    let (want, wants) = mpsc::channel(WAITING);
    let (tell, mut news) = mpsc::channel(WAITING);
    let following = tokio::spawn(feed::follow(config.clone(), wants, tell));
    let held = Held::take()?;
    let mut terminal =
        Terminal::new(CrosstermBackend::new(io::stdout())).context("draw on the terminal")?;
    let mut keys = keys()?;
    let shown = tokio::select! {
        () = signals.first() => Ok(()),
        shown = shown(&mut terminal, project, &want, &mut news, &mut keys) => shown,
    };
    // On a terminal that is gone, dropping it would print an error there, and panic as that fails.
    let is_gone = terminal.show_cursor().is_err();
    if is_gone {
        std::mem::forget(terminal);
    }
    drop(held);
    following.abort();
    if !is_gone {
        shown?;
    }
    Ok(Exit::Ok)
}

async fn shown(
    terminal: &mut Terminal<CrosstermBackend<Stdout>>,
    project: Option<&str>,
    want: &Sender<Want>,
    news: &mut Receiver<News>,
    keys: &mut Receiver<Event>,
) -> anyhow::Result<()> {
    let theme = Theme::of_terminal();
    let size = terminal.size().context("ask how large the terminal is")?;
    let mut screen = Screen::new(size.width, size.height);
    let mut model = Model::new(project);
    let mut drawn = Instant::now();
    // When it is to be drawn again.
    let mut next = Some(drawn);
    loop {
        let wants = tokio::select! {
            told = news.recv() => {
                let told = told.context("the feed of events ended")?;
                taken(&mut model, told)
            }
            key = keys.recv() => match key {
                // The terminal is gone.
                None => return Ok(()),
                Some(Event::Key(key)) => match screen.key(key, &mut model) {
                    Act::Quit => return Ok(()),
                    Act::Nothing => continue,
                    Act::Show(wants) => wants,
                },
                Some(Event::Resize(columns, lines)) => {
                    screen.resize(columns, lines);
                    Vec::new()
                }
                Some(_) => continue,
            },
            () = until(next) => {
                screen.settle(&model);
                terminal
                    .draw(|frame| draw(frame, &model, &screen, theme, clock::now()))
                    .context("draw on the terminal")?;
                drawn = Instant::now();
                next = ticks(&model, &screen).then(|| drawn + TICK);
                continue;
            }
        };
        for wanted in wants {
            // It waits for what is slow, and nobody waits for it.
            if want.try_send(wanted).is_err() {
                model.trouble = Some("too many requests at once; press the key again".to_owned());
            }
        }
        next = Some((drawn + FRAME).max(Instant::now()));
    }
}

/// Takes in what is told; what is to be asked for thereby.
fn taken(model: &mut Model, news: News) -> Vec<Want> {
    match news {
        News::Event(event) => model.happened(&event.kind, &event.data),
        News::Answer(want, text) => model.answered(&want, &text),
        News::Refused(want, why) => {
            model.refused(&want, why);
            Vec::new()
        }
        News::Lost(why) => {
            model.lost(why);
            Vec::new()
        }
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// What is pressed, and how large the terminal has become.
fn keys() -> io::Result<Receiver<Event>> {
    let (sender, keys) = mpsc::channel(WAITING);
    // It waits in the system, and ends with the program.
    thread::Builder::new()
        .name("keys".to_owned())
        .spawn(move || {
            while let Ok(event) = event::read() {
                if sender.blocking_send(event).is_err() {
                    break;
                }
            }
        })?;
    Ok(keys)
}

/// Whether the terminal is other than it was.
static IS_HELD: AtomicBool = AtomicBool::new(false);

/// As long as it is there, the terminal shows another screen, and keys come as they are pressed.
struct Held;

impl Held {
    fn take() -> anyhow::Result<Self> {
        // What a panic says would be lost with the screen that it is said on.
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |what| {
            restore();
            before(what);
        }));
        enable_raw_mode().context("take keys as they are pressed")?;
        IS_HELD.store(true, Ordering::SeqCst);
        let held = Self;
        execute!(io::stdout(), EnterAlternateScreen).context("draw on the terminal")?;
        Ok(held)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        restore();
    }
}

/// Makes the terminal as it was, once. It may be gone: then there is nothing to be restored.
fn restore() {
    if IS_HELD.swap(false, Ordering::SeqCst) {
        let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}
