//! One server, out of the object that describes it.

mod access;
mod oauth;
mod plugin;
mod reach;
mod rules;
mod upkeep;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use orchestra_wire::Revision;

use super::{
    Budget, Effect, Input, Limits, Origin, Pins, ProcessLimits, Protocol, Retry, Sandbox,
    ServerConfig, ServerName, ToolFilter, Trust,
    fields::Fields,
    node::Value,
    plugin_list::{self, Wording},
    report::Report,
    shape::{Kind, Named},
};
pub(super) use rules::default;
pub(super) use upkeep::retry;

/// What stands beside the servers of a file and holds for all of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Shared {
    pub(super) inputs: Arc<BTreeMap<String, Input>>,
    pub(super) retry: Retry,
    pub(super) health_interval: Option<Duration>,
    pub(super) concurrency: Option<u32>,
    pub(super) disabled: bool,
    /// What becomes of calls that no rule is about.
    pub(super) default: Option<Effect>,
    /// Whether that is `deny` because what was said cannot be understood.
    pub(super) is_misread: bool,
}

const SECOND: Duration = Duration::from_secs(1);
const MILLISECOND: Duration = Duration::from_millis(1);
const DAY: Duration = Duration::from_secs(86_400);

/// A server and what makes it unusable.
pub(super) type Read = Result<ServerConfig, String>;

/// Reads a server. What is wrong goes to the report as well.
pub(super) fn read(named: &Named<'_>, origin: Origin, shared: &Shared, report: &Report) -> Read {
    let shown_name = named.name;
    let fields = Fields::of(named.node, &named.path, report);
    let mut fields = fields.ok_or("it must be an object")?;
    let transport = match named.kind {
        Kind::Server => reach::read(&mut fields),
        Kind::Plugin(wording) => plugin::read(&mut fields, shown_name, wording, &origin),
    };
    let Some(transport) = transport else {
        let error = fields.into_error();
        return Err(error.unwrap_or_else(|| "it cannot be reached".into()));
    };
    let name = ServerName::of_text(shown_name);
    let asks = origin.trust == Trust::Ask;
    let mut config = ServerConfig::new(name, origin, transport);
    shown_name.clone_into(&mut config.shown_name);
    if named.kind == Kind::Plugin(Wording::List) {
        return entry(fields, config);
    }
    config.inputs = Arc::clone(&shared.inputs);
    config.retry = shared.retry;
    config.limits.budget.concurrency = shared.concurrency;
    if let Some(interval) = shared.health_interval {
        config.health.interval = Some(interval);
    }
    general(&mut fields, &mut config);
    config.disabled |= shared.disabled;
    upkeep::read(&mut fields, &mut config);
    config.limits = limits(&mut fields, config.limits);
    config.sandbox = access::sandbox(&mut fields);
    config.tools = tools(&mut fields);
    config.rules = rules::read(&mut fields);
    config.default = default(&mut fields).or(shared.default);
    believed(&mut fields, &mut config, asks);
    warn_of_cache(&mut fields, &config);
    plugin::check(&mut fields, &config);
    fields.ignore(&FOREIGN);
    fields.end().map(|()| config)
}

/// An entry of a list of plugins says nothing else of one.
fn entry(mut fields: Fields<'_>, mut config: ServerConfig) -> Read {
    let enabled = fields.take(&["enabled"]);
    config.disabled = match enabled.map(|member| (member, plugin_list::flag(&member.node))) {
        None => true,
        Some((_, Some(enabled))) => !enabled,
        Some((member, None)) => {
            let kind = member.node.value.kind();
            fields.wrong(member, format!("must be true or false, not {kind}"));
            true
        }
    };
    fields.ignore(&["id"]);
    fields.end().map(|()| config)
}

/// Names that other programs use. They give no permission here and take none.
const FOREIGN: [&str; 19] = [
    "alwaysAllow",
    "autoApprove",
    "autoApproveTools",
    "capabilities",
    "dev",
    "gallery",
    "healthUrl",
    "icon",
    "id",
    "metadata",
    "name",
    "official",
    "projectId",
    "provider",
    "registry",
    "schemaVersion",
    "settings",
    "source",
    "version",
];

fn general(fields: &mut Fields<'_>, config: &mut ServerConfig) {
    config.description = fields.text(&["description"]);
    let timeout = fields.duration(&["timeout", "tool_timeout_sec"], MILLISECOND..=DAY);
    config.timeout = timeout.unwrap_or(config.timeout);
    let names = ["start_timeout", "startup_timeout_sec"];
    let start = fields.duration(&names, MILLISECOND..=DAY);
    config.start_timeout = start.unwrap_or(config.start_timeout);
    let probe = fields.duration(&["probe_timeout"], MILLISECOND..=60 * SECOND);
    config.probe_timeout = probe.unwrap_or(config.probe_timeout);
    config.disabled = fields.flag(&["disabled"]).unwrap_or(false);
    config.disabled |= !fields.flag(&["enabled"]).unwrap_or(true);
    config.lazy = fields.flag(&["lazy"]).unwrap_or(false);
    config.prefix = fields.flag(&["prefix"]).unwrap_or(config.prefix);
    config.tags = fields.texts(&["tags"]).unwrap_or_default();
    config.roots = fields.templates(&["roots"]).unwrap_or_default();
    config.protocol = protocol(fields);
    let names = ["max_message_bytes"];
    if let Some(bytes) = fields.bytes(&names, 4_096..=1 << 30) {
        config.max_message_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    }
    let lines = fields.number(&["max_junk_lines"], 1..=10_000);
    config.max_junk_lines = small(lines).unwrap_or(config.max_junk_lines);
    config.cache_ttl = fields
        .duration(&["cache_ttl"], Duration::ZERO..=DAY)
        .filter(|ttl| !ttl.is_zero());
    config.idle_stop = fields
        .duration(&["idle_stop"], Duration::ZERO..=DAY)
        .filter(|idle| !idle.is_zero());
}

fn protocol(fields: &mut Fields<'_>) -> Protocol {
    let revisions = Revision::ALL.map(|revision| (revision.as_str(), Protocol::Revision(revision)));
    let mut choices = vec![
        ("auto", Protocol::Auto),
        ("modern", Protocol::Modern),
        ("legacy", Protocol::Legacy),
    ];
    choices.extend(revisions);
    fields.choice(&["protocol"], &choices).unwrap_or_default()
}

fn limits(fields: &mut Fields<'_>, default: Limits) -> Limits {
    // The rate of [M]: calls a minute, 0 for any number.
    let per_minute = fields.number(&["rate_limit"], 0..=60_000_000);
    #[expect(clippy::cast_precision_loss, reason = "the range fits")]
    let per_second = per_minute
        .filter(|calls| *calls > 0)
        .map(|calls| calls as f64 / 60.0);
    let mut limits = default;
    limits.budget.requests_per_second = per_second;
    let Some(mut inner) = fields.object(&["limits"]) else {
        return limits;
    };
    let any = 1..=u64::MAX;
    limits.process = ProcessLimits {
        address_space: inner.bytes(&["address_space", "memory"], 1 << 20..=u64::MAX),
        open_files: inner.number(&["files", "open_files"], 8..=u64::MAX),
        processes: inner.number(&["processes"], any.clone()),
        cpu_time: inner.duration(&["cpu_time"], SECOND..=365 * DAY),
    };
    let names = ["requests_per_second"];
    limits.budget = Budget {
        requests_per_second: inner.rate(&names, 1e6).or(per_second),
        burst: small(inner.number(&["burst", "burst_size"], 1..=1_000_000)),
        concurrency: small(inner.number(&["concurrency", "concurrency_limit"], 1..=4_096))
            .or(limits.budget.concurrency),
        daily_quota: inner.number(&["daily_quota"], any),
        result_bytes: inner.bytes(&["result_bytes"], 1_024..=1 << 30),
        wait: inner.flag(&["wait"]).unwrap_or(false),
    };
    fields.fail_within("limits", inner.end());
    limits
}

/// Which tools are offered; other programs have lists of their own.
fn tools(fields: &mut Fields<'_>) -> ToolFilter {
    let mut filter = ToolFilter {
        allow: fields
            .texts(&["include_tools", "enabled_tools"])
            .unwrap_or_default(),
        deny: fields
            .texts(&["exclude_tools", "disabled_tools"])
            .unwrap_or_default(),
    };
    let Some(member) = fields.take(&["tools"]) else {
        return filter;
    };
    // Some clients list all tools here, or say `*` for them.
    if !matches!(member.node.value, Value::Map(_)) {
        let named = fields.texts(&["tools"]).unwrap_or_default();
        filter.allow.extend(named);
        return filter;
    }
    if let Some(mut inner) = fields.object(&["tools"]) {
        filter
            .allow
            .extend(inner.texts(&["allow"]).unwrap_or_default());
        filter
            .deny
            .extend(inner.texts(&["deny"]).unwrap_or_default());
        fields.fail_within("tools", inner.end());
    }
    filter
}

/// Diagnostic for a key that only a file of the user's choice may set.
const NOT_HERE: &str =
    "is ignored in a file of the workspace, because other people may have written it";

/// What a file may say of its own servers only when the user chose it.
fn believed(fields: &mut Fields<'_>, config: &mut ServerConfig, asks: bool) {
    let pins = [("ask", Pins::Ask), ("follow", Pins::Follow)];
    if asks {
        for name in ["trust", "pins"] {
            if let Some(member) = fields.take(&[name]) {
                let path = fields.path_of(member);
                fields.report().warn(member.place, &path, NOT_HERE);
            }
        }
        return;
    }
    config.trust = fields.flag(&["trust"]).unwrap_or(false);
    config.pins = fields.choice(&["pins"], &pins).unwrap_or_default();
}

/// Which of its tools only read, nobody but the server says.
fn warn_of_cache(fields: &mut Fields<'_>, config: &ServerConfig) {
    const UNUSED: &str = "is ignored without `trust`, which only a file of the user can set: only the server itself declares which of its tools only read";
    if config.cache_ttl.is_some()
        && !config.trust
        && let Some(member) = fields.take(&["cache_ttl"])
    {
        let path = fields.path_of(member);
        fields.report().warn(member.place, &path, UNUSED);
    }
}

/// A number whose range fits.
fn small(number: Option<u64>) -> Option<u32> {
    number.map(|number| u32::try_from(number).expect("the range fits"))
}

/// Whether a server is confined at all.
impl Sandbox {
    /// Whether its process is confined.
    #[must_use]
    pub const fn is_some(&self) -> bool {
        matches!(self, Self::Workspace { .. })
    }
}
