//! A workbench: a fresh workspace, its store, and the provider over it. Whatever a tool answers is
//! checked against what it promises.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use orchestra_board::Timestamp;
use orchestra_hub::{
    Completion, CompletionRef, Content, Cx, Outcome, PromptResult, Provider, ProviderError,
    Request, ResourceResult, Target,
};
use orchestra_store::{Clock, Store};
use orchestra_tools::{Builtin, Options, TextFormat};
use orchestra_wire::RawJson;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A fresh workspace with a provider over it.
pub(crate) struct Bench {
    pub(crate) directory: TempDir,
    pub(crate) builtin: Builtin,
    pub(crate) clock: Arc<SetClock>,
    /// The tools that have done their work.
    pub(crate) worked: Mutex<BTreeSet<String>>,
    schemas: BTreeMap<String, jsonschema::Validator>,
    text: TextFormat,
}

/// A clock that tests set.
#[derive(Debug)]
pub(crate) struct SetClock(std::sync::atomic::AtomicI64);

impl SetClock {
    pub(crate) fn advance(&self, seconds: i64) {
        self.0
            .fetch_add(seconds, std::sync::atomic::Ordering::SeqCst);
    }
}

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_seconds(self.0.load(std::sync::atomic::Ordering::SeqCst))
    }
}

/// What a tool answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) value: Value,
    pub(crate) is_error: bool,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with(Options::default())
    }

    pub(crate) fn toon() -> Self {
        Self::with(Options {
            text: TextFormat::Toon,
            ..Options::default()
        })
    }

    pub(crate) fn with(options: Options) -> Self {
        Self::at(tempfile::tempdir().unwrap(), options)
    }

    /// A workbench in a directory that was there before.
    pub(crate) fn at(directory: TempDir, options: Options) -> Self {
        // 2026-02-14T13:55:45Z
        let clock = Arc::new(SetClock(1_771_077_345.into()));
        let store_options = orchestra_store::Options {
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            watch: false,
            sweep: false,
            // The readable files are the store's own affair and tested there.
            flush: false,
            ..orchestra_store::Options::default()
        };
        let store = Store::open(directory.path(), store_options).unwrap();
        let text = options.text;
        let builtin = Builtin::new(store, options);
        let mut schemas = BTreeMap::new();
        for tool in &builtin.catalog().borrow().tools {
            let schema: Value = tool.output_schema.as_ref().unwrap().parse().unwrap();
            schemas.insert(
                tool.name.clone(),
                jsonschema::draft202012::new(&schema).unwrap(),
            );
        }
        Self {
            directory,
            builtin,
            clock,
            worked: Mutex::default(),
            schemas,
            text,
        }
    }

    /// A workbench with project `my-app`, epic `MA-1` and story `MA-2`.
    pub(crate) async fn with_story() -> Self {
        let bench = Self::new();
        bench.ok("create_project", json!({"name": "My App"})).await;
        let epic = json!({"project": "my-app", "title": "Epic"});
        assert_eq!(bench.ok("create_epic", epic).await["id"], "MA-1");
        let story = json!({"project": "my-app", "epic_id": "MA-1", "title": "Story", "user_story": "As a user"});
        assert_eq!(bench.ok("create_story", story).await["id"], "MA-2");
        bench
    }

    /// Makes a task in story `MA-2` and says its id.
    pub(crate) async fn task(&self, title: &str) -> String {
        self.task_in("MA-2", title).await
    }

    /// Makes a task in a story of `my-app` and says its id.
    pub(crate) async fn task_in(&self, story: &str, title: &str) -> String {
        let arguments =
            json!({"project": "my-app", "story_id": story, "title": title, "type": "task"});
        self.ok("create_task", arguments).await["id"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// Brings a fresh task of `my-app` from backlog to `state` along the shortest way.
    pub(crate) async fn bring(&self, id: &str, state: &str) {
        const HAPPY: [&str; 10] = [
            "backlog",
            "todo",
            "in-progress",
            "ready-for-testing",
            "in-testing",
            "ready-for-docs",
            "in-docs",
            "documented",
            "in-review",
            "done",
        ];
        let way: Vec<&str> = match state {
            "blocked" => vec!["todo", "in-progress", "blocked"],
            "cancelled" => vec!["cancelled"],
            "rejected" => HAPPY[1..9].iter().copied().chain(["rejected"]).collect(),
            state => {
                let end = HAPPY.iter().position(|known| *known == state).unwrap();
                HAPPY[1..=end].to_vec()
            }
        };
        for state in way {
            let evidence = "214 tests passed, 0 failed";
            let arguments =
                json!({"project": "my-app", "task_id": id, "status": state, "evidence": evidence});
            assert_eq!(self.ok("update_task", arguments).await["status"], state);
        }
    }

    /// A field of an issue's record.
    pub(crate) async fn field(&self, id: &str, field: &str) -> Value {
        for (tool, name) in [
            ("get_task", "task_id"),
            ("get_story", "story_id"),
            ("get_epic", "epic_id"),
        ] {
            let answer = self
                .call(tool, json!({"project": "my-app", name: id}))
                .await;
            if !answer.is_error {
                return answer.value[field].clone();
            }
        }
        panic!("no issue {id}");
    }

    /// The status of an issue.
    pub(crate) async fn status(&self, id: &str) -> String {
        self.field(id, "status").await.as_str().unwrap().to_owned()
    }

    pub(crate) async fn ask(&self, target: Target) -> Result<Outcome, ProviderError> {
        self.builtin
            .serve(Request {
                target,
                cx: Cx::default(),
            })
            .await
    }

    /// Calls a tool, whatever comes of it.
    pub(crate) async fn call(&self, name: &str, arguments: Value) -> Answer {
        let arguments = RawJson::of(&arguments).unwrap();
        let outcome = self
            .ask(Target::Tool {
                name: name.to_owned(),
                arguments,
            })
            .await
            .unwrap();
        let Outcome::Tool(result) = outcome else {
            panic!("{outcome:?}")
        };
        let [Content::Text(text)] = result.content.as_slice() else {
            panic!("{:?}", result.content)
        };
        let value = result
            .structured
            .as_ref()
            .map_or(Value::Null, |value| value.parse().unwrap());
        if !result.is_error {
            self.check(name, text, &value);
        }
        Answer {
            text: text.clone(),
            value,
            is_error: result.is_error,
        }
    }

    /// Holds a result against the tool's output schema.
    pub(crate) fn conforms(&self, name: &str, value: &Value) {
        if let Err(error) = self.schemas[name].validate(value) {
            panic!("{name} answers {value}, which its output schema refuses: {error}");
        }
    }

    /// Holds a result against the tool's output schema, and its text against both.
    fn check(&self, name: &str, text: &str, value: &Value) {
        self.conforms(name, value);
        match self.text {
            TextFormat::Json => assert_eq!(serde_json::to_string(value).unwrap(), *text),
            TextFormat::Toon => assert_ne!(serde_json::to_string(value).unwrap(), *text),
        }
        self.worked.lock().unwrap().insert(name.to_owned());
    }

    /// Calls a tool that works.
    pub(crate) async fn ok(&self, name: &str, arguments: Value) -> Value {
        let answer = self.call(name, arguments.clone()).await;
        assert!(!answer.is_error, "{name} {arguments}: {}", answer.text);
        answer.value
    }

    /// Calls a tool that refuses, and says why.
    pub(crate) async fn refused(&self, name: &str, arguments: Value) -> String {
        let answer = self.call(name, arguments.clone()).await;
        assert!(answer.is_error, "{name} {arguments}: {}", answer.text);
        assert_eq!(answer.value, Value::Null);
        answer.text
    }

    pub(crate) async fn prompt(
        &self,
        name: &str,
        arguments: &[(&str, &str)],
    ) -> Result<String, ProviderError> {
        let target = Target::Prompt {
            name: name.to_owned(),
            arguments: map(arguments),
        };
        let Outcome::Prompt(PromptResult { messages, .. }) = self.ask(target).await? else {
            panic!()
        };
        let messages: Value = messages.parse().unwrap();
        Ok(messages[0]["content"]["text"].as_str().unwrap().to_owned())
    }

    pub(crate) async fn resource(&self, uri: &str) -> Result<String, ProviderError> {
        let outcome = self
            .ask(Target::Resource {
                uri: uri.to_owned(),
            })
            .await?;
        let Outcome::Resource(ResourceResult { contents }) = outcome else {
            panic!()
        };
        assert_eq!(contents.len(), 1);
        assert_eq!(contents[0].uri, uri);
        Ok(contents[0].data.clone())
    }

    pub(crate) async fn complete(
        &self,
        reference: CompletionRef,
        argument: &str,
        value: &str,
        context: &[(&str, &str)],
    ) -> Result<Completion, ProviderError> {
        let (argument, value) = (argument.to_owned(), value.to_owned());
        let target = Target::Complete {
            reference,
            argument,
            value,
            context: map(context),
        };
        let Outcome::Completion(completion) = self.ask(target).await? else {
            panic!()
        };
        Ok(completion)
    }
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

/// Names a task of `my-app`.
pub(crate) fn task(id: &str) -> Value {
    json!({"project": "my-app", "task_id": id})
}

/// The ids of what is in a list.
pub(crate) fn ids(list: &Value) -> Vec<&str> {
    list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["id"].as_str().unwrap())
        .collect()
}
