//! What may be asked of a server, and how often: rules over tools and arguments, a rate, a number
//! at once, a number a day. What is refused here never leaves, and is no fault of the server.

mod equal;
mod quota;
mod rate;
mod unique;

use std::{path::Path, sync::Arc, time::Duration};

use orchestra_wire::RawJson;
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::{
    config::{Budget, Effect, Rule, ServerConfig, ServerName, ToolFilter, Trust},
    names,
};
pub(crate) use quota::Quota;
pub(crate) use rate::Rate;
pub(crate) use unique::Unique;

/// The rules and budgets of one server.
#[derive(Debug)]
pub(crate) struct Policy {
    /// The server whose name begins the shown names of its tools; `None` if they pass unchanged.
    prefix: Option<ServerName>,
    filter: ToolFilter,
    rules: Vec<Rule>,
    default: Effect,
    /// What the user says of all servers, where a rule may be stricter than that and not laxer.
    bound: Effect,
    /// The default is that of the server's own file.
    is_own: bool,
    /// The file that could not be understood, where that is why the user's `default` is `deny`.
    misread: Option<Arc<Path>>,
    wait: bool,
    rate: Option<Rate>,
    at_once: Option<(u32, Semaphore)>,
    pub(crate) quota: Option<Arc<Quota>>,
}

/// What the rules say of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) effect: Effect,
    /// What said it, for the audit file.
    pub(crate) rule: String,
    pub(crate) by: By,
}

/// What decides of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// A rule.
    Rule,
    /// What is configured for calls that no rule is about.
    Default,
    /// The same, in place of a rule that others may have written and that is laxer than the user.
    Bound,
}

/// What is known of a tool beside its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nature {
    /// Nothing, or nothing that is believed.
    Unknown,
    /// A server that is trusted says that it only reads.
    ReadsOnly,
}

/// Why a call is not made now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exhausted {
    /// A stable name.
    pub(crate) code: &'static str,
    /// What is used up.
    pub(crate) what: String,
    /// When to try again.
    pub(crate) again: Duration,
}

impl Policy {
    pub(crate) fn new(config: &ServerConfig, quota: Option<Arc<Quota>>) -> Self {
        let Budget {
            requests_per_second,
            burst,
            concurrency,
            wait,
            ..
        } = config.limits.budget;
        let rate = requests_per_second.and_then(|rate| Rate::new(rate, burst));
        let at_once = concurrency.map(|most| (most, Semaphore::new(most.max(1) as usize)));
        Self {
            prefix: config.shown_prefix(),
            filter: config.tools.clone(),
            rules: config.rules.clone(),
            default: config.default_effect(),
            bound: match config.origin.trust {
                Trust::Trusted => Effect::Allow,
                Trust::Ask => config.usual,
            },
            is_own: config.default == Some(Effect::Deny),
            misread: config.misread.clone(),
            wait,
            rate,
            at_once,
            quota,
        }
    }

    /// Whether a tool is offered at all.
    pub(crate) fn offers(&self, tool: &str) -> bool {
        let ToolFilter { allow, deny } = &self.filter;
        let hits = |patterns: &[String], effect: Effect| {
            let mut patterns = patterns.iter();
            patterns.any(|pattern| self.is_about(pattern, tool, effect))
        };
        (allow.is_empty() || hits(allow, Effect::Allow)) && !hits(deny, Effect::Deny)
    }

    /// Returns whether a pattern matches a tool. A pattern that allows matches the tool's own name. Any other pattern also
    /// matches the shown name, which several names of a server may become, and then counts as it is shown itself.
    fn is_about(&self, pattern: &str, tool: &str, effect: Effect) -> bool {
        if matches(pattern, tool) {
            return true;
        }
        let Some(server) = self.prefix.as_ref().filter(|_| effect != Effect::Allow) else {
            return false;
        };
        let own = |form: &String| {
            let own = form.strip_prefix(server.as_str())?.strip_prefix("__")?;
            Some(matches(pattern, own))
        };
        let mut forms = names::forms(Some(server), tool).into_iter();
        matches(&names::spelled(pattern), &names::spelled(tool))
            || forms.any(|form| own(&form).unwrap_or_default())
    }

    /// Returns the effect of the first rule that matches a call, else the configured default, which
    /// requires no question for tools that only read. A rule of the workspace is compared with the
    /// user's default for all servers, and the stricter effect counts. A rule about arguments denies
    /// arguments in which a name occurs twice: the server may read the second value.
    ///
    /// A rule that asks or denies also matches parts of lists and objects. If it asks and matches parts only, a later
    /// rule may still deny the call.
    pub(crate) fn decide(&self, tool: &str, nature: Nature, arguments: &RawJson) -> Decision {
        let mut parsed: Option<Value> = None;
        let mut asked: Option<Decision> = None;
        for (at, rule) in self.rules.iter().enumerate() {
            if !self.is_about(&rule.tool, tool, rule.effect) {
                continue;
            }
            let mut is_whole = true;
            if !rule.arguments.is_empty() {
                let read = || {
                    let Unique = arguments.parse_lossy()?;
                    arguments.parse_lossy::<Value>()
                };
                let arguments = match parsed.take().map_or_else(read, Ok) {
                    Ok(arguments) => parsed.insert(arguments),
                    Err(error) => {
                        let rule = format!(
                            "{}: its arguments cannot be judged: {error}",
                            named(at, rule)
                        );
                        let effect = Effect::Deny;
                        return Decision {
                            effect,
                            rule,
                            by: By::Rule,
                        };
                    }
                };
                let mut all = rule.arguments.iter();
                is_whole = all.all(|(path, pattern)| {
                    let value = value_at(arguments, path);
                    value.is_some_and(|value| fits(value, pattern, rule.effect))
                });
                let fits_partly = |(path, pattern): &(String, String)| {
                    let keys: Vec<&str> = path.split('.').collect();
                    parts_fit(arguments, &keys, pattern, rule.effect)
                };
                if !is_whole
                    && (rule.effect == Effect::Allow || !rule.arguments.iter().all(fits_partly))
                {
                    continue;
                }
            }
            let told = named(at, rule);
            let decision = match usual(self.bound, nature) {
                (bound, why) if bound > rule.effect => Decision {
                    effect: bound,
                    rule: format!("{why}, over {told}"),
                    by: By::Bound,
                },
                _ => Decision {
                    effect: rule.effect,
                    rule: told,
                    by: By::Rule,
                },
            };
            if is_whole || decision.effect == Effect::Deny {
                return stricter(asked, decision);
            }
            asked = asked.or(Some(decision));
        }
        let (effect, rule) = usual(self.default, nature);
        let decision = Decision {
            effect,
            rule: rule.to_owned(),
            by: By::Default,
        };
        stricter(asked, decision)
    }

    /// Why a call is not made where the default decides and is `deny`, and what to do.
    pub(crate) fn why_default(&self, by: By) -> String {
        let bound = match by {
            By::Bound => {
                "a rule of a file of the workspace does not allow what your own files deny, and "
            }
            By::Rule | By::Default => "",
        };
        let is_users = by == By::Bound || !self.is_own;
        let Some(file) = self.misread.as_ref().filter(|_| is_users) else {
            let whose = if by == By::Bound { "their" } else { "its" };
            return format!("{bound}{whose} `default` is deny");
        };
        let file = file.display();
        format!(
            "{bound}{file} cannot be parsed, so its `default` counts as deny; repair that file (`orchestra mcp validate` shows its errors)"
        )
    }

    /// Takes the place of one call, which ends with what is answered. Where the configuration says
    /// so, it waits for it.
    pub(crate) async fn take(&self) -> Result<Option<SemaphorePermit<'_>>, Exhausted> {
        let place = match &self.at_once {
            None => None,
            // Never closed.
            Some((_, places)) if self.wait => places.acquire().await.ok(),
            Some((most, places)) => Some(places.try_acquire().map_err(|_| Exhausted {
                code: "concurrency_exceeded",
                what: format!("the server's limit of concurrent calls is reached ({most})"),
                again: Duration::from_secs(1),
            })?),
        };
        if let Some(rate) = &self.rate {
            while let Err(again) = rate.take() {
                if !self.wait {
                    return Err(Exhausted {
                        code: "rate_limited",
                        what: format!("the server's rate limit is reached: {rate}"),
                        again,
                    });
                }
                tokio::time::sleep(again).await;
            }
        }
        if let Some(quota) = &self.quota {
            quota.take().await.map_err(|spent| Exhausted {
                code: "daily_quota_exceeded",
                what: spent.what,
                again: spent.again,
            })?;
        }
        Ok(place)
    }
}

/// The name of a rule for people: its number, effect and tool.
fn named(at: usize, rule: &Rule) -> String {
    format!("rule {}: {} {}", at + 1, rule.effect.as_str(), rule.tool)
}

/// What a default says of a call, and what is recorded of it.
const fn usual(default: Effect, nature: Nature) -> (Effect, &'static str) {
    match (default, nature) {
        (Effect::Ask, Nature::ReadsOnly) => (Effect::Allow, "default: allow, it only reads"),
        (Effect::Allow, _) => (Effect::Allow, "default: allow"),
        (Effect::Ask, _) => (Effect::Ask, "default: ask"),
        (Effect::Deny, _) => (Effect::Deny, "default: deny"),
    }
}

/// The stricter of the decision of a rule that matches parts of the arguments, if there is one, and a later decision.
fn stricter(asked: Option<Decision>, later: Decision) -> Decision {
    match asked {
        Some(asked) if later.effect <= asked.effect => asked,
        _ => later,
    }
}

/// The value at a dotted path.
fn value_at<'v>(arguments: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.')
        .try_fold(arguments, |value, key| match value {
            Value::Array(items) => items.get(key.parse::<usize>().ok()?),
            value => value.get(key),
        })
}

/// Returns whether a value fits the pattern of a rule. A value that is no text is compared as JSON.
fn fits(value: &Value, pattern: &str, effect: Effect) -> bool {
    match value {
        Value::String(text) => matches(pattern, text),
        value => equal::fits(value, pattern, effect),
    }
}

/// Returns whether a value at a path of keys, or a part of it, fits the pattern of a rule. Keys that are no numbers lead
/// into each item of a list.
fn parts_fit(value: &Value, keys: &[&str], pattern: &str, effect: Effect) -> bool {
    let Some((key, rest)) = keys.split_first() else {
        return match value {
            Value::Array(items) => items
                .iter()
                .any(|item| parts_fit(item, keys, pattern, effect)),
            Value::Object(members) => members.iter().any(|(name, member)| {
                matches(pattern, name) || parts_fit(member, keys, pattern, effect)
            }),
            value => fits(value, pattern, effect),
        };
    };
    match (value, key.parse::<usize>()) {
        (Value::Array(items), Ok(at)) => {
            let item = items.get(at);
            item.is_some_and(|item| parts_fit(item, rest, pattern, effect))
        }
        (Value::Array(items), Err(_)) => items
            .iter()
            .any(|item| parts_fit(item, keys, pattern, effect)),
        (value, _) => {
            let member = value.get(*key);
            member.is_some_and(|member| parts_fit(member, rest, pattern, effect))
        }
    }
}

/// Whether a pattern, in which `*` stands for any characters and `?` for one, is that of a text.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut here) = (0, 0);
    // Where the last star stood, and how much of the text it has taken.
    let mut star: Option<(usize, usize)> = None;
    while here < text.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, here));
                at += 1;
            }
            Some(c) if *c == '?' || *c == text[here] => {
                at += 1;
                here += 1;
            }
            _ => match &mut star {
                Some((star, taken)) => {
                    *taken += 1;
                    (at, here) = (*star + 1, *taken);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests;
