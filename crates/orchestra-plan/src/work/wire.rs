//! How work is written: as text, or as an object with a `type`. Which of the object's fields belong
//! to which type stands in one table, for who reads it and for its schema.

use std::fmt;

#[cfg(feature = "schema")]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, value::MapAccessDeserializer},
};
#[cfg(feature = "schema")]
use serde_json::json;
use serde_json::{Map, Value};

use super::{
    Action, AdmissionClass, AgentWork, AllowedFolders, AllowedUrls, Args, Brief, CommandText,
    Effort, ErrorAction, Executable, Instructions, MaxTurns, ModelName, ModelTier, OnFailure,
    ProcessWork, ProfileName, Shell, ShellWork, TimeoutMs, WorkError, WorkSpec, WorktreePath,
};
use crate::value::Env;
#[cfg(feature = "schema")]
use crate::value::Text;

/// Work as an object, whatever its type.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(
    rename_all = "camelCase",
    deny_unknown_fields,
    expecting = "an object with a `type`"
)]
struct Object {
    #[serde(rename = "type")]
    of: AdmissionClass,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<CommandText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shell: Option<Shell>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_action: Option<ErrorAction>,
    #[serde(skip_serializing_if = "Option::is_none")]
    executable: Option<Executable>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<Args>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<Instructions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions_file: Option<WorktreePath>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<ProfileName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<ModelName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_tier: Option<ModelTier>,
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<Effort>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_turns: Option<MaxTurns>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resume_session: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed_folders: Option<AllowedFolders>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed_urls: Option<AllowedUrls>,
    #[serde(skip_serializing_if = "Option::is_none")]
    env: Option<Env>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<WorktreePath>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<TimeoutMs>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idle_timeout_ms: Option<TimeoutMs>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_failure: Option<OnFailure>,
}

/// The fields that every type has.
const COMMON: [&str; 5] = ["env", "cwd", "timeoutMs", "idleTimeoutMs", "onFailure"];

/// The fields that only this type has.
const fn own_fields(of: AdmissionClass) -> &'static [&'static str] {
    match of {
        AdmissionClass::Shell => &["command", "shell", "errorAction"],
        AdmissionClass::Process => &["executable", "args"],
        AdmissionClass::Agent => &[
            "instructions",
            "instructionsFile",
            "agent",
            "model",
            "modelTier",
            "effort",
            "maxTurns",
            "resumeSession",
            "allowedFolders",
            "allowedUrls",
        ],
    }
}

pub(super) fn fields_of(of: AdmissionClass) -> String {
    let fields: Vec<&str> = own_fields(of).iter().chain(&COMMON).copied().collect();
    fields.join(", ")
}

/// Parses the text form.
pub(super) fn parse(text: &str) -> Result<WorkSpec, WorkError> {
    let command = CommandText::parse(text).map_err(WorkError::Text)?;
    let text = text.trim_start();
    if text.starts_with('{')
        && let Some(object) = object_of(text)
    {
        return object.and_then(WorkSpec::try_from);
    }
    if let Some(task) = agent_task(text) {
        let task = Instructions::parse(task).map_err(|_| WorkError::NoTask)?;
        return Ok(WorkSpec::of(Action::Agent(AgentWork::of(Brief::Text(
            task,
        )))));
    }
    let shell = ShellWork::new(command, None, None)?;
    Ok(WorkSpec::of(Action::Shell(shell)))
}

/// What a text that starts with `{` says, if it is an object at all: `{ make; make install; }` is
/// for a shell.
fn object_of(text: &str) -> Option<Result<Object, WorkError>> {
    let members = serde_json::from_str(text);
    match members.and_then(|Members(members)| serde_json::from_value(members.into())) {
        Ok(object) => Some(Ok(object)),
        Err(error) if error.is_data() || text[1..].trim_start().starts_with('"') => {
            let message: String = error.to_string().chars().take(400).collect();
            Some(Err(WorkError::Json(message)))
        }
        Err(_) => None,
    }
}

/// Members of a JSON object, each with a name of its own.
struct Members(Map<String, Value>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> de::Visitor<'de> for Reader {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut access: A) -> Result<Members, A::Error> {
                let mut members = Map::new();
                while let Some((name, value)) = access.next_entry::<String, Value>()? {
                    if members.contains_key(&name) {
                        let text = format_args!("duplicate field `{name}`");
                        return Err(de::Error::custom(text));
                    }
                    members.insert(name, value);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Reader)
    }
}

/// What stands behind `@agent`.
fn agent_task(text: &str) -> Option<&str> {
    let task = text.strip_prefix("@agent")?;
    let apart = task.is_empty() || task.starts_with([':', ' ', '\t', '\r', '\n']);
    apart.then(|| task.trim_start_matches(':').trim())
}

impl TryFrom<Object> for WorkSpec {
    type Error = WorkError;

    fn try_from(object: Object) -> Result<Self, WorkError> {
        let of = object.of;
        if let Some(field) = object.foreign() {
            return Err(WorkError::Foreign { of, field });
        }
        let missing = |field| WorkError::Missing { of, field };
        let action = match of {
            AdmissionClass::Shell => {
                let command = object.command.ok_or(missing("command"))?;
                Action::Shell(ShellWork::new(command, object.shell, object.error_action)?)
            }
            AdmissionClass::Process => Action::Process(ProcessWork {
                executable: object.executable.ok_or(missing("executable"))?,
                args: object.args.unwrap_or_default(),
            }),
            AdmissionClass::Agent => Action::Agent(AgentWork {
                brief: match (object.instructions, object.instructions_file) {
                    (Some(text), None) => Brief::Text(text),
                    (None, Some(file)) => Brief::File(file),
                    (Some(_), Some(_)) => return Err(WorkError::TwoBriefs),
                    (None, None) => return Err(missing("instructions` or `instructionsFile")),
                },
                agent: object.agent,
                model: object.model,
                model_tier: object.model_tier,
                effort: object.effort,
                max_turns: object.max_turns,
                resume_session: object.resume_session,
                allowed_folders: object.allowed_folders.unwrap_or_default(),
                allowed_urls: object.allowed_urls.unwrap_or_default(),
            }),
        };
        Ok(Self {
            action,
            env: object.env.unwrap_or_default(),
            cwd: object.cwd,
            timeout_ms: object.timeout_ms,
            idle_timeout_ms: object.idle_timeout_ms,
            on_failure: object.on_failure.unwrap_or_default(),
        })
    }
}

impl Object {
    const fn empty(of: AdmissionClass) -> Self {
        Self {
            of,
            command: None,
            shell: None,
            error_action: None,
            executable: None,
            args: None,
            instructions: None,
            instructions_file: None,
            agent: None,
            model: None,
            model_tier: None,
            effort: None,
            max_turns: None,
            resume_session: None,
            allowed_folders: None,
            allowed_urls: None,
            env: None,
            cwd: None,
            timeout_ms: None,
            idle_timeout_ms: None,
            on_failure: None,
        }
    }

    /// The first field that is there and that the type does not have.
    fn foreign(&self) -> Option<&'static str> {
        let given = [
            ("command", self.command.is_some()),
            ("shell", self.shell.is_some()),
            ("errorAction", self.error_action.is_some()),
            ("executable", self.executable.is_some()),
            ("args", self.args.is_some()),
            ("instructions", self.instructions.is_some()),
            ("instructionsFile", self.instructions_file.is_some()),
            ("agent", self.agent.is_some()),
            ("model", self.model.is_some()),
            ("modelTier", self.model_tier.is_some()),
            ("effort", self.effort.is_some()),
            ("maxTurns", self.max_turns.is_some()),
            ("resumeSession", self.resume_session.is_some()),
            ("allowedFolders", self.allowed_folders.is_some()),
            ("allowedUrls", self.allowed_urls.is_some()),
        ];
        given
            .into_iter()
            .find(|(field, given)| *given && !own_fields(self.of).contains(field))
            .map(|(field, _)| field)
    }

    fn of_work(work: &WorkSpec) -> Self {
        let object = Self {
            env: Some(work.env.clone()).filter(|env| !env.is_empty()),
            cwd: work.cwd.clone(),
            timeout_ms: work.timeout_ms,
            idle_timeout_ms: work.idle_timeout_ms,
            on_failure: Some(work.on_failure.clone()).filter(|failure| !failure.is_default()),
            ..Self::empty(work.class())
        };
        match &work.action {
            Action::Shell(shell) => Self {
                command: Some(shell.command().clone()),
                shell: shell.shell(),
                error_action: shell.error_action(),
                ..object
            },
            Action::Process(process) => Self {
                executable: Some(process.executable.clone()),
                args: Some(process.args.clone()).filter(|args| !args.is_empty()),
                ..object
            },
            Action::Agent(agent) => {
                let (instructions, instructions_file) = match &agent.brief {
                    Brief::Text(text) => (Some(text.clone()), None),
                    Brief::File(file) => (None, Some(file.clone())),
                };
                Self {
                    instructions,
                    instructions_file,
                    agent: agent.agent.clone(),
                    model: agent.model.clone(),
                    model_tier: agent.model_tier,
                    effort: agent.effort,
                    max_turns: agent.max_turns,
                    resume_session: agent.resume_session,
                    allowed_folders: Some(agent.allowed_folders.clone())
                        .filter(|folders| !folders.is_empty()),
                    allowed_urls: Some(agent.allowed_urls.clone()).filter(|urls| !urls.is_empty()),
                    ..object
                }
            }
        }
    }
}

impl Serialize for WorkSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Object::of_work(self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for WorkSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Visitor)
    }
}

struct Visitor;

impl<'de> de::Visitor<'de> for Visitor {
    type Value = WorkSpec;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a command line, `@agent` and a task, or an object with a `type`")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<WorkSpec, E> {
        parse(text).map_err(E::custom)
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<WorkSpec, A::Error> {
        Object::deserialize(MapAccessDeserializer::new(map))
            .and_then(|object| WorkSpec::try_from(object).map_err(de::Error::custom))
    }
}

#[cfg(feature = "schema")]
impl JsonSchema for WorkSpec {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "WorkSpec".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut branches = vec![Text::<50_000>::json_schema(generator).to_value()];
        let object = Object::json_schema(generator).to_value();
        let of = |class| branch(&object["properties"], class);
        branches.extend(AdmissionClass::ALL.iter().copied().map(of));
        json_schema!({"anyOf": branches})
    }
}

/// The schema of an object of this type, out of the schemas of all fields. What is `null` is not
/// there, so a field that must be there is more than `null`.
#[cfg(feature = "schema")]
fn branch(fields: &Value, of: AdmissionClass) -> Value {
    let mut properties = Map::new();
    properties.insert("type".to_owned(), json!({"const": of.as_str()}));
    for field in own_fields(of).iter().chain(&COMMON) {
        properties.insert((*field).to_owned(), fields[*field].clone());
    }
    let mut schema = json!({
        "type": "object",
        "properties": properties,
        "required": ["type"],
        "additionalProperties": false,
    });
    let mut needs = |field: &str| {
        schema["required"] = json!(["type", field]);
        schema["properties"][field]["type"] = json!("string");
    };
    match of {
        AdmissionClass::Shell => needs("command"),
        AdmissionClass::Process => needs("executable"),
        AdmissionClass::Agent => {
            let given = |field: &str| json!({"required": [field], "properties": {field: {"type": "string"}}});
            schema["oneOf"] = json!([given("instructions"), given("instructionsFile")]);
        }
    }
    schema
}
