//! One conversation: what was said, the model, the tools, and where it is kept.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use orchestra_chat::{
    About, Approval, Budget, Chat, Context, Ending, Face, Message, Parts, Price, Settings, Stopper,
    Tools,
    session::{Recorder, Session, SessionError},
    turn,
};

use super::{
    Talk,
    files::{Begun, Keep},
    model::{Model, NoModel, Source},
    room::{Room, RoomTools},
};
use crate::{
    config::{Config, USUAL_CONTEXT},
    exit::Failure,
    output,
};

/// How much where nobody knows how much it can be given.
const UNKNOWN_CONTEXT: usize = 16_384;

/// The longest text that a model is told first.
const MAX_SYSTEM_BYTES: u64 = 64 * 1024;

/// How a conversation is held.
#[derive(Debug, Clone)]
pub(super) struct Manner {
    approval: Approval,
    budget: Budget,
    price: Option<Price>,
    context: Option<usize>,
    pub(super) system: Option<String>,
    /// The project whose memory each turn becomes.
    pub(super) remember: Option<String>,
}

impl Manner {
    /// As flags and files say.
    ///
    /// # Errors
    /// When a number is none that there can be, or the file of the system's text cannot be read.
    pub(super) fn of(
        config: &Config,
        arguments: &Talk,
        approval: Approval,
    ) -> Result<Self, Failure> {
        let chat = &config.chat;
        let some = |number: u64| (number > 0).then_some(number);
        let cost = arguments.max_cost.unwrap_or(chat.cost.value);
        if !cost.is_finite() || cost < 0.0 {
            return Err(Failure::usage_text("--max-cost: expected is 0 or more"));
        }
        let cost = (cost > 0.0).then_some(cost);
        let price = Price {
            input: chat.price_input.value,
            output: chat.price_output.value,
        };
        let price = (price.input > 0.0 || price.output > 0.0).then_some(price);
        if arguments.max_cost.is_some() && cost.is_some() && price.is_none() {
            return Err(Failure::usage_text(
                "--max-cost needs prices: chat.price_input and chat.price_output of your orchestra.toml",
            ));
        }
        if arguments
            .temperature
            .is_some_and(|temperature| !(0.0..=2.0).contains(&temperature))
        {
            return Err(Failure::usage_text("--temperature: expected is 0 to 2"));
        }
        if arguments.query.iter().any(|query| query.trim().is_empty()) {
            return Err(Failure::usage_text("--query: the query is empty"));
        }
        let rounds = arguments
            .max_turns
            .map(u64::from)
            .unwrap_or(chat.turns.value);
        let context = arguments
            .context
            .or_else(|| usize::try_from(chat.context.value).ok())
            .filter(|tokens| *tokens > 0);
        if context.is_some_and(|tokens| tokens < Context::LEAST) {
            return Err(Failure::usage_text(format!(
                "--context: expected are {} tokens or more",
                Context::LEAST
            )));
        }
        Ok(Self {
            approval,
            budget: Budget {
                rounds: u32::try_from(rounds).unwrap_or(u32::MAX),
                tokens: some(arguments.max_tokens.unwrap_or(chat.tokens.value)),
                time: some(arguments.max_seconds.unwrap_or(chat.seconds.value))
                    .map(Duration::from_secs),
                cost,
            },
            price,
            context,
            system: match &arguments.system {
                Some(path) => Some(system(path)?),
                None => chat.system.value.clone(),
            },
            remember: arguments.remember.clone(),
        })
    }

    /// The same for a model of which so much is known.
    pub(super) fn settings(&self, about: &About) -> Settings {
        let most = match (self.context, about.context) {
            (Some(wanted), Some(can)) => wanted.min(can),
            (Some(wanted), None) => wanted,
            (None, Some(can)) => can.min(USUAL_CONTEXT),
            (None, None) => UNKNOWN_CONTEXT,
        };
        let usual = Settings::default();
        Settings {
            system: self.system.clone().unwrap_or(usual.system),
            approval: self.approval,
            budget: self.budget,
            price: self.price,
            context: Context::of(most),
            sees: about.sees,
            takes_tools: about.takes_tools != Some(false),
            ..usual
        }
    }
}

fn system(path: &Path) -> Result<String, Failure> {
    let read = || {
        let size = fs::metadata(path)?.len();
        if size > MAX_SYSTEM_BYTES {
            anyhow::bail!("it has {size} bytes, more than the limit of {MAX_SYSTEM_BYTES}");
        }
        Ok(fs::read_to_string(path)?)
    };
    let read: anyhow::Result<String> = read();
    read.with_context(|| format!("--system {}", path.display()))
        .map_err(Failure::usage)
}

/// A conversation that is held.
pub(super) struct Conversation<'r> {
    pub(super) room: &'r Room,
    pub(super) source: Source,
    pub(super) manner: Manner,
    pub(super) chat: Chat,
    pub(super) model: Option<Model>,
    /// What was begun last, for a turn that is saved.
    pub(super) last: Option<(String, String)>,
    pub(super) record: Option<Recorder>,
    keep: Keep,
    tools: RoomTools<'r>,
    began: Instant,
}

impl<'r> Conversation<'r> {
    /// One in which nothing was said, or what was kept of another.
    ///
    /// # Errors
    /// When what was kept cannot be read.
    pub(super) fn new(
        room: &'r Room,
        source: Source,
        manner: Manner,
        keep: Keep,
    ) -> Result<Self, Failure> {
        let mut chat = Chat::new(manner.settings(&About::default()), Tools::default());
        if let Some(messages) = keep.messages() {
            chat.restore(messages);
        }
        Ok(Self {
            room,
            source,
            manner,
            chat,
            model: None,
            last: None,
            record: None,
            keep,
            tools: room.toolbox(),
            began: Instant::now(),
        })
    }

    /// Asks for the model, where that was not done yet.
    ///
    /// # Errors
    /// When there is none, or its server does not answer.
    pub(super) async fn open(&mut self) -> Result<(), NoModel> {
        if self.model.is_none() {
            let model = self.source.open().await?;
            self.take(model);
        }
        Ok(())
    }

    /// Talks to this model from now on.
    pub(super) fn take(&mut self, model: Model) {
        let settings = self.manner.settings(&model.about);
        self.chat.set(settings, true);
        if let Some(record) = &mut self.record {
            record.model(model.backend.name(), model.backend.model());
            record.settings(self.chat.settings());
        }
        self.model = Some(model);
    }

    /// Begins to keep it, with what is known by now.
    fn keep(&mut self) -> Result<(), SessionError> {
        if self.record.is_some() {
            return Ok(());
        }
        let Some(model) = &self.model else {
            return Ok(());
        };
        let begun = Begun {
            backend: model.backend.name(),
            model: model.backend.model(),
            chat: &self.chat,
        };
        self.record = self.keep.begin(&begun)?;
        Ok(())
    }

    /// Says something, and waits for what it comes to.
    ///
    /// # Errors
    /// When there is no model.
    pub(super) async fn say(
        &mut self,
        text: &str,
        face: &mut dyn Face,
        stopper: &Stopper,
    ) -> Result<Ending, NoModel> {
        let stop = stopper.next();
        self.open().await?;
        if let Err(error) = self.keep() {
            let why = format!("{:#}", anyhow::Error::new(error));
            if self.keep.is_named() {
                return Err(NoModel::Wrong(why));
            }
            output::complain(&format!("this conversation is not stored: {why}"));
            self.keep = Keep::Nothing;
        }
        let Some(model) = self.model.clone() else {
            return Err(NoModel::Wrong("there is no model".to_owned()));
        };
        let mut parts = Parts {
            backend: &*model.backend,
            toolbox: &self.tools,
            face,
            record: &mut self.record,
            began: self.began,
        };
        let ending = turn(&mut self.chat, text.to_owned(), &mut parts, stop).await;
        if let Some(error) = self.record.as_mut().and_then(Recorder::take_failure) {
            output::complain(&format!("{:#}", anyhow::Error::new(error)));
        }
        self.last = Some((text.to_owned(), ending.text.clone()));
        Ok(ending)
    }

    /// Where it is kept, where that has begun.
    pub(super) fn path(&self) -> Option<&Path> {
        match (&self.record, &self.keep) {
            (Some(record), _) => Some(record.path()),
            (None, Keep::Old { session, .. }) => Some(session.path()),
            _ => None,
        }
    }

    /// Where others of the workspace are kept.
    pub(super) fn directory(&self) -> Option<&Path> {
        self.keep.directory()
    }

    /// How often something was said.
    pub(super) fn turns(&self) -> usize {
        let is_said = |message: &&Message| matches!(message, Message::User(_));
        self.chat.messages().filter(is_said).count()
    }

    /// Tells the model something else first from now on.
    pub(super) fn tell(&mut self, system: &str) {
        self.manner.system = Some(system.to_owned());
        let settings = Settings {
            system: system.to_owned(),
            ..self.chat.settings().clone()
        };
        self.chat.set(settings, false);
        if let Some(record) = &mut self.record {
            record.settings(self.chat.settings());
        }
    }

    /// Goes on in another conversation with the first turns of one, which is kept from now on.
    ///
    /// # Errors
    /// When it cannot be.
    pub(super) fn branch(&mut self, of: &Session, turns: usize) -> Result<(), String> {
        self.chat.restore(of.messages_of(turns));
        self.record = None;
        self.last = None;
        self.keep = self
            .keep
            .directory()
            .map_or(Keep::Nothing, |directory| Keep::Branch {
                of: of.header().id.clone(),
                directory: directory.to_owned(),
            });
        self.keep()
            .map_err(|error| format!("it is not stored: {:#}", anyhow::Error::new(error)))
    }

    /// Forgets what was said; what is said from now on is another conversation.
    pub(super) fn clear(&mut self) {
        self.chat.restore(Vec::new());
        self.record = None;
        self.keep = self.keep.anew();
        self.last = None;
    }

    /// Goes on with another that was kept.
    pub(super) fn go_on(&mut self, keep: Keep) {
        self.chat.restore(keep.messages().unwrap_or_default());
        self.record = None;
        self.keep = keep;
        self.last = None;
    }
}
