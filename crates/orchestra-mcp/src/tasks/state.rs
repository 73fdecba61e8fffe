//! Where one task stands, and all that can happen to it.

use bytes::Bytes;
use orchestra_hub::Answers;
use orchestra_wire::{RawJson, Rope, RpcError, shown, write};

/// Where a task stands.
#[derive(Debug)]
pub(super) enum State {
    /// Its call runs, or is to be made again with these answers.
    Working { answers: Option<Answers> },
    /// Its client is asked something, and no call runs.
    Waiting(Waiting),
    /// Its call was answered: this is the result.
    Completed(Bytes),
    /// Its call ended with this error.
    Failed(Bytes),
    /// It was cancelled.
    Cancelled,
}

/// What a task waits for.
#[derive(Debug)]
pub(crate) struct Waiting {
    questions: Vec<Question>,
    state: Option<String>,
}

#[derive(Debug)]
struct Question {
    /// The provider's key.
    key: String,
    /// The key the client sees, which no other question of the task has.
    shown_key: String,
    request: RawJson,
    answer: Option<RawJson>,
}

/// Answers of a client, by the keys that it was shown.
pub(crate) type Responses = Vec<(String, RawJson)>;

/// What happens to a task.
#[derive(Debug)]
pub(crate) enum Event {
    /// Its call was answered with this result.
    Completed(Bytes),
    /// Its call ended with an error of the protocol.
    Failed(RpcError),
    /// Its call needs something of the client.
    Asked(Waiting),
    /// The client answers.
    Given(Responses),
    /// It is cancelled; the text says why.
    Cancelled(&'static str),
}

/// An event that a task cannot have where it stands.
#[derive(Debug)]
pub(super) struct Impossible;

impl State {
    /// All that can happen: the state after it, and whether that is another one.
    pub(super) fn after(self, event: Event) -> Result<(Self, bool), (Self, Impossible)> {
        let after = match (self, event) {
            (Self::Working { .. }, Event::Completed(result)) => Self::Completed(result),
            (Self::Working { .. } | Self::Waiting(_), Event::Failed(error)) => {
                Self::Failed(error_object(&error))
            }
            (Self::Working { .. }, Event::Asked(waiting)) => waiting.state_now(),
            (Self::Working { .. } | Self::Waiting(_), Event::Cancelled(_)) => Self::Cancelled,
            (Self::Waiting(mut waiting), Event::Given(responses)) => {
                let is_new = waiting.take(responses);
                return Ok((waiting.state_now(), is_new));
            }
            // Nothing is asked, so that nothing is answered.
            (state, Event::Given(_)) => return Ok((state, false)),
            // It was over before.
            (
                state @ (Self::Completed(_) | Self::Failed(_) | Self::Cancelled),
                Event::Cancelled(_),
            ) => return Ok((state, false)),
            (state, Event::Completed(_) | Event::Failed(_) | Event::Asked(_)) => {
                return Err((state, Impossible));
            }
        };
        Ok((after, true))
    }
}

impl Event {
    /// What people read of it.
    pub(super) fn message(&self) -> Option<String> {
        match self {
            Self::Completed(_) | Self::Given(_) => None,
            Self::Asked(_) => Some("waits for the client's input".to_owned()),
            Self::Failed(error) => Some(shown(&error.message).into_owned()),
            Self::Cancelled(why) => Some((*why).to_owned()),
        }
    }
}

impl Waiting {
    /// The questions of round `round`, as the provider names them. Over all rounds no key is shown
    /// twice (MCP, extension tasks, task update requests).
    pub(crate) fn new(
        questions: impl IntoIterator<Item = (String, RawJson)>,
        state: Option<String>,
        round: u32,
    ) -> Self {
        let questions = questions.into_iter().map(|(key, request)| Question {
            shown_key: format!("{round}.{key}"),
            key,
            request,
            answer: None,
        });
        Self {
            questions: questions.collect(),
            state,
        }
    }

    /// What is not answered yet, by the keys that are shown.
    pub(super) fn outstanding(&self) -> impl Iterator<Item = (&str, &RawJson)> {
        let open = self
            .questions
            .iter()
            .filter(|question| question.answer.is_none());
        open.map(|question| (question.shown_key.as_str(), &question.request))
    }

    pub(super) fn asks(&self, key: &str) -> bool {
        self.outstanding().any(|(shown, _)| shown == key)
    }

    /// Takes answers; says whether one was asked for.
    fn take(&mut self, responses: Responses) -> bool {
        let mut is_new = false;
        for (key, answer) in responses {
            let mut open = self.questions.iter_mut();
            let asked =
                open.find(|question| question.shown_key == key && question.answer.is_none());
            if let Some(question) = asked {
                question.answer = Some(answer);
                is_new = true;
            }
        }
        is_new
    }

    /// Goes on working as soon as all is answered.
    fn state_now(self) -> State {
        if self.outstanding().next().is_some() {
            return State::Waiting(self);
        }
        let mut rope = Rope::new();
        rope.push_byte(b'{');
        for (at, question) in self.questions.iter().enumerate() {
            if at > 0 {
                rope.push_byte(b',');
            }
            write::string(&mut rope, &question.key);
            rope.push_byte(b':');
            if let Some(answer) = &question.answer {
                write::raw(&mut rope, answer);
            }
        }
        rope.push_byte(b'}');
        let text = rope.into_vec();
        let responses = serde_json::from_slice(&text)
            .map_or_else(|_| RawJson::empty_object(), RawJson::from_raw);
        State::Working {
            answers: Some(Answers {
                responses,
                state: self.state,
            }),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let questions = self.questions.iter();
        let questions = questions.map(|question| question.request.as_bytes().len());
        questions.sum::<usize>() + self.state.as_ref().map_or(0, String::len)
    }
}

fn error_object(error: &RpcError) -> Bytes {
    let mut rope = Rope::new();
    write::error_object(&mut rope, error);
    Bytes::from(rope.into_vec())
}
