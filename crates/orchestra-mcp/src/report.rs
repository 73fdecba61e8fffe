//! What a running call reports: progress and log messages, as notifications on their way out.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    time::{Duration, Instant},
};

use orchestra_hub::{LogLevel, ProgressListener};
use orchestra_wire::{RawJson, RequestId, Revision, Rope, write};

use crate::told::level_name;

/// Takes messages that nobody waits for. An implementation must not block, and may drop messages
/// when their receiver is slow.
pub trait Emit: Send + Sync {
    /// Sends one message, line end included, that belongs to `request` of the client or to none.
    fn emit(&self, request: Option<&RequestId>, message: Rope);

    /// Tells that `request` was cancelled by its client: nothing that belongs to it follows, not
    /// even an answer.
    fn closed(&self, request: &RequestId) {
        let _ = request;
    }
}

/// Progress notifications that a call may send in a burst, and how often one more comes free.
const PROGRESS_BURST: u32 = 100;
const PROGRESS_EVERY: Duration = Duration::from_millis(10);

/// The same of log messages, for each call and for all calls that have no listeners of their own
/// (MCP, logging: servers should limit their rate).
const LOG_BURST: u32 = 500;
const LOG_EVERY: Duration = Duration::from_millis(5);

/// Passes on the log messages of a session's calls.
pub(crate) struct SessionReports {
    emit: Arc<dyn Emit>,
    least: AtomicU8,
    logs: Mutex<Bucket>,
}

/// Passes on what one call reports, until the call is over.
pub(crate) struct CallReports {
    emit: Arc<dyn Emit>,
    request: RequestId,
    revision: Revision,
    token: Option<Box<str>>,
    logs: Logs,
    over: AtomicBool,
    progress: Mutex<Progress>,
    logged: Mutex<Bucket>,
}

/// Which log messages of a call are wanted.
pub(crate) enum Logs {
    /// Those that its session wants.
    Session(Arc<SessionReports>),
    /// Those from this level on, if any.
    From(Option<LogLevel>),
}

struct Progress {
    last: f64,
    bucket: Bucket,
}

/// How many more messages may be sent.
struct Bucket {
    most: u32,
    every: Duration,
    tokens: u32,
    /// Unknown until the first message.
    refilled: Option<Instant>,
}

impl SessionReports {
    pub(crate) fn new(emit: Arc<dyn Emit>) -> Self {
        Self {
            emit,
            least: AtomicU8::new(LogLevel::Info as u8),
            logs: Mutex::new(Bucket::of_logs()),
        }
    }

    pub(crate) fn set_level(&self, level: LogLevel) {
        self.least.store(level as u8, Ordering::Relaxed);
    }

    pub(crate) fn wants(&self, level: LogLevel) -> bool {
        level as u8 >= self.least.load(Ordering::Relaxed)
    }
}

impl ProgressListener for SessionReports {
    fn progress(&self, _progress: f64, _total: Option<f64>, _message: Option<&str>) {}

    fn wants_progress(&self) -> bool {
        false
    }

    fn log(&self, level: LogLevel, logger: Option<&str>, data: &RawJson) {
        if self.wants(level) && take(&self.logs) {
            self.emit.emit(None, log_message(level, logger, data));
        }
    }
}

impl CallReports {
    pub(crate) fn new(
        emit: Arc<dyn Emit>,
        request: RequestId,
        revision: Revision,
        token: Option<Box<str>>,
        logs: Logs,
    ) -> Self {
        let progress = Progress {
            last: f64::NEG_INFINITY,
            bucket: Bucket::new(PROGRESS_BURST, PROGRESS_EVERY),
        };
        let over = AtomicBool::new(false);
        Self {
            emit,
            request,
            revision,
            token,
            logs,
            over,
            progress: Mutex::new(progress),
            logged: Mutex::new(Bucket::of_logs()),
        }
    }

    /// Says that the call is over; nothing more is sent for it.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }
}

impl ProgressListener for CallReports {
    fn wants_progress(&self) -> bool {
        self.token.is_some()
    }

    fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        let Some(token) = &self.token else { return };
        // Held while the message is emitted, so that progress leaves in ascending order.
        let mut state = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_over() || !progress.is_finite() || progress <= state.last || !state.bucket.take()
        {
            return;
        }
        state.last = progress;
        let mut rope = Rope::new();
        write::notification_head(&mut rope, "notifications/progress");
        rope.push(b"{\"progressToken\":");
        rope.push(token.as_bytes());
        rope.push(b",\"progress\":");
        write::float(&mut rope, progress);
        if let Some(total) = total.filter(|total| total.is_finite()) {
            rope.push(b",\"total\":");
            write::float(&mut rope, total);
        }
        if let Some(message) = message.filter(|_| self.revision.progress_message()) {
            rope.push(b",\"message\":");
            write::string(&mut rope, message);
        }
        rope.push(b"}}\n");
        self.emit.emit(Some(&self.request), rope);
    }

    fn log(&self, level: LogLevel, logger: Option<&str>, data: &RawJson) {
        let wanted = match &self.logs {
            Logs::Session(session) => session.wants(level),
            Logs::From(least) => least.is_some_and(|least| level >= least),
        };
        if wanted && !self.is_over() && take(&self.logged) {
            self.emit
                .emit(Some(&self.request), log_message(level, logger, data));
        }
    }
}

fn take(bucket: &Mutex<Bucket>) -> bool {
    bucket.lock().unwrap_or_else(PoisonError::into_inner).take()
}

impl Bucket {
    const fn new(most: u32, every: Duration) -> Self {
        Self {
            most,
            every,
            tokens: most,
            refilled: None,
        }
    }

    const fn of_logs() -> Self {
        Self::new(LOG_BURST, LOG_EVERY)
    }

    fn take(&mut self) -> bool {
        let refilled = *self.refilled.get_or_insert_with(Instant::now);
        let earned = refilled.elapsed().as_millis() / self.every.as_millis();
        if earned > 0 {
            let earned = u32::try_from(earned).unwrap_or(self.most);
            self.tokens = self.tokens.saturating_add(earned).min(self.most);
            self.refilled = Some(Instant::now());
        }
        let free = self.tokens > 0;
        self.tokens = self.tokens.saturating_sub(1);
        free
    }
}

/// `notifications/message`, line end included.
pub(crate) fn log_message(level: LogLevel, logger: Option<&str>, data: &RawJson) -> Rope {
    let mut rope = Rope::new();
    write::notification_head(&mut rope, "notifications/message");
    rope.push(b"{\"level\":\"");
    rope.push(level_name(level).as_bytes());
    rope.push_byte(b'"');
    if let Some(logger) = logger {
        rope.push(b",\"logger\":");
        write::string(&mut rope, logger);
    }
    rope.push(b",\"data\":");
    write::raw(&mut rope, data);
    rope.push(b"}}\n");
    rope
}

/// `notifications/cancelled` for a request of ours.
pub(crate) fn cancelled(rope: &mut Rope, id: &RequestId, reason: &str) {
    write::notification_head(rope, "notifications/cancelled");
    rope.push(b"{\"requestId\":");
    rope.push(id.as_json().as_bytes());
    rope.push(b",\"reason\":");
    write::string(rope, reason);
    rope.push(b"}}\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Kept(Mutex<Vec<String>>);

    impl Emit for Kept {
        fn emit(&self, _request: Option<&RequestId>, message: Rope) {
            self.0
                .lock()
                .unwrap()
                .push(String::from_utf8(message.into_vec()).unwrap());
        }
    }

    #[test]
    fn progress_only_rises_and_ends_with_the_call() {
        let kept = Arc::new(Kept::default());
        let reports = CallReports::new(
            kept.clone(),
            RequestId::from_number(1),
            Revision::V2025_11_25,
            Some("\"t\"".into()),
            Logs::From(None),
        );
        reports.progress(1.0, Some(2.0), Some("half"));
        reports.progress(1.0, None, None);
        reports.progress(0.5, None, None);
        reports.progress(f64::NAN, None, None);
        reports.log(LogLevel::Emergency, None, &RawJson::empty_object());
        reports.end();
        reports.progress(2.0, None, None);
        assert_eq!(
            *kept.0.lock().unwrap(),
            [
                "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":\
              {\"progressToken\":\"t\",\"progress\":1,\"total\":2,\"message\":\"half\"}}\n"
            ]
        );
    }

    #[test]
    fn a_flood_of_log_messages_is_thinned_out() {
        let kept = Arc::new(Kept::default());
        let count = || kept.0.lock().unwrap().len();
        let data = RawJson::empty_object();
        let flood = |listener: &dyn ProgressListener| {
            let (before, began) = (count(), Instant::now());
            (0..100_000).for_each(|_| listener.log(LogLevel::Error, None, &data));
            let most = LOG_BURST as usize + began.elapsed().as_millis() as usize;
            assert!((LOG_BURST as usize..=most).contains(&(count() - before)));
        };
        let session = Arc::new(SessionReports::new(kept.clone()));
        flood(&*session);
        let id = RequestId::from_number(1);
        let logs = Logs::From(Some(LogLevel::Debug));
        flood(&CallReports::new(
            kept.clone(),
            id,
            Revision::NEWEST,
            None,
            logs,
        ));
    }

    #[test]
    fn a_flood_of_progress_is_thinned_out() {
        let kept = Arc::new(Kept::default());
        let now = Instant::now();
        let token = Some("1".into());
        let reports = CallReports::new(
            kept.clone(),
            RequestId::from_number(1),
            Revision::NEWEST,
            token,
            Logs::From(None),
        );
        (0..100_000).for_each(|step| reports.progress(f64::from(step), None, None));
        let most = 2 * PROGRESS_BURST as usize + (now.elapsed().as_millis() / 10) as usize;
        assert!(kept.0.lock().unwrap().len() <= most);
    }
}
