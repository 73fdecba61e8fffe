//! The tools that a model may call: as the hub has them, and as a model is shown them.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, OnceLock},
};

use orchestra_schema::CompiledSchema;
use serde_json::{Map, Value, json};

use crate::{
    schema,
    select::Index,
    tokens,
    untrusted::{guarded, guarded_value},
};

/// The longest name that servers of models take.
pub(crate) const NAME_CHARS: usize = 64;

/// Mistakes of arguments that are told at once.
const MISTAKES: usize = 4;

/// What a tool does to the world, as far as it may be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nature {
    /// It only reads.
    Reads,
    /// It may change something, or nobody knows.
    Changes,
}

/// A tool as its owner describes it.
#[derive(Debug, Clone)]
pub struct Described {
    /// The name by which the hub calls it.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The schema of its arguments.
    pub schema: Value,
    /// What a model is shown instead of `schema`, where its owner says so.
    pub lean: Option<Value>,
    /// The server of others whose tool it is.
    pub server: Option<String>,
    /// What it does.
    pub nature: Nature,
}

/// A tool that a model may call.
#[derive(Debug)]
pub struct Tool {
    name: String,
    shown: String,
    description: String,
    schema: Value,
    whole: Value,
    server: Option<String>,
    nature: Nature,
    tokens: usize,
    checks: OnceLock<Option<CompiledSchema>>,
}

impl Tool {
    /// The name by which the hub calls it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name by which models call it: letters, digits, `_` and `-`.
    #[must_use]
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// What it is for, in few words.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The schema of its arguments as models are shown it.
    #[must_use]
    pub const fn schema(&self) -> &Value {
        &self.schema
    }

    /// The schema of its arguments as it is.
    #[must_use]
    pub const fn whole_schema(&self) -> &Value {
        &self.whole
    }

    /// The server of others whose tool it is.
    #[must_use]
    pub fn server(&self) -> Option<&str> {
        self.server.as_deref()
    }

    /// What it does.
    #[must_use]
    pub const fn nature(&self) -> Nature {
        self.nature
    }

    /// What it costs to show it to a model, in tokens.
    #[must_use]
    pub const fn tokens(&self) -> usize {
        self.tokens
    }

    /// The names of its arguments, those that must be given first.
    pub fn arguments(&self) -> impl Iterator<Item = &str> {
        let required = names(&self.whole["required"]);
        let all = self.whole["properties"].as_object();
        let rest = all
            .into_iter()
            .flat_map(|all| all.keys().map(String::as_str));
        let optional = rest.filter({
            let required: HashSet<&str> = required.iter().copied().collect();
            move |name| !required.contains(name)
        });
        required.into_iter().chain(optional)
    }

    /// What of arguments is not as the tool takes them, in words a model can act on; nothing where they are.
    /// A schema that cannot be read, or that takes too long, lets everything through: the tool itself refuses then.
    #[must_use]
    pub fn mistakes(&self, arguments: &Map<String, Value>) -> Option<String> {
        let compiled = || CompiledSchema::new(self.whole.clone()).ok();
        let checks = self.checks.get_or_init(compiled).as_ref()?;
        let given = Value::Object(arguments.clone());
        let violations = checks.violations(&given, MISTAKES).ok()?;
        let told = violations.into_iter().map(|violation| {
            let place = violation.pointer.trim_start_matches('/').replace('/', ".");
            match place.is_empty() {
                true => violation.text,
                false => format!("`{place}`: {}", violation.text),
            }
        });
        let told: Vec<String> = told.collect();
        (!told.is_empty()).then(|| told.join("; "))
    }
}

/// The texts of a list.
fn names(list: &Value) -> Vec<&str> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(Value::as_str).collect()
}

/// All tools that there are at one time. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Tools(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    all: Vec<Arc<Tool>>,
    by_name: HashMap<String, usize>,
    by_shown: HashMap<String, usize>,
    index: Index,
    tokens: usize,
}

impl Tools {
    /// Takes tools in, in their order; of two of one name the first.
    #[must_use]
    pub fn new(described: impl IntoIterator<Item = Described>) -> Self {
        let mut inner = Inner::default();
        let mut taken: HashSet<String> = HashSet::new();
        for one in described {
            if inner.by_name.contains_key(&one.name) {
                continue;
            }
            let tool = made(one, &mut taken);
            let place = inner.all.len();
            inner.by_name.insert(tool.name.clone(), place);
            inner.by_shown.insert(tool.shown.clone(), place);
            inner.tokens += tool.tokens;
            inner.all.push(Arc::new(tool));
        }
        inner.index = Index::new(inner.all.iter().map(|tool| {
            let arguments = tool.arguments().collect::<Vec<_>>().join(" ");
            [tool.name.clone(), tool.description.clone(), arguments]
        }));
        Self(Arc::new(inner))
    }

    /// All of them, in order.
    #[must_use]
    pub fn all(&self) -> &[Arc<Tool>] {
        &self.0.all
    }

    /// The one that the hub calls so.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Arc<Tool>> {
        self.0.by_name.get(name).map(|place| &self.0.all[*place])
    }

    /// The one that models call so.
    #[must_use]
    pub fn shown(&self, name: &str) -> Option<&Arc<Tool>> {
        self.0.by_shown.get(name).map(|place| &self.0.all[*place])
    }

    /// What it costs to show all of them, in tokens.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.0.tokens
    }

    /// The ones that a question may need, best first.
    #[must_use]
    pub fn ranked(&self, question: &str) -> Vec<&Arc<Tool>> {
        let ranked = self.0.index.ranked(question).into_iter();
        ranked.map(|place| &self.0.all[place]).collect()
    }
}

fn made(described: Described, taken: &mut HashSet<String>) -> Tool {
    let Described {
        name,
        description,
        schema: whole,
        lean,
        server,
        nature,
    } = described;
    let shown = shown(&name, taken);
    // They are texts of a server.
    let schema = guarded_value(schema::simplified(lean.as_ref().unwrap_or(&whole)));
    let description = guarded(&schema::shortened(&description));
    let told = json!({
        "type": "function",
        "function": {"name": shown, "description": description, "parameters": schema},
    });
    Tool {
        tokens: tokens::estimate(&told.to_string()),
        name,
        shown,
        description,
        schema,
        whole,
        server,
        nature,
        checks: OnceLock::new(),
    }
}

/// A name that servers of models take, and that no other tool has.
fn shown(name: &str, taken: &mut HashSet<String>) -> String {
    let whole: String = name.chars().map(legal).collect();
    let mut shown: String = whole.chars().take(NAME_CHARS).collect();
    let mut number = 1;
    while shown.is_empty() || !taken.insert(shown.clone()) {
        number += 1;
        let end = format!("_{number}");
        let room = NAME_CHARS.saturating_sub(end.len());
        shown = whole.chars().take(room).chain(end.chars()).collect();
    }
    shown
}

/// A letter that may stand in a name that servers of models take, or one in its place.
pub(crate) const fn legal(c: char) -> char {
    match c {
        c if c.is_ascii_alphanumeric() || c == '_' || c == '-' => c,
        _ => '_',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(name: &str) -> Described {
        Described {
            name: name.to_owned(),
            description: "Does it.".to_owned(),
            schema: json!({
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
                "required": ["city"], "additionalProperties": false,
            }),
            lean: None,
            server: None,
            nature: Nature::Reads,
        }
    }

    #[test]
    fn names_are_made_fit_and_stay_apart() {
        let long = "x".repeat(100);
        let names = ["a.b", "a/b", "a_b", "", "a.b", &long, &format!("{long}y")];
        let tools = Tools::new(names.map(described));
        let shown: Vec<&str> = tools.all().iter().map(|tool| tool.shown()).collect();
        let cut = "x".repeat(64);
        let other = format!("{}_2", "x".repeat(62));
        assert_eq!(shown, ["a_b", "a_b_2", "a_b_3", "_2", &cut, &other]);
        assert_eq!(tools.shown("a_b_2").unwrap().name(), "a/b");
        assert_eq!(tools.named("a_b").unwrap().shown(), "a_b_3");
        assert!(tools.named("b").is_none() && tools.shown("a.b").is_none());
    }

    #[test]
    fn mistakes_name_the_argument_and_what_is_expected() {
        let tools = Tools::new([described("a")]);
        let said = |arguments: Value| tools.all()[0].mistakes(arguments.as_object().unwrap());
        assert_eq!(said(json!({"city": "Rome", "days": 2})), None);
        let told = said(json!({"days": 0, "town": "Rome"})).unwrap();
        for part in [
            "\"city\" is a required property",
            "town",
            "`days`: 0 is less than the minimum of 1",
        ] {
            assert!(told.contains(part), "{told}");
        }
        let mut odd = described("odd");
        odd.schema = json!({"type": "nothing", "$ref": "http://nowhere/x"});
        let mut endless = described("endless");
        endless.schema = json!({"type": "array", "allOf": [{"$ref": "#"}, {"$ref": "#"}]});
        let tools = Tools::new([odd, endless]);
        for tool in tools.all() {
            assert_eq!(tool.mistakes(&Map::new()), None);
        }
    }
}
