//! Tools and faces for tests.

use std::{
    collections::BTreeMap,
    future::ready,
    pin::Pin,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use orchestra_chat::{
    Backend, BoxFuture, Chat, Described, Due, Ending, Face, Image, Nature, Note, Outcome, Parts,
    Piece, Request, Settings, Stopper, Toolbox, Tools, Verdict, session::Recorder, turn,
};
use serde_json::{Value, json};

/// The tools that all tests know.
pub(crate) fn tools() -> Tools {
    let tool = |name: &str, description: &str, nature, schema: Value| Described {
        name: name.to_owned(),
        description: description.to_owned(),
        schema,
        lean: None,
        server: name.split_once("__").map(|(server, _)| server.to_owned()),
        nature,
    };
    let object = |properties: Value, required: &[&str]| json!({"type": "object", "properties": properties, "required": required});
    let text = json!({"type": "string"});
    Tools::new([
        tool(
            "get_weather",
            "Tells the weather of a city.",
            Nature::Reads,
            object(
                json!({"city": text, "days": {"type": "integer", "minimum": 1},
                    "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}}),
                &["city"],
            ),
        ),
        tool(
            "search_web",
            "Searches the web.",
            Nature::Reads,
            object(
                json!({"query": text, "limit": {"type": "integer"}}),
                &["query"],
            ),
        ),
        tool(
            "create_task",
            "Creates a task.",
            Nature::Changes,
            object(
                json!({"title": text, "priority": {"type": "string", "enum": ["low", "medium", "high"]},
                    "tags": {"type": "array", "items": text}, "done": {"type": "boolean"}}),
                &["title"],
            ),
        ),
        tool(
            "read_file",
            "Reads a file.",
            Nature::Reads,
            object(
                json!({"path": text, "start": {"type": "integer"}, "end": {"type": "integer"}}),
                &["path"],
            ),
        ),
        tool(
            "send_email",
            "Sends an email.",
            Nature::Changes,
            object(
                json!({"to": {"type": "array", "items": text}, "subject": text, "body": text}),
                &["to", "subject", "body"],
            ),
        ),
        tool(
            "calculate",
            "Calculates with two numbers.",
            Nature::Reads,
            object(
                json!({"a": {"type": "number"}, "b": {"type": "number"},
                    "operator": {"type": "string", "enum": ["+", "-", "*", "/"]}}),
                &["a", "b", "operator"],
            ),
        ),
        tool(
            "list_issues",
            "Lists the issues.",
            Nature::Reads,
            object(json!({}), &[]),
        ),
        tool(
            "weather__get-alerts",
            "Tells weather alerts of a state.",
            Nature::Reads,
            object(
                json!({"state": {"type": "string", "minLength": 2, "maxLength": 2}}),
                &["state"],
            ),
        ),
        tool(
            "lookup_order",
            "Looks an order up.",
            Nature::Reads,
            object(json!({"order_id": text}), &["order_id"]),
        ),
        tool(
            "move_robot",
            "Moves the robot.",
            Nature::Changes,
            object(
                json!({"position": object(json!({"x": {"type": "number"}, "y": {"type": "number"}}), &["x", "y"]),
                    "speed": {"type": "number"}}),
                &["position"],
            ),
        ),
    ])
}

/// Answers calls as it is told, and notes them.
#[derive(Clone, Default)]
pub(crate) struct Shelf {
    answers: Arc<Mutex<BTreeMap<String, Outcome>>>,
    pub(crate) called: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Shelf {
    /// Answers a tool so; those that nobody said anything of answer `done`.
    pub(crate) fn answer(&self, tool: &str, outcome: Outcome) {
        self.answers
            .lock()
            .unwrap()
            .insert(tool.to_owned(), outcome);
    }

    pub(crate) fn called(&self) -> Vec<(String, Value)> {
        self.called.lock().unwrap().clone()
    }
}

/// A result in words.
pub(crate) fn answered(text: &str) -> Outcome {
    Outcome::Answered {
        text: text.to_owned(),
        images: Vec::new(),
        is_error: false,
    }
}

/// A result with an image.
pub(crate) fn pictured(text: &str) -> Outcome {
    Outcome::Answered {
        text: text.to_owned(),
        images: vec![Image {
            mime: "image/png".to_owned(),
            data: "iVBORw0KGgo=".to_owned(),
        }],
        is_error: false,
    }
}

impl Toolbox for Shelf {
    fn call(&self, due: Due) -> BoxFuture<Outcome> {
        let arguments = Value::Object(due.call.arguments);
        let tool = due.call.tool;
        self.called.lock().unwrap().push((tool.clone(), arguments));
        let outcome = self.answers.lock().unwrap().get(&tool).cloned();
        match outcome {
            // It hangs.
            Some(Outcome::Broken(why)) if why == "hangs" => Box::pin(std::future::pending()),
            Some(Outcome::Broken(why)) if why == "panics" => {
                Box::pin(async { panic!("as it was told") })
            }
            Some(outcome) => Box::pin(ready(outcome)),
            None => Box::pin(ready(answered("done"))),
        }
    }
}

/// Notes what it is shown, and decides as it is told.
#[derive(Default)]
pub(crate) struct Watcher {
    pub(crate) text: String,
    pub(crate) thinking: String,
    pub(crate) notes: Vec<Note>,
    pub(crate) asked: usize,
    pub(crate) verdicts: Vec<Verdict>,
    pub(crate) decided: Vec<Due>,
}

impl Face for Watcher {
    fn asked(&mut self, _request: &Request) {
        self.asked += 1;
    }

    fn says(&mut self, piece: &Piece) {
        match piece {
            Piece::Text(text) => self.text.push_str(text),
            Piece::Thinking(text) => self.thinking.push_str(text),
        }
    }

    fn notes(&mut self, note: &Note) {
        self.notes.push(note.clone());
    }

    fn decides<'f>(
        &'f mut self,
        due: &'f Due,
    ) -> Pin<Box<dyn Future<Output = Verdict> + Send + 'f>> {
        self.decided.push(due.clone());
        let verdict = match self.verdicts.is_empty() {
            true => Verdict::No,
            false => self.verdicts.remove(0),
        };
        Box::pin(ready(verdict))
    }
}

/// A conversation of a test.
pub(crate) struct Held {
    pub(crate) chat: Chat,
    pub(crate) shelf: Shelf,
    pub(crate) face: Watcher,
    pub(crate) stopper: Stopper,
    pub(crate) record: Option<Recorder>,
    began: Instant,
}

impl Held {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            chat: Chat::new(settings, tools()),
            shelf: Shelf::default(),
            face: Watcher::default(),
            stopper: Stopper::default(),
            record: None,
            began: Instant::now(),
        }
    }

    pub(crate) async fn say(&mut self, backend: &dyn Backend, text: &str) -> Ending {
        let stop = self.stopper.next();
        let mut parts = Parts {
            backend,
            toolbox: &self.shelf,
            face: &mut self.face,
            record: &mut self.record,
            began: self.began,
        };
        let turning = turn(&mut self.chat, text.to_owned(), &mut parts, stop);
        let ended = tokio::time::timeout(Duration::from_secs(60), turning).await;
        ended.expect("a turn ends")
    }
}

/// What was recorded of the tools that all tests know.
pub(crate) fn note_tools(record: &mut Option<Recorder>) {
    orchestra_chat::Record::tools(record, &tools());
}
