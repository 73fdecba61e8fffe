//! The thread that writes a recording, so that nobody else waits for it.

use std::{
    fmt, io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use orchestra_secret::Masker;
use orchestra_wire::{Inbound, Message, RawJson, RequestId, Rope, parse, write};
use serde_json::value::{RawValue, to_raw_value};

use super::{
    file::{Rotating, TapFile},
    pairing::Pairing,
    record::{Direction, Line},
    watch::{Body, Missing, Probe, TapWatch, Told},
};
use crate::{attribution::is_deceptive, client::Answer};

/// Messages that wait for the thread; more are left out and counted.
const QUEUE: usize = 4_096;

/// The same in bytes.
const QUEUE_BYTES: usize = 32 * 1024 * 1024;

/// Number of bytes of a method, and of an id, that are shown beside a message. A longer id is left out.
const MAX_NAME_BYTES: usize = 256;

/// Of what is no message, so much is told.
const EXCERPT: usize = 256;

/// What is recorded, and where.
#[derive(Default)]
pub struct TapConfig {
    /// Whole messages, a line of JSON each.
    pub file: Option<TapFile>,
    /// A line of text for each message.
    pub trace: Option<Box<dyn io::Write + Send>>,
    /// What that says.
    pub form: TraceForm,
    /// Those who look at it at the moment.
    pub watch: Option<TapWatch>,
    /// What is masked.
    pub masker: Masker,
}

/// What a line of text says of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TraceForm {
    /// Time, direction, server, id, method, bytes, ms.
    #[default]
    Brief,
    /// The direction and the whole message, secrets masked: `SENT: {…}`, `RECEIVED: {…}`.
    Whole,
    /// The same, with the server: `SENT to weather: {…}`.
    WholeNamed,
}

/// How much was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TapTotals {
    /// Messages that were recorded.
    pub recorded: u64,
    /// Messages that were left out, because they came faster than they could be written, or could
    /// not be written at all.
    pub dropped: u64,
}

/// Records what it is told of. Clones are the same tap; the last one to go writes what waits.
#[derive(Clone)]
pub struct Tap(Arc<Inner>);

struct Inner {
    queue: Mutex<Option<SyncSender<Passed>>>,
    /// Set where nothing is recorded but while somebody looks.
    only_watched: Option<TapWatch>,
    masker: Masker,
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Bytes that wait.
    waiting: AtomicUsize,
    recorded: AtomicU64,
    dropped: AtomicU64,
}

/// A message as somebody saw it.
#[derive(Debug)]
pub(super) enum Seen {
    Request {
        id: RequestId,
        method: String,
        params: Option<RawJson>,
    },
    Notification {
        method: String,
        params: Option<RawJson>,
    },
    Answer {
        id: RequestId,
        answer: Answer,
    },
    /// Bytes between two line ends.
    Line(Bytes),
    /// More bytes than a message may have.
    TooLong,
}

struct Passed {
    at: Instant,
    time: SystemTime,
    server: Arc<str>,
    direction: Direction,
    seen: Seen,
    bytes: usize,
    /// What is masked in it, where that is not as in all.
    masks: Option<Arc<Masker>>,
}

impl Tap {
    /// Opens the file, if there is one, and starts the thread.
    ///
    /// # Errors
    /// When the file cannot be opened, or no thread can be started.
    pub fn open(config: TapConfig) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let is_kept = config.file.is_some() || config.trace.is_some();
        let only_watched = config.watch.clone().filter(|_| !is_kept);
        let writer = Writer {
            file: config.file.map(Rotating::open).transpose()?,
            trace: config.trace,
            form: config.form,
            watch: config.watch,
            told: 0,
            masker: config.masker.clone(),
            masks: None,
            pairing: Pairing::default(),
            shared: Arc::clone(&shared),
            told_dropped: 0,
        };
        let (queue, passed) = sync_channel(QUEUE);
        let thread = thread::Builder::new().name("tap".into());
        let thread = thread.spawn(move || writer.run(&passed))?;
        Ok(Self(Arc::new(Inner {
            queue: Mutex::new(Some(queue)),
            only_watched,
            masker: config.masker,
            shared,
            thread: Mutex::new(Some(thread)),
        })))
    }

    /// What is masked in all messages.
    #[must_use]
    pub fn masker(&self) -> &Masker {
        &self.0.masker
    }

    /// Whether what passes now goes anywhere.
    pub(super) fn is_wanted(&self) -> bool {
        self.0
            .only_watched
            .as_ref()
            .is_none_or(TapWatch::is_watched)
    }

    /// A message passed; `masks` says what is masked in it, where that is not as in all. It never
    /// waits.
    pub(super) fn note(
        &self,
        server: &Arc<str>,
        direction: Direction,
        seen: Seen,
        masks: Option<&Arc<Masker>>,
    ) {
        if !self.is_wanted() {
            return;
        }
        let shared = &self.0.shared;
        let bytes = seen.bytes();
        let queue = self.0.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(queue) = queue.as_ref() else { return };
        let waiting = shared.waiting.fetch_add(bytes, Ordering::Relaxed);
        let passed = Passed {
            at: Instant::now(),
            time: SystemTime::now(),
            server: Arc::clone(server),
            direction,
            seen,
            bytes,
            masks: masks.cloned(),
        };
        // One is always taken, however large.
        let fits = waiting == 0 || waiting.saturating_add(bytes) <= QUEUE_BYTES;
        if !fits || queue.try_send(passed).is_err() {
            shared.waiting.fetch_sub(bytes, Ordering::Relaxed);
            shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes what waits, records nothing from now on, and says how much there was.
    pub fn finish(&self) -> TapTotals {
        self.0.finish();
        let shared = &self.0.shared;
        TapTotals {
            recorded: shared.recorded.load(Ordering::Relaxed),
            dropped: shared.dropped.load(Ordering::Relaxed),
        }
    }
}

impl Inner {
    fn finish(&self) {
        drop(
            self.queue
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            // A thread that panicked has nothing left to write.
            let _ = thread.join();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.finish();
    }
}

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tap").field(&self.0.shared).finish()
    }
}

impl Seen {
    /// About how much memory it holds.
    fn bytes(&self) -> usize {
        let raw = |params: &Option<RawJson>| params.as_ref().map_or(0, |raw| raw.as_bytes().len());
        match self {
            Self::Request { params, .. } | Self::Notification { params, .. } => raw(params),
            Self::Answer { answer, .. } => match answer {
                Ok(result) => result.as_bytes().len(),
                Err(error) => error.message.len() + raw(&error.data),
            },
            Self::Line(line) => line.len(),
            Self::TooLong => 0,
        }
    }

    /// The message as it is on a line.
    fn into_line(self) -> Option<Bytes> {
        let mut rope = Rope::new();
        match self {
            Self::Line(line) => return Some(line),
            Self::TooLong => return None,
            Self::Request { id, method, params } => {
                write::request(&mut rope, &id, &method, params.as_ref());
            }
            Self::Notification {
                method,
                params: Some(params),
            } => {
                write::notification_head(&mut rope, &method);
                write::raw(&mut rope, &params);
                write::close(&mut rope);
            }
            Self::Notification {
                method,
                params: None,
            } => {
                rope.push(b"{\"jsonrpc\":\"2.0\",\"method\":");
                write::string(&mut rope, &method);
                write::close(&mut rope);
            }
            Self::Answer { id, answer } => match answer {
                Ok(result) => {
                    write::result_head(&mut rope, &id);
                    write::raw(&mut rope, &result);
                    write::close(&mut rope);
                }
                Err(error) => write::error(&mut rope, Some(&id), &error),
            },
        }
        let mut line = rope.into_vec();
        line.truncate(line.trim_ascii_end().len());
        Some(line.into())
    }
}

struct Writer {
    file: Option<Rotating>,
    trace: Option<Box<dyn io::Write + Send>>,
    form: TraceForm,
    watch: Option<TapWatch>,
    /// How many were told to those who look.
    told: u64,
    masker: Masker,
    /// What is masked in the message that is written now.
    masks: Option<Arc<Masker>>,
    pairing: Pairing,
    shared: Arc<Shared>,
    /// What was left out and is told already.
    told_dropped: u64,
}

/// What a line of the stream is.
#[derive(Default)]
struct Known {
    id: Option<RequestId>,
    method: Option<String>,
    took: Option<Duration>,
}

impl Writer {
    fn run(mut self, passed: &Receiver<Passed>) {
        while let Ok(next) = passed.recv() {
            self.shared.waiting.fetch_sub(next.bytes, Ordering::Relaxed);
            self.tell_dropped(next.time);
            self.record(next);
        }
        self.tell_dropped(SystemTime::now());
    }

    fn tell_dropped(&mut self, time: SystemTime) {
        let dropped = self.shared.dropped.load(Ordering::Relaxed);
        let more = dropped - self.told_dropped;
        if more == 0 {
            return;
        }
        self.told_dropped = dropped;
        if let Some(watch) = &self.watch {
            watch.tell(&Missing { dropped: more });
        }
        let line = Line {
            time: millis(time),
            dropped: Some(more),
            ..Line::default()
        };
        let told = format!("{} {more} messages are not shown\n", clock(time));
        self.put(&line, &told);
    }

    fn record(&mut self, passed: Passed) {
        let (at, time, server, direction) =
            (passed.at, passed.time, passed.server, passed.direction);
        self.masks = passed.masks;
        let line = passed.seen.into_line();
        let known = self.know(line.as_deref(), &server, direction, at);
        let (message, masked) = line
            .as_deref()
            .map(|line| self.redacted(line))
            .unwrap_or_default();
        let id = known.id.as_ref().map(RequestId::as_json);
        let id = id.map(|id| self.masker().text(id));
        let id: Option<&RawValue> = id.as_deref().and_then(|id| serde_json::from_str(id).ok());
        let bytes = line.as_ref().map_or(0, Bytes::len) as u64;
        let ms = known.took.map(|took| took.as_secs_f64() * 1e3);
        let told = match self.form {
            TraceForm::Brief => shown(&server, direction, &known, bytes, time),
            form => whole(form, &server, direction, message.as_deref()),
        };
        let line = Line {
            time: millis(time),
            direction: Some(direction),
            server: server.as_ref().into(),
            id,
            method: known.method.as_deref().map(Into::into),
            bytes,
            ms: ms.map(|ms| (ms * 1e3).round() / 1e3),
            message: message.as_deref(),
            masked,
            dropped: None,
        };
        self.show(&line);
        if self.put(&line, &told) {
            self.shared.recorded.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Tells those who look of a message.
    fn show(&mut self, line: &Line<'_>) {
        let Some(watch) = self.watch.as_ref().filter(|watch| watch.is_watched()) else {
            return;
        };
        self.told += 1;
        let probe = Probe::of(line.message);
        watch.tell(&Told {
            n: self.told,
            time: line.time,
            server: &line.server,
            direction: line.direction.unwrap_or(Direction::Received),
            kind: probe.kind(),
            id: line.id,
            method: line.method.as_deref(),
            bytes: line.bytes,
            ms: line.ms,
            error: probe.is_error(),
            masked: line.masked,
            body: line.message.map(Body::of),
            tool: probe.tool(line.method.as_deref()),
        });
    }

    /// Writes a line to whoever wants it; whether it could be.
    fn put(&mut self, line: &Line<'_>, told: &str) -> bool {
        if let Some(trace) = &mut self.trace {
            // Nobody reads it any more, which is no fault.
            let _ = trace
                .write_all(told.as_bytes())
                .and_then(|()| trace.flush());
        }
        let Some(file) = &mut self.file else {
            return true;
        };
        let written = serde_json::to_vec(line).map_err(io::Error::from);
        let written = written.and_then(|mut text| {
            text.push(b'\n');
            file.write(&text)
        });
        if let Err(error) = written {
            tracing::warn!(%error, "cannot record a message");
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        true
    }

    fn know(
        &mut self,
        line: Option<&[u8]>,
        server: &Arc<str>,
        direction: Direction,
        at: Instant,
    ) -> Known {
        let Some(Ok(Inbound::One(message))) = line.map(parse) else {
            return Known::default();
        };
        match message {
            Message::Request(request) => {
                let method = self.name(&request.method);
                let id = Some(request.id.clone()).filter(is_short);
                if let Some(id) = id.clone() {
                    self.pairing.asked(server, direction, id, &method, at);
                }
                Known {
                    id,
                    method: Some(method),
                    took: None,
                }
            }
            Message::Notification(notification) => Known {
                method: Some(self.name(&notification.method)),
                ..Known::default()
            },
            Message::Response(response) => {
                let id = response.id.filter(is_short);
                let pair = id
                    .clone()
                    .and_then(|id| self.pairing.answered(server, direction, id, at));
                let (method, took) = pair.unzip();
                Known { id, method, took }
            }
        }
    }

    fn masker(&self) -> &Masker {
        self.masks.as_deref().unwrap_or(&self.masker)
    }

    fn name(&self, method: &str) -> String {
        let name = self.masker().text(method);
        name[..name.floor_char_boundary(MAX_NAME_BYTES)].to_owned()
    }

    /// The message without secrets, and whether it had any; the beginning of what is no JSON, as a
    /// text. Where it holds no secret it is as it was, to the byte.
    fn redacted(&self, line: &[u8]) -> (Option<Box<RawValue>>, bool) {
        match serde_json::from_slice(line) {
            Ok(mut message) => {
                if self.masker().json(&mut message) {
                    return (to_raw_value(&message).ok(), true);
                }
                (serde_json::from_slice(line).ok(), false)
            }
            Err(_) => {
                let text = String::from_utf8_lossy(&line[..line.len().min(2 * EXCERPT)]);
                let masked = self.masker().text(&text);
                let is_masked = masked != text;
                let end = masked.floor_char_boundary(EXCERPT);
                (to_raw_value(&masked[..end]).ok(), is_masked)
            }
        }
    }
}

fn shown(
    server: &str,
    direction: Direction,
    known: &Known,
    bytes: u64,
    time: SystemTime,
) -> String {
    let arrow = match direction {
        Direction::Sent => '>',
        Direction::Received => '<',
    };
    // A server chooses the ids of its own requests.
    let id = escaped(known.id.as_ref().map_or("-", RequestId::as_json));
    let method = known.method.as_deref().unwrap_or("-").escape_debug();
    let took = known
        .took
        .map(|took| format!(" {:.1} ms", took.as_secs_f64() * 1e3));
    let (clock, took) = (clock(time), took.unwrap_or_default());
    format!("{clock} {arrow} {server} {id} {method} {bytes} B{took}\n")
}

/// Text of a peer with the characters escaped that act on a terminal or hide.
fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match is_deceptive(c) {
            true => shown.extend(c.escape_unicode()),
            false => shown.push(c),
        }
    }
    shown
}

/// A whole message, in a line.
fn whole(
    form: TraceForm,
    server: &str,
    direction: Direction,
    message: Option<&RawValue>,
) -> String {
    let (said, towards) = match direction {
        Direction::Sent => ("SENT", "to"),
        Direction::Received => ("RECEIVED", "from"),
    };
    let whose = match form {
        TraceForm::WholeNamed => format!(" {towards} {server}"),
        TraceForm::Brief | TraceForm::Whole => String::new(),
    };
    // What is within a text there moves nothing on a terminal.
    let message = message.map_or("more than a message may have", RawValue::get);
    let message = escaped(message);
    format!("{said}{whose}: {message}\n")
}

fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn is_short(id: &RequestId) -> bool {
    id.as_bytes().len() <= MAX_NAME_BYTES
}

/// The time of the day, UTC.
fn clock(time: SystemTime) -> String {
    let ms = millis(time);
    let (seconds, ms) = (ms / 1_000 % 86_400, ms % 1_000);
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}.{ms:03}", seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_of_a_server_cannot_act_on_a_terminal() {
        let id: Box<RawValue> = serde_json::from_str("\"x\u{9b}31m\u{202e}\u{200b}\"").unwrap();
        let known = Known {
            id: Some(RequestId::from_raw(&id).unwrap()),
            method: Some("ping".to_owned()),
            took: None,
        };
        let line = shown("s", Direction::Received, &known, 7, UNIX_EPOCH);
        assert_eq!(
            line,
            "00:00:00.000 < s \"x\\u{9b}31m\\u{202e}\\u{200b}\" ping 7 B\n"
        );
    }

    #[test]
    fn long_method_is_cut_and_long_id_left_out_beside_a_message() {
        let watch = TapWatch::default();
        let mut shown = watch.look();
        let config = TapConfig {
            watch: Some(watch),
            ..TapConfig::default()
        };
        let tap = Tap::open(config).unwrap();
        let id = to_raw_value(&"x".repeat(MAX_NAME_BYTES)).unwrap();
        let request = Seen::Request {
            id: RequestId::from_raw(&id).unwrap(),
            method: "m".repeat(MAX_NAME_BYTES + 1),
            params: None,
        };
        tap.note(&"s".into(), Direction::Received, request, None);
        drop(tap);
        let shown: serde_json::Value = serde_json::from_str(&shown.try_recv().unwrap()).unwrap();
        assert_eq!(shown["method"], "m".repeat(MAX_NAME_BYTES));
        assert_eq!(shown["id"], serde_json::Value::Null);
        assert_eq!(shown["body"]["method"], "m".repeat(MAX_NAME_BYTES + 1));
    }
}
