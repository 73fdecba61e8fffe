//! A server as other programs read it: JSON, as it stands below `mcpServers`.

mod auth;
mod secrets;
mod variables;

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Map, Value, json};

use secrets::Slot;
pub use variables::Variables;

use super::{
    Backoff, Circuit, Connections, DEFAULT_SHUTDOWN, Flavour, Grace, Health, HttpConfig,
    InheritEnv, Limits, OrchestratorConfig, Pins, PluginConfig, PluginId, Pool, Protocol, Restart,
    Retry, Sandbox, ServerConfig, StdioConfig, Template, ToolFilter, Transport, plugin::LEGACY,
};

/// What becomes of what may be a secret: values of headers and of the environment, tokens, and what
/// looks like one in arguments and addresses.
#[derive(Debug, Clone, Copy)]
pub enum Values<'a> {
    /// They are written as they are.
    Kept,
    /// They are replaced by variables, to be shared with others.
    Named(&'a Variables),
}

impl ServerConfig {
    /// The server as an object: what differs from the defaults, with the names that are usual in
    /// JSON. Read again, it is the same server; a plugin is that below `plugins` alone, and where
    /// its file has the same directory.
    #[must_use]
    pub fn to_json(&self, values: Values<'_>) -> Value {
        let mut map = Map::new();
        match &self.transport {
            Transport::Stdio(stdio) => write_stdio(&mut map, stdio, values),
            Transport::Http(http) => write_http(&mut map, http, values),
            Transport::Plugin(plugin) => write_plugin(&mut map, plugin, values),
            Transport::Orchestrator(there) => write_orchestrator(&mut map, there),
        }
        let usual = Self::new(
            self.name.clone(),
            self.origin.clone(),
            self.transport.clone(),
        );
        if let Some(description) = &self.description {
            map.insert("description".into(), json!(description));
        }
        let durations = [
            ("timeout", Some(self.timeout), Some(usual.timeout)),
            (
                "startTimeout",
                Some(self.start_timeout),
                Some(usual.start_timeout),
            ),
            (
                "probeTimeout",
                Some(self.probe_timeout),
                Some(usual.probe_timeout),
            ),
            ("cacheTtl", self.cache_ttl, None),
            ("idleStop", self.idle_stop, None),
        ];
        for (name, duration, usual) in durations {
            if let Some(duration) = duration.filter(|_| duration != usual) {
                map.insert(name.into(), time(duration));
            }
        }
        let flags = [
            ("disabled", self.disabled, usual.disabled),
            ("lazy", self.lazy, usual.lazy),
            ("prefix", self.prefix, usual.prefix),
            ("trust", self.trust, usual.trust),
        ];
        for (name, flag, usual) in flags {
            if flag != usual {
                map.insert(name.into(), json!(flag));
            }
        }
        if self.max_message_bytes != usual.max_message_bytes {
            map.insert("maxMessageBytes".into(), json!(self.max_message_bytes));
        }
        if self.max_junk_lines != usual.max_junk_lines {
            map.insert("maxJunkLines".into(), json!(self.max_junk_lines));
        }
        write_upkeep(&mut map, self);
        write_rules(&mut map, self);
        Value::Object(map)
    }
}

fn write_stdio(map: &mut Map<String, Value>, stdio: &StdioConfig, values: Values<'_>) {
    map.insert("command".into(), text(&stdio.command));
    if !stdio.args.is_empty() {
        map.insert("args".into(), words(&stdio.args, values));
    }
    write_pairs(map, "env", &stdio.env, values);
    optional(map, "cwd", stdio.cwd.as_ref());
    optional(map, "envFile", stdio.env_file.as_ref());
    write_inherited(map, stdio.inherit_env);
}

fn write_pairs(
    map: &mut Map<String, Value>,
    key: &str,
    pairs: &BTreeMap<String, Template>,
    values: Values<'_>,
) {
    if !pairs.is_empty() {
        let pairs = pairs.iter();
        let pairs = pairs.map(|(name, value)| (name.clone(), secret(name, value, values)));
        put(map, key, Value::Object(pairs.collect()));
    }
}

fn write_inherited(map: &mut Map<String, Value>, inherited: InheritEnv) {
    let inherit = match inherited {
        InheritEnv::Default => return,
        InheritEnv::All => "all",
        InheritEnv::None => "none",
    };
    put(map, "inheritEnv", json!(inherit));
}

fn write_plugin(map: &mut Map<String, Value>, plugin: &PluginConfig, values: Values<'_>) {
    put(map, "binary", text(&plugin.binary));
    if !plugin.args.is_empty() {
        put(map, "args", texts(&plugin.args));
    }
    write_pairs(map, "env", &plugin.env, values);
    write_inherited(map, plugin.inherit_env);
    optional(map, "cwd", plugin.cwd.as_ref());
    write_pairs(map, "config", &plugin.config, values);
    let depends_on: Vec<String> = plugin.depends_on.iter().map(PluginId::to_string).collect();
    for (key, names) in [
        ("providesStorage", &plugin.provides_storage),
        ("providesAi", &plugin.provides_ai),
        ("dependsOn", &depends_on),
    ] {
        if !names.is_empty() {
            put(map, key, json!(names));
        }
    }
    let permitted = plugin.permit.kinds();
    let permitted = permitted.map(|(kind, names)| (kind.to_owned(), json!(names)));
    let permitted: Map<String, Value> = permitted.collect();
    if !permitted.is_empty() {
        put(map, "permit", Value::Object(permitted));
    }
    if plugin.is_legacy {
        put(map, "certs", json!(LEGACY));
    }
    if plugin.shutdown != DEFAULT_SHUTDOWN {
        put(map, "shutdown", time(plugin.shutdown));
    }
}

fn write_orchestrator(map: &mut Map<String, Value>, there: &OrchestratorConfig) {
    put(map, "orchestrator", text(&there.address));
    optional(map, "certsDir", there.certs_dir.as_ref());
}

fn write_http(map: &mut Map<String, Value>, http: &HttpConfig, values: Values<'_>) {
    let kind = match http.flavour {
        // Nothing said is `auto`.
        Flavour::Auto => None,
        Flavour::Streamable => Some("http"),
        Flavour::Sse => Some("sse"),
        Flavour::Rpc => Some("rpc"),
    };
    if let Some(kind) = kind {
        map.insert("type".into(), json!(kind));
    }
    let url = match values {
        Values::Kept => text(&http.url),
        Values::Named(variables) => json!(variables.instead_of(&Slot::address(&http.url))),
    };
    map.insert("url".into(), url);
    if !http.headers.is_empty() {
        let pairs = http.headers.iter();
        let pairs = pairs.map(|(name, value)| (name.clone(), secret(name, value, values)));
        map.insert("headers".into(), Value::Object(pairs.collect()));
    }
    optional(map, "caFile", http.ca_file.as_ref());
    if let Some((certificate, key)) = &http.client_cert {
        optional(map, "clientCert", Some(certificate));
        optional(map, "clientKey", key.as_ref());
    }
    if http.allow_insecure {
        map.insert("allowInsecure".into(), json!(true));
    }
    if let Some(auth) = &http.auth {
        map.insert("auth".into(), auth::write(auth, values));
    }
    if http.connections != Connections::default() {
        let Connections {
            connect,
            first_byte,
            idle,
            kept,
        } = http.connections;
        let value = json!({
            "connect": time(connect), "firstByte": time(first_byte), "idle": time(idle),
            "kept": kept,
        });
        map.insert("connections".into(), value);
    }
}

fn write_upkeep(map: &mut Map<String, Value>, config: &ServerConfig) {
    match config.protocol {
        Protocol::Auto => {}
        Protocol::Modern => put(map, "protocol", json!("modern")),
        Protocol::Legacy => put(map, "protocol", json!("legacy")),
        Protocol::Revision(revision) => put(map, "protocol", json!(revision.as_str())),
    }
    let retry = &config.retry;
    if *retry != Retry::default() {
        let value = json!({
            "attempts": retry.attempts, "backoff": growth(retry.backoff), "initial": time(retry.initial),
            "max": time(retry.max), "unsafe": retry.repeat_unsafe,
        });
        put(map, "retry", value);
    }
    write_starts(map, config);
    if config.pool != Pool::default() {
        let Pool {
            max,
            stateless,
            outstanding,
        } = config.pool;
        let value = json!({"max": max, "stateless": stateless, "outstanding": outstanding});
        put(map, "pool", value);
    }
    if config.grace != Grace::default() {
        let Grace { stdin, term } = config.grace;
        put(
            map,
            "grace",
            json!({"stdin": time(stdin), "term": time(term)}),
        );
    }
    let Health {
        interval,
        timeout,
        max_timeouts,
    } = config.health;
    match interval {
        None => put(map, "health", json!(false)),
        Some(interval) if config.health != Health::default() => {
            let value = json!({
                "interval": time(interval), "timeout": time(timeout), "maxTimeouts": max_timeouts,
            });
            put(map, "health", value);
        }
        Some(_) => {}
    }
    if config.features != super::Features::default() {
        let super::Features {
            roots,
            sampling,
            elicitation,
            secrets,
        } = config.features;
        let value = json!({
            "roots": roots, "sampling": sampling, "elicitation": elicitation, "secrets": secrets,
        });
        put(map, "features", value);
    }
    if !config.roots.is_empty() {
        put(map, "roots", texts(&config.roots));
    }
}

fn write_starts(map: &mut Map<String, Value>, config: &ServerConfig) {
    if config.restart != Restart::default() {
        let Restart {
            backoff,
            initial,
            max,
        } = config.restart;
        let value = json!({
            "backoff": growth(backoff), "initial": time(initial), "max": time(max),
        });
        put(map, "restart", value);
    }
    if config.circuit != Circuit::default() {
        let Circuit {
            failures,
            pause,
            successes,
        } = config.circuit;
        let value = json!({
            "failures": failures, "pause": time(pause), "successes": successes,
        });
        put(map, "circuit", value);
    }
}

const fn growth(backoff: Backoff) -> &'static str {
    match backoff {
        Backoff::Exponential => "exponential",
        Backoff::Linear => "linear",
        Backoff::Constant => "constant",
    }
}

fn write_rules(map: &mut Map<String, Value>, config: &ServerConfig) {
    if config.limits != Limits::default() {
        put(map, "limits", write_limits(&config.limits));
    }
    if let Sandbox::Workspace { read, write } = &config.sandbox {
        let value = json!({
            "mode": "workspace", "read": texts(read), "write": texts(write),
        });
        put(map, "sandbox", value);
    }
    if config.tools != ToolFilter::default() {
        let ToolFilter { allow, deny } = &config.tools;
        put(map, "tools", json!({"allow": allow, "deny": deny}));
    }
    if !config.rules.is_empty() {
        let rules = config.rules.iter().map(|rule| {
            let effect = rule.effect.as_str();
            let pairs = rule.arguments.iter();
            let arguments: Map<String, Value> = pairs
                .map(|(path, pattern)| (path.clone(), json!(pattern)))
                .collect();
            json!({"effect": effect, "tool": rule.tool, "arguments": arguments})
        });
        put(map, "rules", rules.collect());
    }
    if let Some(default) = config.default {
        put(map, "default", json!(default.as_str()));
    }
    if !config.tags.is_empty() {
        put(map, "tags", json!(config.tags));
    }
    if config.pins == Pins::Follow {
        put(map, "pins", json!("follow"));
    }
}

fn write_limits(limits: &Limits) -> Value {
    let (process, budget) = (&limits.process, &limits.budget);
    let all = [
        ("addressSpace", process.address_space.map(Value::from)),
        ("files", process.open_files.map(Value::from)),
        ("processes", process.processes.map(Value::from)),
        ("cpuTime", process.cpu_time.map(time)),
        (
            "requestsPerSecond",
            budget.requests_per_second.map(Value::from),
        ),
        ("burst", budget.burst.map(Value::from)),
        ("concurrency", budget.concurrency.map(Value::from)),
        ("dailyQuota", budget.daily_quota.map(Value::from)),
        ("resultBytes", budget.result_bytes.map(Value::from)),
        ("wait", budget.wait.then_some(Value::Bool(true))),
    ];
    let set = all.into_iter();
    set.filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
}

fn put(map: &mut Map<String, Value>, name: &str, value: Value) {
    map.insert(name.to_owned(), value);
}

fn text(text: &Template) -> Value {
    json!(text.written())
}

fn texts(texts: &[Template]) -> Value {
    texts.iter().map(Template::written).collect()
}

fn optional(map: &mut Map<String, Value>, name: &str, value: Option<&Template>) {
    if let Some(value) = value {
        map.insert(name.to_owned(), text(value));
    }
}

/// A value that may be a secret.
fn secret(name: &str, value: &Template, values: Values<'_>) -> Value {
    match values {
        Values::Kept => text(value),
        Values::Named(variables) => json!(variables.instead_of(&Slot::value(name, value))),
    }
}

/// Words of a command.
fn words<'a>(words: impl IntoIterator<Item = &'a Template>, values: Values<'_>) -> Value {
    match values {
        Values::Kept => words.into_iter().map(Template::written).collect(),
        Values::Named(variables) => {
            let slots = Slot::words(words);
            let words = slots.iter().map(|slot| variables.instead_of(slot));
            words.collect()
        }
    }
}

/// A time as it is read back.
fn time(duration: Duration) -> Value {
    let millis = duration.as_millis();
    match millis % 1_000 {
        0 => json!(format!("{}s", millis / 1_000)),
        _ => json!(format!("{millis}ms")),
    }
}
