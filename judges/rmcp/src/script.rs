//! A script: the steps a judge plays, and what it keeps between them.

use std::{
    collections::{BTreeMap, VecDeque},
    fs,
};

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;
use serde_json::Value;

/// Which catalog to look into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Listing {
    Tools,
    Prompts,
    Resources,
    Templates,
}

/// What an answer must hold, and what of it is kept for later steps.
#[derive(Debug, Default)]
struct Expectation {
    parts: Vec<String>,
    keep: BTreeMap<String, String>,
    refused: bool,
}

/// One thing to ask of the server.
#[derive(Debug)]
pub(crate) enum Step {
    List {
        list: Listing,
        has: Vec<String>,
    },
    Call {
        call: String,
        with: Value,
        raw: Value,
    },
    Prompt {
        prompt: String,
        with: Value,
        raw: Value,
    },
    Read {
        read: String,
        raw: Value,
    },
}

/// The steps that are left, and the texts kept so far.
#[derive(Debug)]
pub(crate) struct Script {
    steps: VecDeque<Value>,
    kept: BTreeMap<String, String>,
}

impl Script {
    /// Reads a script from its file.
    ///
    /// # Errors
    /// When the file cannot be read or holds no steps.
    pub(crate) fn read(path: &str) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("reading {path}"))?;
        let mut script: Value =
            serde_json::from_str(&text).with_context(|| format!("parsing {path}"))?;
        let Value::Array(steps) = script["steps"].take() else {
            bail!("{path} holds no steps");
        };
        Ok(Self {
            steps: steps.into(),
            kept: BTreeMap::new(),
        })
    }

    /// The next step, with what was kept filled in.
    ///
    /// # Errors
    /// When it is no step.
    pub(crate) fn next(&mut self) -> Result<Option<Step>> {
        let Some(mut raw) = self.steps.pop_front() else {
            return Ok(None);
        };
        self.fill(&mut raw);
        parse(raw).map(Some)
    }

    /// Holds an answer against what its step expects.
    ///
    /// # Errors
    /// When something else was expected.
    pub(crate) fn check(&mut self, step: &Step, answer: &Value) -> Result<()> {
        let expected = expectation(step)?;
        ensure!(
            answer["isError"].as_bool().unwrap_or(false) == expected.refused,
            "refused or not, otherwise than expected: {answer}"
        );
        let text = texts(step, answer);
        for part in &expected.parts {
            ensure!(text.contains(part), "{part} is not in {text}");
        }
        if expected.keep.is_empty() {
            return Ok(());
        }
        let value: Value = serde_json::from_str(&text).context("the text is not JSON")?;
        for (name, pointer) in expected.keep {
            let found = value.pointer(&pointer).and_then(Value::as_str);
            let found = found.with_context(|| format!("no text at {pointer} in {text}"))?;
            self.kept.insert(name, found.to_owned());
        }
        Ok(())
    }

    fn fill(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                for (name, kept) in &self.kept {
                    *text = text.replace(&format!("${{{name}}}"), kept);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.fill(item)),
            Value::Object(members) => members.values_mut().for_each(|item| self.fill(item)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

fn parse(raw: Value) -> Result<Step> {
    let text = |name: &str| raw[name].as_str().map(str::to_owned);
    let with = raw["with"].clone();
    if let Some(call) = text("call") {
        return Ok(Step::Call { call, with, raw });
    }
    if let Some(prompt) = text("prompt") {
        return Ok(Step::Prompt { prompt, with, raw });
    }
    if let Some(read) = text("read") {
        return Ok(Step::Read { read, raw });
    }
    let list = serde_json::from_value(raw["list"].clone());
    Ok(Step::List {
        list: list.with_context(|| format!("this is no step: {raw}"))?,
        has: strings(&raw["has"]),
    })
}

fn expectation(step: &Step) -> Result<Expectation> {
    let raw = match step {
        Step::List { .. } => return Ok(Expectation::default()),
        Step::Call { raw, .. } | Step::Prompt { raw, .. } | Step::Read { raw, .. } => raw,
    };
    let keep = match &raw["keep"] {
        Value::Null => BTreeMap::new(),
        keep => {
            serde_json::from_value(keep.clone()).context("what is kept is a map of pointers")?
        }
    };
    Ok(Expectation {
        parts: strings(&raw["expect"]),
        keep,
        refused: raw["refused"].as_bool().unwrap_or(false),
    })
}

fn strings(value: &Value) -> Vec<String> {
    let items = value.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The texts of an answer, joined by newlines.
fn texts(step: &Step, answer: &Value) -> String {
    let list = match step {
        Step::List { .. } => return String::new(),
        Step::Call { .. } => &answer["content"],
        Step::Prompt { .. } => &answer["messages"],
        Step::Read { .. } => &answer["contents"],
    };
    let blocks = list.as_array().into_iter().flatten();
    let texts = blocks.filter_map(|block| match step {
        Step::Prompt { .. } => block["content"]["text"].as_str(),
        _ => block["text"].as_str(),
    });
    texts.collect::<Vec<_>>().join("\n")
}
