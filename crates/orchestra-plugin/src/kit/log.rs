//! What a plugin writes to stderr, where older orchestrators do not read on for long.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    panic::PanicHookInfo,
    path::Path,
    sync::atomic::{AtomicU32, Ordering},
};

use orchestra_fs::Access;

/// A log that is larger when the plugin starts is moved aside, over the one that was before.
const LARGEST_LOG: u64 = 8 * 1024 * 1024;

/// Panics that are told on stderr, and how much of each: together far less than a pipe holds.
const PANICS: u32 = 16;
const PANIC_CHARS: usize = 500;

/// Writes a line to stderr at once. Who reads it may be gone, which is no error.
pub(super) fn say(line: &str) {
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Writes a text to stdout.
pub(super) fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Opens a log to write at its end.
pub(super) fn open(path: &Path) -> io::Result<File> {
    if fs::metadata(path).is_ok_and(|log| log.is_file() && log.len() > LARGEST_LOG) {
        let mut before = path.as_os_str().to_owned();
        before.push(".1");
        fs::rename(path, before)?;
    }
    Ok(orchestra_fs::append(path, Access::Private)?)
}

/// From now on, what is written to stderr goes to a file.
pub(super) fn redirect(file: File) -> io::Result<()> {
    rustix::stdio::dup2_stderr(file)?;
    Ok(())
}

/// Tells of the first panics, cut short.
pub(super) fn quiet_panics() {
    static TOLD: AtomicU32 = AtomicU32::new(0);
    std::panic::set_hook(Box::new(|panic| {
        tracing::error!(panic = short(panic), "the plugin panicked");
        if TOLD.fetch_add(1, Ordering::Relaxed) < PANICS {
            say(&short(panic));
        }
    }));
}

fn short(panic: &PanicHookInfo<'_>) -> String {
    let text = panic.to_string();
    text.chars().take(PANIC_CHARS).collect()
}
