//! What stands against a call, for a person who calls without a client of MCP in between: the same
//! rules, schemas and budgets as for a model.

use std::path::Path;

use orchestra_hub::{Answers, ToolResult};
use orchestra_mcp::client::{ClientError, ServerCall};
use orchestra_wire::RawJson;

use crate::{
    config::{Effect, ServerConfig},
    explain, names,
    policy::{self, By, Nature, Policy, Quota},
    schema::Schema,
    server,
};
pub use crate::{
    explain::{DENIED, INVALID_ARGUMENTS},
    names::in_question,
};

/// The rules and budgets of one server.
#[derive(Debug)]
pub struct Rules {
    name: String,
    policy: Policy,
    /// Whether what the server says of its tools is believed.
    trust: bool,
}

/// What the rules say of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// What becomes of it.
    pub effect: Effect,
    /// What decided that, for the record.
    pub rule: String,
    /// The same in words, where it is not made.
    pub why: String,
}

/// A call that is not made, because something is used up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Its stable name, which a record has behind the rule.
    pub code: &'static str,
    /// In words.
    pub why: String,
}

impl Rules {
    /// Those of a server; the calls of the day are counted below `state`, the user's state directory.
    #[must_use]
    pub fn new(config: &ServerConfig, state: &Path) -> Self {
        Self {
            name: config.name.to_string(),
            policy: Policy::new(config, Quota::of(config, state)),
            trust: config.trust,
        }
    }

    /// Whether the configuration leaves a tool among those that are offered, by the name that the
    /// server gave it.
    #[must_use]
    pub fn offers(&self, tool: &str) -> bool {
        self.policy.offers(tool)
    }

    /// What the rules say of a call of a tool, by the name that the server gave it and as it defines
    /// it.
    #[must_use]
    pub fn decide(&self, tool: &str, definition: &RawJson, arguments: &RawJson) -> Decision {
        let server = &self.name;
        let hint = definition.member("annotations");
        let hint = hint.and_then(|hints| hints.member("readOnlyHint"));
        let only_reads = hint.is_some_and(|hint| hint.as_str() == "true");
        let nature = match self.trust && only_reads {
            true => Nature::ReadsOnly,
            false => Nature::Unknown,
        };
        let policy::Decision { effect, rule, by } = self.policy.decide(tool, nature, arguments);
        let why = match by {
            By::Rule => format!("{rule} of the server {server} forbids it"),
            By::Bound => self.policy.why_default(by),
            By::Default => {
                let why = self.policy.why_default(by);
                format!("no rule of the server {server} allows it, and {why}")
            }
        };
        Decision { effect, rule, why }
    }

    /// Counts a call that is about to be made, and waits for its place where the configuration says
    /// so. What else may have been taken of the quota of the day is given back at once.
    ///
    /// # Errors
    /// What is used up and when there is some again.
    pub async fn take(&self) -> Result<(), Refusal> {
        let taken = self.policy.take().await.map(drop);
        if let Some(quota) = self.policy.quota.clone() {
            let given = tokio::task::spawn_blocking(move || quota.give_back()).await;
            if let Ok(Err(error)) = given {
                let server = &self.name;
                tracing::warn!(%server, %error, "cannot correct the count of today's calls: calls that were not made stay counted");
            }
        }
        taken.map_err(|exhausted| {
            let again = explain::wait(exhausted.again);
            Refusal {
                code: exhausted.code,
                why: format!("{}; try again in {again}", exhausted.what),
            }
        })
    }
}

/// What of arguments is not as the schema of a tool says, in words; `None` where all is, or the
/// schema cannot be enforced.
#[must_use]
pub fn mistakes(tool: &str, schema: RawJson, arguments: &RawJson) -> Option<String> {
    Schema::new(Some(schema)).mistakes(arguments, tool)
}

/// The place of the tool that somebody means by a name, among those that a server lists: its own
/// name, that name behind `server__`, or the name that it is shown by.
#[must_use]
pub fn meant(config: &ServerConfig, tools: &[&str], name: &str) -> Option<usize> {
    let is = |wanted: &str| tools.iter().position(|tool| *tool == wanted);
    let rest = name.strip_prefix(config.name.as_str());
    let rest = rest.and_then(|rest| rest.strip_prefix("__"));
    is(name).or_else(|| rest.and_then(is)).or_else(|| {
        let shown = names::shown(&config.name, config.prefix, tools.iter().copied());
        shown
            .iter()
            .position(|shown| shown.as_deref() == Some(name))
    })
}

/// The name by which the tool at a place of those that a server lists is shown; its own behind
/// `server__` where it is not.
#[must_use]
pub fn shown(config: &ServerConfig, tools: &[&str], place: usize) -> String {
    let shown = names::shown(&config.name, config.prefix, tools.iter().copied());
    let own = || format!("{}__{}", config.name, tools.get(place).unwrap_or(&""));
    shown.into_iter().nth(place).flatten().unwrap_or_else(own)
}

/// The tools that are shown by another name than their own, or their own behind `server__`, each with
/// that name.
#[must_use]
pub fn renamed<'t>(config: &ServerConfig, tools: &[&'t str]) -> Vec<(&'t str, String)> {
    let shown = names::shown(&config.name, config.prefix, tools.iter().copied());
    let all = tools.iter().zip(shown);
    all.filter_map(|(&tool, shown)| {
        let shown = shown?;
        let own = shown.strip_prefix(config.name.as_str());
        let own = own.and_then(|own| own.strip_prefix("__"));
        (shown != tool && own != Some(tool)).then_some((tool, shown))
    })
    .collect()
}

/// The call of a tool as its server defines it: repeated and judged as one through a hub.
///
/// # Errors
/// Why the tool cannot be called.
pub fn call(
    config: &ServerConfig,
    definition: &RawJson,
    arguments: &RawJson,
) -> Result<ServerCall, String> {
    server::call_of(config, definition, arguments)
}

/// Whether a call that failed may have changed something; one that is `safe` may run twice.
#[must_use]
pub fn may_have_run(error: &ClientError, safe: bool) -> bool {
    explain::may_have_run(error, safe)
}

/// The rule that wants the user asked about a call, where that is why it was refused: whoever asks
/// and hears a yes calls again with [`agreed`].
#[must_use]
pub fn asking(result: &ToolResult) -> Option<String> {
    let error = result.meta.as_ref()?.member(explain::ERROR)?;
    error.member(explain::ASKS)?.parse().ok()
}

/// What went wrong with a call, by its stable name, where the result tells that of a call that did
/// not come about.
#[must_use]
pub fn failed(result: &ToolResult) -> Option<String> {
    let error = result.meta.as_ref()?.member(explain::ERROR)?;
    error.member("code")?.parse().ok()
}

/// What goes with a call that the user was asked about, and agreed to.
#[must_use]
pub fn agreed() -> Answers {
    server::agreed()
}
