//! What a face asks of a provider: the target and the context of one call.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, OnceLock},
    time::Instant,
};

use orchestra_wire::{Era, RawJson, Revision};

use crate::{Along, CallEnd, CancelSignal, CancelSource, ListKind, LogLevel, SkillQuery};

/// One call, owned.
#[derive(Debug, Clone)]
pub struct Request {
    /// What is called.
    pub target: Target,
    /// The circumstances of the call.
    pub cx: Cx,
}

/// What is called.
#[derive(Debug, Clone)]
pub enum Target {
    /// `tools/call`.
    Tool {
        /// Tool name.
        name: String,
        /// The arguments: a JSON object.
        arguments: RawJson,
    },
    /// `prompts/get`.
    Prompt {
        /// Prompt name.
        name: String,
        /// Arguments by name.
        arguments: BTreeMap<String, String>,
    },
    /// `resources/read`.
    Resource {
        /// URI.
        uri: String,
    },
    /// `completion/complete`.
    Complete {
        /// What is completed.
        reference: CompletionRef,
        /// Name of the argument.
        argument: String,
        /// What the user typed so far.
        value: String,
        /// Arguments that are already known.
        context: BTreeMap<String, String>,
    },
    /// `skills/list`, `skills/get` and `resources/directory/read`. The hub answers from the
    /// catalogs; no provider is asked.
    Skills(SkillQuery),
    /// A list, where a provider may have to be waited for that does not know yet what it offers.
    /// The hub answers.
    List {
        /// Which list.
        kind: ListKind,
        /// In the form of which revision.
        revision: Revision,
        /// The first item.
        start: usize,
        /// How many at most.
        limit: usize,
    },
    /// A method the hub does not know.
    Raw {
        /// Method.
        method: String,
        /// Parameters, verbatim.
        params: Option<RawJson>,
    },
}

/// What a completion request refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompletionRef {
    /// A prompt, by name.
    Prompt(String),
    /// A resource template, by URI template.
    Resource(String),
}

/// The circumstances of one call.
#[derive(Debug, Clone, Default)]
pub struct Cx {
    /// When the caller stops waiting.
    pub deadline: Option<Instant>,
    /// Fires when the caller cancels.
    pub cancel: CancelSignal,
    /// Where progress goes; drops it when nobody asked.
    pub progress: ProgressSink,
    /// Who calls.
    pub caller: Caller,
    /// The caller's place at the hub, as a number: two calls of one connection have the same. The
    /// hub sets it; 0 where there is no hub.
    pub connection: u64,
    /// Number of changes of the roots of the client that it has notified. The hub sets it with
    /// [`connection`](Self::connection).
    pub roots_version: u64,
    /// The least severe log messages of this call that its client wants; `None` when none.
    pub log_level: Option<LogLevel>,
    /// What goes along with it to whoever answers it.
    pub along: Along,
    /// In which era the client speaks; `None` where it speaks no MCP.
    pub era: Option<Era>,
    /// What the client can be asked for with `InputRequired`.
    pub features: ClientFeatures,
    /// The client's answers, when the call is repeated after `InputRequired`.
    pub answers: Option<Answers>,
    /// W3C `traceparent`, if the caller sent one.
    pub trace: Option<String>,
    /// All parameters as they came, where some of them, or of their `_meta`, are unknown: for a
    /// provider that passes them on.
    pub params: Option<RawJson>,
    /// Where a provider that [makes remarks](crate::Provider::makes_remarks) says more of the call
    /// for its record.
    pub remark: Remark,
    /// Whether the call may go on after its request was answered; only for a tool whose descriptor
    /// says so. It has until [`HubConfig::long_deadline`](crate::HubConfig::long_deadline).
    pub long: bool,
    /// How its provider says that it goes on for long; where that can be said.
    pub later: Option<Later>,
}

/// Says that a call goes on for long, so that its caller need not wait for it.
#[derive(Debug, Clone, Default)]
pub struct Later(CancelSource);

impl Later {
    /// It does.
    pub fn begin(&self) {
        self.0.cancel();
    }

    /// Waits until it does.
    pub async fn begun(&self) {
        self.0.signal().cancelled().await;
    }
}

/// What a provider adds to the record of a call; once, before it answers.
#[derive(Debug, Clone, Default)]
pub struct Remark(Option<Arc<OnceLock<Said>>>);

/// How a call is to be counted, and what is said of it.
type Said = (Option<CallEnd>, String);

impl Remark {
    pub(crate) fn new() -> Self {
        Self(Some(Arc::default()))
    }

    /// Says something of the call, and how it is to be counted where that cannot be seen from the
    /// answer: as a result of a tool that a model can read, or was not its fault.
    pub fn set(&self, end: Option<CallEnd>, text: impl Into<String>) {
        if let Some(slot) = &self.0 {
            let _ = slot.set((end, text.into()));
        }
    }

    pub(crate) fn said(&self) -> Option<&Said> {
        self.0.as_ref()?.get()
    }
}

/// Who calls, as far as the face knows. Never a proof of identity.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Caller {
    /// The face, for instance `stdio`.
    pub face: &'static str,
    /// The client's own name, as it says.
    pub client: Option<Arc<str>>,
}

/// What a client can be asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientFeatures {
    /// A form for its user to fill in.
    pub elicitation: bool,
    /// A page for its user to visit.
    pub elicitation_url: bool,
    /// A message of its model.
    pub sampling: bool,
    /// A message of its model, which may call tools that the request brings.
    pub sampling_tools: bool,
    /// The directories it works in.
    pub roots: bool,
}

impl ClientFeatures {
    /// Whether it can be asked for anything.
    #[must_use]
    pub const fn any(self) -> bool {
        let Self {
            elicitation,
            elicitation_url,
            sampling,
            sampling_tools: _,
            roots,
        } = self;
        elicitation || elicitation_url || sampling || roots
    }

    /// What both can be asked for.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            elicitation: self.elicitation && other.elicitation,
            elicitation_url: self.elicitation_url && other.elicitation_url,
            sampling: self.sampling && other.sampling,
            sampling_tools: self.sampling_tools && other.sampling_tools,
            roots: self.roots && other.roots,
        }
    }
}

/// The client's answers to an earlier [`InputRequired`](crate::InputRequired).
#[derive(Debug, Clone)]
pub struct Answers {
    /// `inputResponses`: a JSON object from key to result.
    pub responses: RawJson,
    /// The state the provider gave.
    pub state: Option<String>,
}

/// Where a call reports progress and log messages.
#[derive(Clone, Default)]
pub struct ProgressSink(Option<Arc<dyn ProgressListener>>);

/// Receives what a call reports while it runs.
pub trait ProgressListener: Send + Sync {
    /// `progress` of `total`, with a message for people.
    fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>);
    /// A log message.
    fn log(&self, level: LogLevel, logger: Option<&str>, data: &RawJson);
    /// Whether progress goes anywhere, so that whoever is asked on the caller's behalf is asked for
    /// it.
    fn wants_progress(&self) -> bool {
        true
    }
}

impl ProgressSink {
    /// A sink that feeds `listener`.
    #[must_use]
    pub fn new(listener: Arc<dyn ProgressListener>) -> Self {
        Self(Some(listener))
    }

    /// Whether anybody asked for anything.
    #[must_use]
    pub const fn is_wanted(&self) -> bool {
        self.0.is_some()
    }

    /// Whether anybody asked for progress.
    #[must_use]
    pub fn wants_progress(&self) -> bool {
        self.0
            .as_ref()
            .is_some_and(|listener| listener.wants_progress())
    }

    /// Reports progress; nothing happens when nobody asked.
    pub fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        if let Some(listener) = &self.0 {
            listener.progress(progress, total, message);
        }
    }

    /// Reports a log message; nothing happens when nobody asked.
    pub fn log(&self, level: LogLevel, logger: Option<&str>, data: &RawJson) {
        if let Some(listener) = &self.0 {
            listener.log(level, logger, data);
        }
    }
}

impl fmt::Debug for ProgressSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProgressSink")
            .field(&self.0.is_some())
            .finish()
    }
}
