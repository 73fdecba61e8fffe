//! How far work is that may take long: on stderr, where that is a terminal, and gone when it is done.

use std::{
    sync::{Mutex, PoisonError},
    thread,
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, WeakProgressBar};

/// How often something turns.
const TURN: Duration = Duration::from_millis(100);

/// Work that is done within this is not worth a word.
const QUICK: Duration = Duration::from_millis(500);

/// A bar for work of this length; nothing where stderr is no terminal.
pub(in crate::commands) fn bar(length: u64, what: &'static str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{msg} [{bar:40}] {percent}% {eta}");
    // A template that is not understood costs the looks alone.
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_message(what);
    bar
}

/// Something that turns while work of unknown length is done.
pub fn spinner(what: &'static str) -> ProgressBar {
    let spinner = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    spinner.set_message(what);
    spinner.enable_steady_tick(TURN);
    spinner
}

/// What turns now, if something does.
static TURNING: Mutex<Option<WeakProgressBar>> = Mutex::new(None);

/// Writes to stderr what is not to mix with what turns there.
pub(crate) fn aside<T>(write: impl FnOnce() -> T) -> T {
    let turning = TURNING.lock().unwrap_or_else(PoisonError::into_inner);
    let turning = turning.as_ref().and_then(WeakProgressBar::upgrade);
    match turning.filter(|bar| !bar.is_finished()) {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// Something that turns, once the work has taken a while, until this is dropped.
#[derive(Debug)]
pub(in crate::commands) struct Turning(ProgressBar);

impl Turning {
    /// Begins. Meanwhile what else is written to stderr is written [`aside`].
    pub(in crate::commands) fn new(what: &'static str) -> Self {
        let spinner = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        spinner.set_message(what);
        let weak = spinner.downgrade();
        *TURNING.lock().unwrap_or_else(PoisonError::into_inner) = Some(weak.clone());
        thread::spawn(move || {
            thread::sleep(QUICK);
            if let Some(spinner) = weak.upgrade().filter(|spinner| !spinner.is_finished()) {
                spinner.set_draw_target(ProgressDrawTarget::stderr());
                spinner.enable_steady_tick(TURN);
            }
        });
        Self(spinner)
    }
}

impl Drop for Turning {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
