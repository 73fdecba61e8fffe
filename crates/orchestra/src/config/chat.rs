//! `[chat]`: which model `orchestra chat` talks to, how it is asked, and what a turn may use up.
//!
//! Other people may have written the file of a workspace. It may name a model and a server of this machine, and lower
//! the limits of rounds and context. Other servers, keys and budgets count only in the user's own file.

use std::path::{Path, PathBuf};

use orchestra_gateway::config::{Limits, Sandbox, bounds};
use serde::Deserialize;
use serde_json::{Map, json};

use super::{
    Entry, FILE, Origin, Setting,
    file::{ConfigFile, ParseError, within, wrong},
    flag, least,
    model::{is_variable, own_file},
    settle,
};
use crate::{env::Variable, exit::Failure};

/// Names of a sandbox.
const NONE: &str = "none";
const WORKSPACE: &str = "workspace";

/// The longest text that a model is told first.
const MAX_SYSTEM_BYTES: usize = 64 * 1024;
/// The longest name of a model, and the longest address.
const MAX_NAME_BYTES: usize = 512;
/// Rounds of calls of a turn where nobody says how many.
const USUAL_TURNS: u64 = 10;
/// How much a model is given at once at most where nobody says more: a server takes memory for it.
pub(crate) const USUAL_CONTEXT: usize = 32_768;
/// How often tools may be called and the model be asked again.
const MAX_TURNS: std::ops::RangeInclusive<u64> = 1..=1_000;
/// How much a model may be given at once, in tokens.
const MAX_CONTEXT: std::ops::RangeInclusive<u64> = 2_048..=10_000_000;
/// How long a turn may take, in seconds.
const MAX_SECONDS: std::ops::RangeInclusive<u64> = 1..=86_400;

/// Kind of model server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum BackendKind {
    /// Ollama, through its own API
    #[default]
    Ollama,
    /// Any server with /chat/completions
    Openai,
    /// No model: a script contains the replies
    Scripted,
}

impl BackendKind {
    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ollama => "ollama",
            Self::Openai => "openai",
            Self::Scripted => "scripted",
        }
    }
}

/// What `orchestra chat` is told by files and the environment.
#[derive(Debug, Clone)]
pub(crate) struct ChatSettings {
    /// Which kind of server.
    pub(crate) backend: Setting<BackendKind>,
    /// Where it is; where it usually is when nobody says.
    pub(crate) host: Setting<Option<String>>,
    /// The model.
    pub(crate) model: Setting<Option<String>>,
    /// The environment variable that holds the key.
    pub(crate) key_env: Setting<Option<String>>,
    /// What the model is told first.
    pub(crate) system: Setting<Option<String>>,
    /// How often tools may be called in a turn.
    pub(crate) turns: Setting<u64>,
    /// Tokens of a turn; 0 for any number.
    pub(crate) tokens: Setting<u64>,
    /// Seconds of a turn; 0 for any number.
    pub(crate) seconds: Setting<u64>,
    /// What a turn may cost; 0 for anything.
    pub(crate) cost: Setting<f64>,
    /// What a million tokens that are read cost.
    pub(crate) price_input: Setting<f64>,
    /// What a million tokens that are written cost.
    pub(crate) price_output: Setting<f64>,
    /// How much the model is given at once; 0 for what it can be given.
    pub(crate) context: Setting<u64>,
    /// How much chance there is in what it says.
    pub(crate) temperature: Setting<Option<f64>>,
    /// The number that its chance begins with.
    pub(crate) seed: Setting<Option<u64>>,
    /// Whether a server that the command line names and starts runs in a sandbox.
    pub(crate) sandbox: Setting<bool>,
    /// Limits of such a server, as a configured server has them.
    pub(crate) limits: Setting<toml::Table>,
    overreach: Vec<String>,
}

/// What flags say of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct ChatFlags {
    /// `--backend`.
    pub(crate) backend: Option<BackendKind>,
    /// `--host`.
    pub(crate) host: Option<String>,
    /// `--model`.
    pub(crate) model: Option<String>,
    /// `--sandbox`.
    pub(crate) sandbox: Option<bool>,
}

/// What a file says of it.
#[derive(Debug, Default)]
pub(super) struct ChatFile {
    backend: Option<BackendKind>,
    host: Option<String>,
    model: Option<String>,
    key_env: Option<String>,
    system: Option<String>,
    turns: Option<u64>,
    tokens: Option<u64>,
    seconds: Option<u64>,
    cost: Option<f64>,
    price_input: Option<f64>,
    price_output: Option<f64>,
    context: Option<u64>,
    temperature: Option<f64>,
    seed: Option<u64>,
    sandbox: Option<bool>,
    limits: Option<toml::Table>,
    overreach: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChatOnDisk {
    backend: Option<String>,
    host: Option<String>,
    model: Option<String>,
    key_env: Option<String>,
    system: Option<String>,
    max_turns: Option<u64>,
    max_tokens: Option<u64>,
    max_seconds: Option<u64>,
    max_cost: Option<f64>,
    price_input: Option<f64>,
    price_output: Option<f64>,
    context: Option<u64>,
    temperature: Option<f64>,
    seed: Option<u64>,
    sandbox: Option<String>,
    limits: Option<toml::Table>,
}

impl ChatOnDisk {
    /// As it is used.
    ///
    /// # Errors
    /// When a value is not one that it may have.
    pub(super) fn checked(self) -> Result<ChatFile, ParseError> {
        let backend = self.backend.filter(|text| !text.is_empty());
        let backend = backend.map(|text| match text.as_str() {
            "ollama" => Ok(BackendKind::Ollama),
            "openai" => Ok(BackendKind::Openai),
            _ => Err(wrong("chat.backend", "ollama or openai", text)),
        });
        let host = text("chat.host", self.host, MAX_NAME_BYTES)?;
        if host
            .as_deref()
            .is_some_and(|host| host.contains(['@', '?', '#']))
        {
            let expected = "an address without a user, password or query; key_env names the variable \
                            that holds a key";
            // There may be a key in it.
            return Err(wrong("chat.host", expected, "another".to_owned()));
        }
        let key_env = text("chat.key_env", self.key_env, MAX_NAME_BYTES)?;
        if let Some(name) = key_env.as_deref().filter(|name| !is_variable(name)) {
            let expected = "the name of an environment variable that holds the key";
            // Who wrote the key itself there is not shown it.
            let found = format!("a string of {} bytes that is not one", name.len());
            return Err(wrong("chat.key_env", expected, found));
        }
        let sandbox = self.sandbox.map(|text| match text.as_str() {
            NONE => Ok(false),
            WORKSPACE => Ok(true),
            _ => Err(wrong("chat.sandbox", "none or workspace", text)),
        });
        if let Some(limits) = &self.limits
            && let Err(error) = bounds_of(false, limits)
        {
            return Err(wrong("chat.limits", "limits of a server", error));
        }
        let some = |number: Option<u64>| number.filter(|number| *number > 0);
        Ok(ChatFile {
            backend: backend.transpose()?,
            host,
            model: text("chat.model", self.model, MAX_NAME_BYTES)?,
            key_env,
            system: text("chat.system", self.system, MAX_SYSTEM_BYTES)?,
            turns: within("chat.max_turns", self.max_turns, &MAX_TURNS)?,
            tokens: self.max_tokens,
            seconds: within("chat.max_seconds", some(self.max_seconds), &MAX_SECONDS)?
                .or(self.max_seconds),
            cost: amount("chat.max_cost", self.max_cost)?,
            price_input: amount("chat.price_input", self.price_input)?,
            price_output: amount("chat.price_output", self.price_output)?,
            context: within("chat.context", some(self.context), &MAX_CONTEXT)?.or(self.context),
            temperature: amount("chat.temperature", self.temperature)?,
            seed: self.seed,
            sandbox: sandbox.transpose()?,
            limits: self.limits,
            overreach: Vec::new(),
        })
    }
}

/// Reads a sandbox and limits as those of a configured server.
///
/// # Errors
/// The first thing that is wrong with them.
pub(crate) fn bounds_of(
    is_sandboxed: bool,
    limits: &toml::Table,
) -> Result<(Sandbox, Limits), String> {
    let sandbox = if is_sandboxed { WORKSPACE } else { NONE };
    let keys = json!({"sandbox": sandbox, "limits": limits});
    bounds(keys.as_object().unwrap_or(&Map::new()))
}

/// A text that is not empty, and not too long.
fn text(
    key: &'static str,
    found: Option<String>,
    most: usize,
) -> Result<Option<String>, ParseError> {
    match found.filter(|text| !text.is_empty()) {
        Some(text) if text.len() > most => {
            let expected = format!("at most {most} bytes");
            Err(wrong(key, &expected, format!("{} bytes", text.len())))
        }
        found => Ok(found),
    }
}

/// An amount that is none below nothing.
fn amount(key: &'static str, found: Option<f64>) -> Result<Option<f64>, ParseError> {
    match found {
        Some(amount) if !amount.is_finite() || amount < 0.0 => {
            Err(wrong(key, "0 or more", amount.to_string()))
        }
        found => Ok(found),
    }
}

impl ChatFile {
    /// Leaves out what is not for a workspace to say.
    pub(super) fn bound(&mut self, path: &Path) {
        let is_elsewhere = self.host.as_deref().is_some_and(|host| !is_local(host));
        let is_unknown = self.backend == Some(BackendKind::Openai) && self.host.is_none();
        let mut refused: Vec<&str> = Vec::new();
        if is_elsewhere || is_unknown {
            let backend = self.backend.take();
            self.host = None;
            refused.push(match (is_elsewhere, backend) {
                (true, None) => "host, which would get the conversation,",
                (true, Some(_)) => "backend with its host, which would get the conversation,",
                (false, _) => "backend without a host of this machine, which would send the conversation elsewhere,",
            });
        }
        let mut leave = |is_said: bool, key: &'static str| {
            if is_said {
                refused.push(key);
            }
        };
        leave(self.key_env.take().is_some(), "key_env");
        leave(self.tokens.take().is_some(), "max_tokens");
        leave(self.seconds.take().is_some(), "max_seconds");
        leave(self.cost.take().is_some(), "max_cost");
        let prices = [self.price_input.take(), self.price_output.take()];
        leave(
            prices.iter().any(Option::is_some),
            "price_input, price_output",
        );
        // It may close the sandbox, not open it.
        leave(
            self.sandbox.take_if(|is_closed| !*is_closed).is_some(),
            "sandbox = \"none\"",
        );
        leave(self.limits.take().is_some(), "limits");
        for what in refused {
            self.overreach.push(format!(
                "{}: {what} in [chat] is ignored, because other people may have written the file of a workspace; to use it, set it in [chat] of {}, or pass a flag",
                path.display(),
                own_file()
            ));
        }
    }
}

/// Whether a server is on this machine, by how it is named; one without a scheme is asked over http.
fn is_local(host: &str) -> bool {
    let whole = match host.contains("://") {
        true => host.to_owned(),
        false => format!("http://{host}"),
    };
    orchestra_remote::is_local_address(&whole)
}

impl ChatSettings {
    /// What flags, the environment and the files say, the strongest first, else what is usual.
    ///
    /// # Errors
    /// When a variable holds no text.
    pub(super) fn settle(
        flags: ChatFlags,
        workspace: &Path,
        files: &[(PathBuf, ConfigFile)],
    ) -> Result<Self, Failure> {
        let near = workspace.join(FILE);
        let backend = settle(
            flag(flags.backend),
            files,
            |file| file.chat.backend,
            BackendKind::default,
        );
        let kind = backend.value;
        // The variables name servers for the kind that the user chose: a workspace does not choose between them.
        let mut own = files.iter().filter(|(path, _)| *path != near);
        let own = own.find_map(|(_, file)| file.chat.backend);
        let is_own =
            backend.origin != Origin::File(near.clone()) || kind == own.unwrap_or_default();
        let host = match (flags.host, kind) {
            (Some(host), _) => Some((host, Origin::Flag)),
            (None, _) if !is_own => None,
            (None, BackendKind::Ollama) => given(Variable::OllamaHost)?,
            (None, BackendKind::Openai) => given(Variable::OpenAiUrl)?,
            (None, BackendKind::Scripted) => None,
        };
        // What a file says of another kind of server is none of this one.
        let of_server = |text: Option<(String, Origin)>, pick: fn(&ChatFile) -> Option<&String>| {
            let pick = |file: &ConfigFile| {
                let fits = file.chat.backend.is_none_or(|own| own == kind);
                pick(&file.chat).filter(|_| fits).cloned().map(Some)
            };
            let text = text.map(|(text, origin)| (Some(text), origin));
            settle(text, files, pick, || None)
        };
        let number =
            |pick: fn(&ChatFile) -> Option<u64>| settle(None, files, |file| pick(&file.chat), || 0);
        let all = files.iter().flat_map(|(_, file)| &file.chat.overreach);
        let mut overreach: Vec<String> = all.cloned().collect();
        let mut bounded =
            |key: &str, pick: fn(&ChatFile) -> Option<u64>, usual: u64, size: fn(u64) -> u64| {
                let pick = |file: &ConfigFile| pick(&file.chat);
                least(files, key, pick, usual, size, &mut overreach)
            };
        let turns = bounded(
            "chat.max_turns",
            |file| file.turns,
            USUAL_TURNS,
            |turns| turns,
        );
        let context = bounded("chat.context", |file| file.context, 0, usual_at_zero);
        let amount = |pick: fn(&ChatFile) -> Option<f64>| {
            settle(None, files, |file| pick(&file.chat), || 0.0)
        };
        let host = of_server(host, |file| file.host.as_ref());
        let mut key_env = of_server(None, |file| file.key_env.as_ref());
        // A key goes only to whom the user named.
        if host.origin == Origin::File(near) {
            key_env = Setting {
                value: None,
                origin: Origin::Default,
            };
        }
        Ok(Self {
            backend,
            host,
            model: of_server(flag(flags.model), |file| file.model.as_ref()),
            key_env,
            system: settle(
                None,
                files,
                |file| file.chat.system.clone().map(Some),
                || None,
            ),
            turns,
            tokens: number(|file| file.tokens),
            seconds: number(|file| file.seconds),
            cost: amount(|file| file.cost),
            price_input: amount(|file| file.price_input),
            price_output: amount(|file| file.price_output),
            context,
            temperature: settle(None, files, |file| file.chat.temperature.map(Some), || None),
            seed: settle(None, files, |file| file.chat.seed.map(Some), || None),
            sandbox: settle(
                flag(flags.sandbox),
                files,
                |file| file.chat.sandbox,
                || false,
            ),
            limits: settle(
                None,
                files,
                |file| file.chat.limits.clone(),
                toml::Table::new,
            ),
            overreach,
        })
    }

    /// Whether the server is named by the workspace's file: no key goes there.
    pub(crate) fn is_of_workspace(&self, workspace: &Path) -> bool {
        self.host.origin == Origin::File(workspace.join(FILE))
    }

    /// What the workspace's file says and may not, a line each: why, and what to do instead.
    pub(crate) fn overreach(&self) -> impl Iterator<Item = &str> {
        self.overreach.iter().map(String::as_str)
    }

    /// Its keys, to be shown.
    pub(super) fn entries(&self) -> Vec<Entry> {
        let text = |key, value: &str, origin: &Origin, meaning| Entry {
            key,
            value: toml::Value::from(value).to_string(),
            meaning,
            origin: origin.clone(),
        };
        let some = |key, setting: &Setting<Option<String>>, meaning| {
            text(
                key,
                setting.value.as_deref().unwrap_or_default(),
                &setting.origin,
                meaning,
            )
        };
        let number = |key, setting: &Setting<u64>, meaning| Entry {
            key,
            value: setting.value.to_string(),
            meaning,
            origin: setting.origin.clone(),
        };
        let amount = |key, setting: &Setting<f64>, meaning| Entry {
            key,
            value: toml::Value::from(setting.value).to_string(),
            meaning,
            origin: setting.origin.clone(),
        };
        let mut entries = vec![
            text(
                "chat.backend",
                self.backend.value.name(),
                &self.backend.origin,
                "kind of server that runs the model: ollama or openai",
            ),
            some(
                "chat.host",
                &self.host,
                "address of that server; if it is empty, the usual address; a server on another machine only in your own file",
            ),
            some(
                "chat.model",
                &self.model,
                "name of the model; if it is empty, the first installed model that supports tools",
            ),
            some(
                "chat.key_env",
                &self.key_env,
                "name of the environment variable with the key of the server; only in your own file",
            ),
            some(
                "chat.system",
                &self.system,
                "system prompt, instead of the default one",
            ),
            number(
                "chat.max_turns",
                &self.turns,
                "maximum number of times that tools are called in a turn, 1 to 1000; then the model must answer. A workspace's file may lower it",
            ),
            number(
                "chat.max_tokens",
                &self.tokens,
                "maximum number of tokens of a turn, 0 for no limit; only in your own file",
            ),
            number(
                "chat.max_seconds",
                &self.seconds,
                "time limit of a turn, 1 to 86400 seconds, 0 for no limit; only in your own file",
            ),
            amount(
                "chat.max_cost",
                &self.cost,
                "maximum cost of a turn, in the currency of the prices, 0.0 for no limit; only in your own file",
            ),
            amount(
                "chat.price_input",
                &self.price_input,
                "price of a million input tokens; only in your own file",
            ),
            amount(
                "chat.price_output",
                &self.price_output,
                "price of a million output tokens; only in your own file",
            ),
            number(
                "chat.context",
                &self.context,
                "maximum context size in tokens, 2048 to 10000000, 0 for the limit of the model, at most 32768. A workspace's file may lower it",
            ),
        ];
        let sandbox = if self.sandbox.value { WORKSPACE } else { NONE };
        entries.push(text(
            "chat.sandbox",
            sandbox,
            &self.sandbox.origin,
            "sandbox for the server that SCRIPT or --stdio starts: none, or workspace (the one of configured servers; Linux)",
        ));
        entries.push(Entry {
            key: "chat.limits",
            value: toml::Value::Table(self.limits.value.clone()).to_string(),
            meaning: "resource limits for the server that SCRIPT or --stdio starts, with the same keys as limits of configured servers; only in your own file",
            origin: self.limits.origin.clone(),
        });
        // There is no number that stands for none.
        if let Some(temperature) = self.temperature.value {
            entries.push(Entry {
                key: "chat.temperature",
                value: toml::Value::from(temperature).to_string(),
                meaning: "sampling temperature of the model",
                origin: self.temperature.origin.clone(),
            });
        }
        if let Some(seed) = self.seed.value {
            entries.push(Entry {
                key: "chat.seed",
                value: seed.to_string(),
                meaning: "random seed for sampling",
                origin: self.seed.origin.clone(),
            });
        }
        entries
    }
}

/// Returns a context size as a number to compare: 0 is at most the usual size.
const fn usual_at_zero(context: u64) -> u64 {
    match context {
        0 => USUAL_CONTEXT as u64,
        context => context,
    }
}

/// What a variable says, where it is set.
fn given(variable: Variable) -> Result<Option<(String, Origin)>, Failure> {
    let text = variable.read().map(|value| {
        value
            .into_string()
            .map_err(|_| Failure::usage_text(format!("{variable} is not UTF-8 text")))
    });
    Ok(text
        .transpose()?
        .map(|text| (text, Origin::Environment(variable))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::file;

    fn of_workspace(text: &str) -> ChatFile {
        let mut file = file::parse(text).unwrap().chat;
        file.bound(Path::new("orchestra.toml"));
        file
    }

    #[test]
    fn a_workspace_sends_nothing_elsewhere_and_spends_nothing() {
        let file = of_workspace(
            "[chat]\nlimits = {files = 64}\nsandbox = \"none\"\nmodel = \"m\"\nhost = \"https://far.example\"\nkey_env = \"KEY\"\nmax_cost = 5\n\
             price_input = 0\nmax_tokens = 1\nmax_turns = 3\n",
        );
        assert_eq!((file.host, file.key_env), (None, None));
        assert_eq!(
            (file.cost, file.tokens, file.price_input),
            (None, None, None)
        );
        assert_eq!((file.model.as_deref(), file.turns), (Some("m"), Some(3)));
        assert_eq!((file.sandbox, &file.limits), (None, &None));
        assert_eq!(
            of_workspace("[chat]\nsandbox = \"workspace\"").sandbox,
            Some(true)
        );
        assert_eq!(file.overreach.len(), 7, "{:?}", file.overreach);
        // Where nobody says where it is, it is elsewhere.
        assert_eq!(of_workspace("[chat]\nbackend = \"openai\"").backend, None);
        for host in ["127.0.0.1:8080", "http://localhost:1/v1", "[::1]:5"] {
            let text = format!("[chat]\nbackend = \"openai\"\nhost = \"{host}\"");
            let file = of_workspace(&text);
            assert!(
                file.overreach.is_empty() && file.backend.is_some(),
                "{host}"
            );
        }
        for host in [
            "0.0.0.0:1",
            "localhost.far.example",
            "http://127.0.0.1.nip.io",
            "::",
        ] {
            let file = of_workspace(&format!("[chat]\nhost = \"{host}\""));
            assert_eq!(file.host, None, "{host}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, expected) in [
            ("backend = \"scripted\"", "chat.backend: ollama or openai"),
            (
                "host = \"http://me:pw@host\"",
                "chat.host: an address without",
            ),
            ("key_env = \"sk-1\"", "chat.key_env: the name of"),
            ("max_turns = 0", "chat.max_turns: 1 to 1000"),
            ("max_cost = -1", "chat.max_cost: 0 or more"),
            ("context = 5", "chat.context: 2048 to 10000000"),
            ("sandbox = \"yes\"", "chat.sandbox: none or workspace"),
            (
                "limits = {fils = 64}",
                "chat.limits: limits of a server, not `limits.fils",
            ),
            ("colour = 1", "unknown field `colour`"),
        ] {
            let error = file::parse(&format!("[chat]\n{text}"))
                .unwrap_err()
                .to_string();
            assert!(error.contains(expected), "{text}: {error}");
            assert!(!error.contains("pw") && !error.contains("sk-1"), "{error}");
        }
    }
}
