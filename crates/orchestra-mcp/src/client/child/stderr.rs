//! What a server says on standard error: forwarded to the log, its end kept for when it crashes.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt},
    sync::watch,
    task::AbortHandle,
    time::timeout,
};

use super::log::LogFile;

/// How much of the end is kept.
const KEPT_BYTES: usize = 64 * 1024;

/// Longest piece that is logged as one line.
const LINE_BYTES: usize = 4 * 1024;

/// How long the last words of a child that has ended may take to be read.
const LAST_WORDS: Duration = Duration::from_millis(500);

pub(super) struct Stderr {
    kept: Arc<Mutex<Vec<u8>>>,
    ended: watch::Receiver<bool>,
    task: AbortHandle,
}

impl Stderr {
    /// Reads it to its end, however much comes.
    pub(super) fn follow(
        input: impl AsyncRead + Send + Unpin + 'static,
        server: String,
        log: Option<PathBuf>,
    ) -> Self {
        let kept = Arc::<Mutex<Vec<u8>>>::default();
        let (sender, ended) = watch::channel(false);
        let keeping = Arc::clone(&kept);
        let task = tokio::spawn(async move {
            read(input, &server, &keeping, log.map(LogFile::new)).await;
            sender.send_replace(true);
        });
        Self {
            kept,
            ended,
            task: task.abort_handle(),
        }
    }

    /// The end of what was said, after the process has ended.
    pub(super) async fn last_words(&self) -> String {
        let mut ended = self.ended.clone();
        // What does not come soon is left out.
        let _ = timeout(LAST_WORDS, ended.wait_for(|ended| *ended)).await;
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

async fn read(
    mut input: impl AsyncRead + Unpin,
    server: &str,
    kept: &Mutex<Vec<u8>>,
    mut file: Option<LogFile>,
) {
    let mut piece = vec![0; 16 * 1024];
    let mut line = Vec::new();
    while let Ok(length @ 1..) = input.read(&mut piece).await {
        let said = &piece[..length];
        {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extend_from_slice(said);
            // Cut back now and then, so that a flood does not move all of it each time.
            if kept.len() > 2 * KEPT_BYTES {
                let over = kept.len() - KEPT_BYTES;
                kept.drain(..over);
            }
        }
        if let Some(open) = file.take() {
            file = open.append(said, server).await;
        }
        if tracing::enabled!(tracing::Level::DEBUG) {
            log(said, server, &mut line);
        }
    }
}

/// Logs whole lines, and the pieces of those that are very long.
fn log(said: &[u8], server: &str, line: &mut Vec<u8>) {
    for part in said.split_inclusive(|byte| *byte == b'\n') {
        line.extend_from_slice(part);
        if part.ends_with(b"\n") || line.len() >= LINE_BYTES {
            let text = String::from_utf8_lossy(line);
            tracing::debug!(server, "stderr: {}", text.trim_end());
            line.clear();
        }
    }
}
