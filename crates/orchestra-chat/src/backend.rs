//! Servers of models, all asked in the same way.
//!
//! They are asked over HTTP directly, as their documents say. Of the client crates there are, `ollama-rs` drops a
//! piece of an answer that ends within a letter and prints what it cannot read, `genai` has no room for the size of a
//! context nor for the name of the tool that answered, `async-openai` refuses answers of servers that leave a field
//! out; and none of them bounds what a server may send.

mod lines;
mod ollama;
mod openai;
mod parts;
mod scripted;

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::sync::mpsc;

pub use ollama::Ollama;
pub use openai::OpenAi;
pub use scripted::{Script, ScriptError, Scripted};

use crate::{
    request::{Piece, Reply, Request, Trouble},
    tool::Tool,
};
use orchestra_remote::{Fault, Limits};

/// A future that owns what it needs.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send + 'static>>;

/// What a server knows of its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct About {
    /// How many tokens it can be given at once.
    pub context: Option<usize>,
    /// Whether it can be given tools, where that is known.
    pub takes_tools: Option<bool>,
    /// Whether it can be given images.
    pub sees: bool,
}

/// How long a server may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Until its answer begins: a model may have to be loaded first.
    pub first: Duration,
    /// Until more of it comes.
    pub next: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(300),
            next: Duration::from_secs(120),
        }
    }
}

/// How a model is asked, whatever it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Manner {
    /// How long its server may take.
    pub patience: Patience,
    /// How much chance there is in what it says, where not as is usual there.
    pub temperature: Option<f64>,
    /// The number that its chance begins with.
    pub seed: Option<u64>,
}

/// Tools, as both kinds of servers take them.
fn offered(tools: &[Arc<Tool>]) -> Value {
    let tools = tools.iter().map(|tool| {
        json!({"type": "function", "function": {
            "name": tool.shown(), "description": tool.description(), "parameters": tool.schema(),
        }})
    });
    Value::Array(tools.collect())
}

/// How long a server may take to say what it has: no model computes then.
const FACTS: Duration = Duration::from_secs(10);

impl Manner {
    /// For what is no answer of a model.
    fn brief(&self) -> Limits {
        Limits {
            first: self.patience.first.min(FACTS),
            next: self.patience.next.min(FACTS),
        }
    }

    const fn limits(&self) -> Limits {
        Limits {
            first: self.patience.first,
            next: self.patience.next,
        }
    }
}

/// An answer that did not come, or not whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// Why.
    pub trouble: Trouble,
    /// What the model had said until then.
    pub said: String,
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Self {
        Self {
            trouble,
            said: String::new(),
        }
    }
}

/// A server of a model.
pub trait Backend: Send + Sync + 'static {
    /// What it is called: `ollama`, `openai` or `scripted`.
    fn name(&self) -> &'static str;

    /// The model.
    fn model(&self) -> &str;

    /// What is known of the model; asked once, before anything else.
    fn about(&self) -> BoxFuture<Result<About, Trouble>>;

    /// The models that there are.
    fn models(&self) -> BoxFuture<Result<Vec<String>, Trouble>>;

    /// Asks the model; what it says is sent on as it comes. Dropping the future ends it.
    fn ask(
        &self,
        request: Request,
        pieces: mpsc::Sender<Piece>,
    ) -> BoxFuture<Result<Reply, Failure>>;
}

/// The longest answer that is read, in bytes.
const MAX_ANSWER: usize = 16 * 1024 * 1024;

/// The longest line of one.
const MAX_LINE: usize = 4 * 1024 * 1024;

/// Calls of one answer that are read; more are nobody's.
const MAX_CALLS: usize = 128;

/// Returns whether a request with this status may succeed later.
const fn is_transient(status: u16) -> bool {
    matches!(status, 408 | 429 | 500 | 502..=504)
}

/// What a fault of a server is to a conversation.
fn trouble_of(fault: Fault) -> Trouble {
    match fault {
        Fault::Unreachable(what) => Trouble::Unreachable { what },
        Fault::Late(after) => Trouble::Slow { after },
        Fault::Broken(what) => Trouble::Cut { what },
        Fault::Refused { status, said } if is_transient(status) => Trouble::Busy {
            what: format!("{status}: {said}"),
        },
        Fault::Refused { status, said } => Trouble::Refused { status, said },
        fault @ (Fault::TooLong(_) | Fault::Compressed(_)) => Trouble::Odd {
            what: fault.to_string(),
        },
    }
}
