//! What a server says on standard error: forwarded to the log line by line, its end kept for when it
//! crashes, and no secret in either.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use orchestra_secret::Masker;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    sync::{mpsc, watch},
    task::AbortHandle,
    time::timeout,
};

use super::log::LogFile;

/// How much of the end is kept.
const KEPT_BYTES: usize = 64 * 1024;

/// Maximum length of a line that a listener receives whole, and of a line of standard output in the file.
const LINE_BYTES: usize = 4 * 1024;

/// Lines of standard output that wait to be kept; more are left out.
const BESIDE: usize = 256;

/// How long the last words of a child that has ended may take to be read.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Lines that are passed on to our own log within a second; of a flood the rest is counted.
const LINES_PER_SECOND: u32 = 100;

/// Hears what a process writes to standard error, as it came: whole lines, and pieces of very long
/// ones. It must be quick.
pub type Heard = Box<dyn FnMut(&str) + Send>;

/// What a process writes to standard error, read for as long as it runs. Reading ends when this is
/// dropped.
pub struct Stderr {
    kept: Arc<Mutex<Vec<u8>>>,
    ended: watch::Receiver<bool>,
    /// What is to be kept in the file beside it.
    beside: mpsc::Sender<String>,
    task: AbortHandle,
}

impl Stderr {
    /// Reads it to its end, however much comes. It is kept in `log` as well, if there is one, and
    /// `heard` is told of it. Needs a tokio runtime.
    pub fn follow(
        input: impl AsyncRead + Send + Unpin + 'static,
        server: String,
        log: Option<PathBuf>,
        masker: Masker,
        heard: Option<Heard>,
    ) -> Self {
        let kept = Arc::<Mutex<Vec<u8>>>::default();
        let (sender, ended) = watch::channel(false);
        let (beside, told_beside) = mpsc::channel(BESIDE);
        let reader = Reader {
            server,
            kept: Arc::clone(&kept),
            file: log.map(LogFile::new),
            masker,
            heard,
            trickle: Trickle::default(),
        };
        let task = tokio::spawn(reader.run(input, told_beside, sender));
        Self {
            kept,
            ended,
            beside,
            task: task.abort_handle(),
        }
    }

    /// Keeps a line of standard output that is no message where standard error is kept. Waits for
    /// nothing: of a flood some is left out.
    pub(super) fn beside(&self, line: &[u8]) {
        // The reader masks it before it cuts it.
        let line = String::from_utf8_lossy(&line[..line.len().min(2 * LINE_BYTES)]);
        let _ = self.beside.try_send(line.trim_end().to_owned());
    }

    /// The end of what was said, after the process has ended.
    pub async fn last_words(&self) -> String {
        let mut ended = self.ended.clone();
        // What does not come soon is left out.
        let _ = timeout(LAST_WORDS, ended.wait_for(|ended| *ended)).await;
        self.so_far()
    }

    /// The end of what was said until now: whole lines.
    pub fn so_far(&self) -> String {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let tail = &kept[kept.len().saturating_sub(KEPT_BYTES)..];
        String::from_utf8_lossy(tail).into_owned()
    }
}

impl Drop for Stderr {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads standard error, and keeps what it reads.
struct Reader {
    server: String,
    kept: Arc<Mutex<Vec<u8>>>,
    file: Option<LogFile>,
    masker: Masker,
    heard: Option<Heard>,
    trickle: Trickle,
}

impl Reader {
    async fn run(
        mut self,
        mut input: impl AsyncRead + Unpin,
        mut beside: mpsc::Receiver<String>,
        ended: watch::Sender<bool>,
    ) {
        let mut piece = vec![0; 16 * 1024];
        let mut lines = Lines::default();
        let mut mask = self.masker.stream();
        loop {
            let read = tokio::select! {
                read = input.read(&mut piece), if !lines.has_ended => read,
                line = beside.recv() => match line {
                    Some(line) => {
                        let line = self.masker.excerpt(&line, LINE_BYTES);
                        self.log(&format!("stdout: {line}\n")).await;
                        continue;
                    }
                    None => return,
                },
            };
            let mut said = Vec::new();
            let whole = match read {
                Ok(length @ 1..) => {
                    mask.push(&piece[..length], &mut said);
                    lines.take(&piece[..length])
                }
                _ => {
                    mask.finish(&mut said);
                    lines.rest()
                }
            };
            if let Some(heard) = &mut self.heard {
                heard(&String::from_utf8_lossy(&whole));
            }
            let said = String::from_utf8_lossy(&said);
            keep(said.as_bytes(), &self.kept);
            self.log(&said).await;
            for line in said.lines() {
                self.trickle.pass(&self.server, line.trim_end());
            }
            if lines.has_ended {
                ended.send_replace(true);
            }
        }
    }

    async fn log(&mut self, said: &str) {
        if let Some(open) = self.file.take() {
            self.file = open.append(said.as_bytes(), &self.server).await;
        }
    }
}

/// What is passed on to our own log, and how much of it.
struct Trickle {
    since: Instant,
    passed: u32,
    left_out: u32,
}

impl Default for Trickle {
    fn default() -> Self {
        Self {
            since: Instant::now(),
            passed: 0,
            left_out: 0,
        }
    }
}

impl Trickle {
    fn pass(&mut self, server: &str, line: &str) {
        if self.since.elapsed() >= Duration::from_secs(1) {
            if self.left_out > 0 {
                tracing::debug!(server, lines = self.left_out, "stderr: lines omitted");
            }
            *self = Self::default();
        }
        match self.passed < LINES_PER_SECOND {
            true => {
                self.passed += 1;
                tracing::debug!(server, "stderr: {line}");
            }
            false => self.left_out = self.left_out.saturating_add(1),
        }
    }
}

fn keep(said: &[u8], kept: &Mutex<Vec<u8>>) {
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    kept.extend_from_slice(said);
    // Cut back now and then, so that a flood does not move all of it each time.
    if kept.len() > 2 * KEPT_BYTES {
        let over = kept.len() - KEPT_BYTES;
        kept.drain(..over);
    }
}

/// Cuts standard error into lines for a listener, which needs them whole and unmasked.
#[derive(Default)]
struct Lines {
    begun: Vec<u8>,
    has_ended: bool,
}

impl Lines {
    /// The lines that have ended, and the pieces of one that is very long.
    fn take(&mut self, said: &[u8]) -> Vec<u8> {
        self.begun.extend_from_slice(said);
        let whole = match self.begun.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => end + 1,
            None if self.begun.len() >= LINE_BYTES => self.begun.len(),
            None => return Vec::new(),
        };
        let rest = self.begun.split_off(whole);
        std::mem::replace(&mut self.begun, rest)
    }

    /// What was said last.
    fn rest(&mut self) -> Vec<u8> {
        self.has_ended = true;
        std::mem::take(&mut self.begun)
    }
}
