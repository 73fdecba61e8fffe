//! A recording that is read again.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    io::{self, BufRead, Read as _},
};

use orchestra_wire::{Inbound, Message, RawJson, Reply, RequestId, RpcError, parse};
use serde_json::value::RawValue;

use super::record::{Direction, Line};
use crate::client::Answer;

/// The longest line: a message of the largest size, and what stands beside it.
const LONGEST: u64 = 64 * 1024 * 1024;

/// What a client said to one server, and what was answered.
#[derive(Debug, Default)]
pub struct Recording {
    /// What it said, in order.
    pub steps: Vec<Step>,
    /// How it answered questions of the server, in order by their methods.
    pub answers: HashMap<String, VecDeque<Answer>>,
    /// Messages that are missing.
    pub dropped: u64,
    /// How many messages cannot be said again.
    pub left_out: u64,
    /// The first of these.
    pub unsayable: Vec<Unsayable>,
}

/// The most messages that are named that cannot be said again.
const MAX_NAMED: usize = 20;

/// A message that cannot be said again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsayable {
    /// The line of the recording.
    pub line: usize,
    /// Its method, where it has one.
    pub method: Option<String>,
    /// Why not.
    pub why: &'static str,
}

/// Something that a client said by itself.
#[derive(Debug)]
pub enum Step {
    /// It asked.
    Request {
        /// Id.
        id: RequestId,
        /// Method.
        method: String,
        /// Parameters.
        params: Option<RawJson>,
        /// What was answered, if that is known.
        answer: Option<Answer>,
    },
    /// It told.
    Notification {
        /// Method.
        method: String,
        /// Parameters.
        params: Option<RawJson>,
    },
}

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file cannot be read.
    #[error("cannot read the recording")]
    Io(#[from] io::Error),
    /// A line is none of a recording.
    #[error("line {line} is not a valid record of a recording")]
    Line {
        /// Its number.
        line: usize,
        /// What is wrong.
        #[source]
        source: serde_json::Error,
    },
    /// Which server is meant is not clear.
    #[error("the recording contains several servers; name one of: {0}")]
    Several(String),
    /// There is nothing to say again.
    #[error("the recording contains no request of a client")]
    Empty,
}

/// What is known while lines are read.
#[derive(Default)]
struct Reading {
    recording: Recording,
    /// Where the request of an id stands among the steps.
    open: HashMap<RequestId, usize>,
    /// Methods of what the server asked.
    asked: HashMap<RequestId, String>,
}

impl Recording {
    /// Reads the recording of `server`, or of the only one there is.
    ///
    /// # Errors
    /// When it cannot be read, or holds nothing to be said again.
    pub fn read(mut from: impl BufRead, server: Option<&str>) -> Result<Self, RecordingError> {
        let mut reading = Reading::default();
        let mut servers = BTreeSet::new();
        let mut text = Vec::new();
        for line in 1.. {
            text.clear();
            let read = from.by_ref().take(LONGEST).read_until(b'\n', &mut text)?;
            if read == 0 {
                break;
            }
            if text.trim_ascii().is_empty() {
                continue;
            }
            let parsed = serde_json::from_slice::<Line<'_>>(&text);
            let parsed = parsed.map_err(|source| RecordingError::Line { line, source })?;
            reading.recording.dropped += parsed.dropped.unwrap_or(0);
            let (Some(direction), Some(message)) = (parsed.direction, parsed.message) else {
                continue;
            };
            if server.is_none_or(|server| server == parsed.server) {
                servers.insert(parsed.server.clone().into_owned());
                if parsed.masked && direction == Direction::Sent {
                    let why = "it holds a secret, which is masked in the recording";
                    reading.leave_out(line, message, why);
                } else {
                    reading.take(line, direction, message);
                }
            }
        }
        if servers.len() > 1 {
            let names: Vec<String> = servers.into_iter().collect();
            return Err(RecordingError::Several(names.join(", ")));
        }
        if reading.open.is_empty() && reading.recording.steps.is_empty() {
            return Err(RecordingError::Empty);
        }
        Ok(reading.recording)
    }
}

impl Reading {
    /// What the client said cannot be said again.
    fn leave_out(&mut self, line: usize, raw: &RawValue, why: &'static str) {
        self.recording.left_out += 1;
        if self.recording.unsayable.len() < MAX_NAMED {
            let method = match parse(raw.get().as_bytes()) {
                Ok(Inbound::One(Message::Request(request))) => Some(request.method.into_owned()),
                Ok(Inbound::One(Message::Notification(told))) => Some(told.method.into_owned()),
                _ => None,
            };
            let unsayable = &mut self.recording.unsayable;
            unsayable.push(Unsayable { line, method, why });
        }
    }

    fn take(&mut self, line: usize, direction: Direction, raw: &RawValue) {
        let Ok(Inbound::One(message)) = parse(raw.get().as_bytes()) else {
            if direction == Direction::Sent {
                self.leave_out(line, raw, "it is no single message");
            }
            return;
        };
        match (direction, message) {
            (Direction::Sent, Message::Request(request)) => {
                let id = request.id.clone();
                self.open.insert(id.clone(), self.recording.steps.len());
                self.recording.steps.push(Step::Request {
                    id,
                    method: request.method.clone().into_owned(),
                    params: request.raw_params().map(RawJson::from_raw),
                    answer: None,
                });
            }
            (Direction::Sent, Message::Notification(notification)) => {
                self.recording.steps.push(Step::Notification {
                    method: notification.method.clone().into_owned(),
                    params: notification.raw_params().map(RawJson::from_raw),
                });
            }
            (Direction::Sent, Message::Response(response)) => {
                let method = response.id.and_then(|id| self.asked.remove(&id));
                if let Some(method) = method {
                    let answers = self.recording.answers.entry(method).or_default();
                    answers.push_back(answer(response.reply));
                }
            }
            (Direction::Received, Message::Request(request)) => {
                let method = request.method.into_owned();
                self.asked.insert(request.id, method);
            }
            (Direction::Received, Message::Notification(_)) => {}
            (Direction::Received, Message::Response(response)) => {
                let step = response.id.and_then(|id| self.open.remove(&id));
                let step = step.and_then(|place| self.recording.steps.get_mut(place));
                if let Some(Step::Request { answer: known, .. }) = step {
                    *known = Some(answer(response.reply));
                }
            }
        }
    }
}

fn answer(reply: Reply<'_>) -> Answer {
    match reply {
        Reply::Result(result) => Ok(RawJson::from_raw(result)),
        Reply::Error(error) => Err(RpcError::from_raw(error)),
    }
}
