//! The loop: a person says something, the model is asked, calls tools, is given what they answer, and is asked again
//! until it answers in words.
//!
//! Nothing waits here. Whoever drives a [`Chat`] tells it what happened ([`Chat::handle`]) and does what it wants
//! ([`Chat::poll`]): ask the model, ask the person, call a tool. The same events make the same wants, so a
//! conversation can be played again.

mod calls;
mod ending;
mod offer;
mod round;

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

pub use calls::{Due, Outcome, Verdict};
pub use ending::{End, Ending, Made, Spent};

use self::calls::Calls;
use crate::{
    context::{Kept, LeftOut, assembled, step},
    message::{Answer, Call, Message},
    request::{Reply, Request, Trouble, Usage},
    settings::Settings,
    thinking::Split,
    tokens::Scale,
    tool::Tools,
};

/// How often the model is asked again when its server may answer the next time.
const RETRIES: u32 = 2;

/// What is to be done.
#[derive(Debug)]
pub enum Want {
    /// Ask the model.
    Ask(Box<Request>),
    /// Ask the person whether a call may be made.
    Approve(Due),
    /// Call a tool.
    Call(Due),
    /// Tell the person something.
    Tell(Note),
    /// The turn is over.
    End(Box<Ending>),
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The person said something; no turn is under way.
    Said(String),
    /// The model has answered.
    Replied(Reply),
    /// It has not; what it had said until then.
    Failed {
        /// Why.
        trouble: Trouble,
        /// Its words so far.
        said: String,
    },
    /// The person has decided on a call.
    Decided {
        /// Which.
        number: usize,
        /// How.
        verdict: Verdict,
    },
    /// A call has come to an end.
    Answered {
        /// Which.
        number: usize,
        /// How.
        outcome: Outcome,
    },
    /// The person has stopped the turn; what the model had said until then.
    Stopped {
        /// Its words so far.
        said: String,
    },
    /// The time of the turn is used up; what the model had said until then.
    Late {
        /// Its words so far.
        said: String,
    },
}

/// Something that the person is told beside the words of the model.
#[derive(Debug, Clone, PartialEq)]
pub enum Note {
    /// The model takes no tools: it goes on without.
    NoTools,
    /// Not all tools are shown to the model, but those that the question may need.
    Chosen {
        /// How many are shown.
        shown: usize,
        /// How many there are.
        of: usize,
    },
    /// Something of the conversation was left out of what the model is given.
    LeftOut(LeftOut),
    /// Not even what was said last fits: the model may see only a part of it.
    TooLong,
    /// The model is asked again.
    Again(Trouble),
    /// A call was printed as text, or was put right.
    Repaired {
        /// The tool.
        tool: String,
    },
    /// A call was not made: it may change something, and nobody is there to agree.
    Denied {
        /// The tool.
        tool: String,
    },
    /// The answer ended because nothing more fitted.
    Cut,
    /// No more tools are called in this turn.
    Concludes,
}

/// A conversation.
#[derive(Debug)]
pub struct Chat {
    settings: Settings,
    tools: Tools,
    conversation: Vec<Kept>,
    scale: Scale,
    /// The room that was asked for last.
    room: usize,
    /// Tools that were called or found, which are shown from then on.
    used: BTreeSet<String>,
    /// Tools of which the person has agreed to every call.
    agreed: BTreeSet<String>,
    /// Whether the model takes tools, as far as is known.
    takes_tools: bool,
    next_call: u64,
    turn: Option<Turn>,
    wants: VecDeque<Want>,
}

/// What is known of a turn that is under way.
#[derive(Debug)]
struct Turn {
    question: String,
    started: Duration,
    /// How long people were waited for.
    waited: Duration,
    waits_since: Option<Duration>,
    rounds: u32,
    usage: Usage,
    retries: u32,
    /// The model was asked once more since it had said nothing.
    is_nudged: bool,
    concludes: bool,
    told_chosen: bool,
    /// What was estimated for what was sent last.
    estimate: usize,
    calls: Calls,
    made: Vec<Made>,
    begins: usize,
}

impl Chat {
    /// A conversation in which nothing was said.
    #[must_use]
    pub fn new(settings: Settings, tools: Tools) -> Self {
        Self {
            settings,
            tools,
            conversation: Vec::new(),
            scale: Scale::default(),
            room: 0,
            used: BTreeSet::new(),
            agreed: BTreeSet::new(),
            takes_tools: true,
            next_call: 0,
            turn: None,
            wants: VecDeque::new(),
        }
    }

    /// How it is held.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Holds it otherwise from now on. With another model, what is known of the one before is forgotten.
    pub fn set(&mut self, settings: Settings, is_other_model: bool) {
        self.settings = settings;
        if is_other_model {
            self.scale = Scale::default();
            self.room = 0;
            self.takes_tools = true;
        }
    }

    /// The tools that there are.
    #[must_use]
    pub const fn tools(&self) -> &Tools {
        &self.tools
    }

    /// There are other tools from now on.
    pub fn set_tools(&mut self, tools: Tools) {
        self.tools = tools;
    }

    /// What was said so far.
    pub fn messages(&self) -> impl Iterator<Item = &Message> {
        self.conversation.iter().map(|kept| &kept.message)
    }

    /// Goes on with what was said before, or from the beginning where that is nothing: all else that was learned is
    /// forgotten, and a turn that is under way as well.
    pub fn restore(&mut self, messages: Vec<Message>) {
        self.scale = Scale::default();
        self.room = 0;
        self.takes_tools = true;
        self.agreed.clear();
        let calls = messages.iter().map(|message| match message {
            Message::Assistant { calls, .. } => calls.len() as u64,
            _ => 0,
        });
        self.next_call = calls.sum();
        self.used = messages
            .iter()
            .filter_map(|message| match message {
                Message::Tool(answer) => Some(answer.tool.clone()),
                _ => None,
            })
            .collect();
        self.conversation = messages.into_iter().map(Kept::new).collect();
        self.turn = None;
        self.wants.clear();
    }

    /// Whether a turn is under way.
    #[must_use]
    pub const fn is_busy(&self) -> bool {
        self.turn.is_some()
    }

    /// When the turn that is under way has used up its time, unless a person is waited for.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        let turn = self
            .turn
            .as_ref()
            .filter(|turn| turn.waits_since.is_none())?;
        let time = self.settings.budget.time?;
        Some(turn.started + turn.waited + time)
    }

    /// Takes in what happened, at a time since the conversation began.
    pub fn handle(&mut self, event: Event, now: Duration) {
        match event {
            Event::Said(text) if self.turn.is_none() => self.begin(text, now),
            Event::Said(_) => {}
            Event::Replied(reply) => self.replied(reply, now),
            Event::Failed { trouble, said } => self.failed(trouble, said),
            Event::Decided { number, verdict } => {
                if let Some(turn) = &mut self.turn {
                    if let Some(since) = turn.waits_since.take() {
                        turn.waited += now.saturating_sub(since);
                    }
                    if verdict == Verdict::Always
                        && let Some(tool) = turn.calls.tool(number)
                    {
                        self.agreed.insert(tool.to_owned());
                    }
                    turn.calls.decide(number, verdict);
                }
                self.advance(now);
            }
            Event::Answered { number, outcome } => {
                let (most, sees) = (self.settings.answer_chars, self.settings.sees);
                if let Some(turn) = &mut self.turn {
                    turn.calls.answer(number, outcome, most, sees);
                }
                self.advance(now);
            }
            Event::Stopped { said } => self.stop(said, End::Stopped),
            Event::Late { said } => self.stop(said, End::Spent(Spent::Time)),
        }
    }

    /// What is to be done next; nothing as long as something is waited for.
    pub fn poll(&mut self) -> Option<Want> {
        self.wants.pop_front()
    }

    fn begin(&mut self, text: String, now: Duration) {
        let begins = self.conversation.len();
        self.conversation
            .push(Kept::new(Message::User(text.clone())));
        self.turn = Some(Turn {
            question: text,
            started: now,
            waited: Duration::ZERO,
            waits_since: None,
            rounds: 0,
            usage: Usage::default(),
            retries: 0,
            is_nudged: false,
            concludes: false,
            told_chosen: false,
            estimate: 0,
            calls: Calls::default(),
            made: Vec::new(),
            begins,
        });
        if self.takes_tools && !self.settings.takes_tools && !self.tools.all().is_empty() {
            self.go_on_without_tools();
        }
        self.ask();
    }

    /// Asks the model.
    fn ask(&mut self) {
        let offer = self.offer();
        let Some(turn) = &mut self.turn else { return };
        if let Some((shown, of)) = offer.chosen.filter(|_| !turn.told_chosen) {
            turn.told_chosen = true;
            self.wants.push_back(Want::Tell(Note::Chosen { shown, of }));
        }
        let context = &self.settings.context;
        let tools: usize = offer.tools.iter().map(|tool| tool.tokens()).sum();
        let tools = self.scale.of(tools);
        let free = context
            .most
            .saturating_sub(context.answer.saturating_add(tools));
        // Estimates are compared with estimates.
        let scale = self.scale.of(1_000).max(1);
        let room = free.saturating_mul(1_000) / scale;
        let assembled = assembled(&offer.system, &self.conversation, room);
        if !assembled.left_out.is_nothing() {
            self.wants
                .push_back(Want::Tell(Note::LeftOut(assembled.left_out)));
        }
        if assembled.estimate > room {
            self.wants.push_back(Want::Tell(Note::TooLong));
        }
        let estimate = assembled.estimate + tools * 1_000 / scale;
        let needed = self.scale.of(estimate).saturating_add(context.answer);
        self.room = step(needed, self.room, context.most);
        turn.estimate = estimate;
        self.wants.push_back(Want::Ask(Box::new(Request {
            messages: assembled.messages,
            tools: offer.tools,
            context: self.room,
            estimate,
        })));
    }

    fn go_on_without_tools(&mut self) {
        self.takes_tools = false;
        self.wants.push_back(Want::Tell(Note::NoTools));
    }

    fn failed(&mut self, trouble: Trouble, said: String) {
        let Some(turn) = &mut self.turn else { return };
        if trouble == Trouble::NoTools && self.takes_tools {
            self.go_on_without_tools();
            return self.ask();
        }
        let said = Split::of(&said).answer();
        // What the person has seen already is not said again.
        if trouble.may_pass() && turn.retries < RETRIES && said.trim().is_empty() {
            turn.retries += 1;
            self.wants.push_back(Want::Tell(Note::Again(trouble)));
            return self.ask();
        }
        self.keep_said(said);
        self.finish(End::Failed(trouble));
    }

    fn stop(&mut self, said: String, how: End) {
        let Some(turn) = &mut self.turn else { return };
        // Every call that a model has made is answered, or no model takes the conversation any more.
        let stopped = turn.calls.stop();
        turn.made.extend(stopped.made);
        for answer in stopped.answers {
            self.conversation.push(Kept::new(Message::Tool(answer)));
        }
        self.wants.clear();
        self.keep_said(Split::of(&said).answer());
        self.finish(how);
    }

    fn keep_said(&mut self, said: String) {
        if !said.trim().is_empty() {
            let (text, calls) = (said, Vec::new());
            self.conversation
                .push(Kept::new(Message::Assistant { text, calls }));
        }
    }

    fn finish(&mut self, how: End) {
        let Some(turn) = self.turn.take() else { return };
        let said = self.conversation[turn.begins..].iter().rev();
        let text = said
            .map(|kept| &kept.message)
            .find_map(|message| match message {
                Message::Assistant { text, calls } if calls.is_empty() => Some(text.clone()),
                _ => None,
            })
            .unwrap_or_default();
        let price = self.settings.price;
        self.wants.push_back(Want::End(Box::new(Ending {
            how,
            text,
            usage: turn.usage,
            cost: price.map(|price| price.of(turn.usage.input, turn.usage.output)),
            rounds: turn.rounds,
            calls: turn.made,
        })));
    }
}

/// What a call came to for the model.
fn answer_of(call: &Call, text: String, is_error: bool) -> Answer {
    Answer {
        call: call.id.clone(),
        tool: call.tool.clone(),
        text,
        images: Vec::new(),
        is_error,
    }
}
