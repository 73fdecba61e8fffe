//! How a server is tried again, kept and looked after, out of its object.

use std::time::Duration;

use super::{
    super::{
        Backoff, Circuit, Features, Grace, Health, Pool, Restart, Retry, ServerConfig, Trust,
        fields::Fields, node::Value,
    },
    DAY, MILLISECOND, NOT_HERE, SECOND, small,
};

const BACKOFFS: [(&str, Backoff); 3] = [
    ("exponential", Backoff::Exponential),
    ("linear", Backoff::Linear),
    ("constant", Backoff::Constant),
];

/// How it is tried again, kept and looked after.
pub(super) fn read(fields: &mut Fields<'_>, config: &mut ServerConfig) {
    let inner = fields.object(&["retry", "retry_policy"]);
    if let Some(mut inner) = inner {
        config.retry = retry(&mut inner, config.retry);
        fields.fail_within("retry", inner.end());
    }
    starts(fields, config);
    if let Some(mut inner) = fields.object(&["pool"]) {
        let default = Pool::default();
        config.pool = Pool {
            max: small(inner.number(&["max"], 1..=64)).unwrap_or(default.max),
            stateless: inner.flag(&["stateless"]).unwrap_or(default.stateless),
            outstanding: small(inner.number(&["outstanding"], 1..=4_096))
                .unwrap_or(default.outstanding),
        };
        fields.fail_within("pool", inner.end());
    }
    if let Some(mut inner) = fields.object(&["grace"]) {
        let default = Grace::default();
        let range = Duration::ZERO..=60 * SECOND;
        config.grace = Grace {
            stdin: inner
                .duration(&["stdin"], range.clone())
                .unwrap_or(default.stdin),
            term: inner.duration(&["term"], range).unwrap_or(default.term),
        };
        fields.fail_within("grace", inner.end());
    }
    health(fields, &mut config.health);
    if let Some(mut inner) = fields.object(&["features"]) {
        config.features = Features {
            roots: inner.flag(&["roots"]).unwrap_or(true),
            sampling: inner.flag(&["sampling"]).unwrap_or(true),
            elicitation: inner.flag(&["elicitation"]).unwrap_or(true),
            secrets: secrets(&mut inner, config.origin.trust),
        };
        fields.fail_within("features", inner.end());
    }
}

/// Whether a server may ask for secrets, which only a file that the user chose can allow.
fn secrets(fields: &mut Fields<'_>, trust: Trust) -> bool {
    if trust == Trust::Trusted {
        return fields.flag(&["secrets"]).unwrap_or(false);
    }
    if let Some(member) = fields.take(&["secrets"]) {
        let path = fields.path_of(member);
        fields.report().warn(member.place, &path, NOT_HERE);
    }
    false
}

/// How what failed is tried again; also stands beside servers.
pub(in crate::config) fn retry(fields: &mut Fields<'_>, default: Retry) -> Retry {
    let millis = |fields: &mut Fields<'_>, name| {
        let number = fields.number(&[name], 1..=3_600_000);
        number.map(Duration::from_millis)
    };
    let initial = millis(fields, "initial_delay_ms");
    let max = millis(fields, "max_delay_ms");
    let range = MILLISECOND..=3_600 * SECOND;
    Retry {
        attempts: small(fields.number(&["attempts", "max_attempts"], 1..=20))
            .unwrap_or(default.attempts),
        backoff: fields
            .choice(&["backoff"], &BACKOFFS)
            .unwrap_or(default.backoff),
        initial: fields
            .duration(&["initial"], range.clone())
            .or(initial)
            .unwrap_or(default.initial),
        max: fields
            .duration(&["max"], range)
            .or(max)
            .unwrap_or(default.max),
        repeat_unsafe: fields.flag(&["unsafe"]).unwrap_or(default.repeat_unsafe),
    }
}

/// How it is started again, and when it is left alone.
fn starts(fields: &mut Fields<'_>, config: &mut ServerConfig) {
    let hour = MILLISECOND..=3_600 * SECOND;
    if let Some(mut inner) = fields.object(&["restart"]) {
        let default = config.restart;
        config.restart = Restart {
            backoff: inner
                .choice(&["backoff"], &BACKOFFS)
                .unwrap_or(default.backoff),
            initial: inner
                .duration(&["initial"], hour.clone())
                .unwrap_or(default.initial),
            max: inner.duration(&["max"], hour).unwrap_or(default.max),
        };
        fields.fail_within("restart", inner.end());
    }
    if let Some(mut inner) = fields.object(&["circuit"]) {
        let default = config.circuit;
        config.circuit = Circuit {
            failures: small(inner.number(&["failures"], 1..=1_000)).unwrap_or(default.failures),
            pause: inner
                .duration(&["pause"], MILLISECOND..=DAY)
                .unwrap_or(default.pause),
            successes: small(inner.number(&["successes"], 1..=1_000)).unwrap_or(default.successes),
        };
        fields.fail_within("circuit", inner.end());
    }
}

/// `false`, or an object.
fn health(fields: &mut Fields<'_>, health: &mut Health) {
    let Some(member) = fields.take(&["health"]) else {
        return;
    };
    match member.node.value {
        Value::Bool(false) => health.interval = None,
        Value::Bool(true) => {}
        Value::Map(_) => {
            let path = fields.path_of(member);
            let Some(mut inner) = Fields::of(&member.node, &path, fields.report()) else {
                return;
            };
            let interval = inner.duration(&["interval"], SECOND..=DAY);
            let timeout = inner.duration(&["timeout"], MILLISECOND..=600 * SECOND);
            let timeouts = inner.number(&["max_timeouts"], 1..=100);
            *health = Health {
                interval: interval.or(health.interval),
                timeout: timeout.unwrap_or(health.timeout),
                max_timeouts: small(timeouts).unwrap_or(health.max_timeouts),
            };
            let ended = inner.end();
            fields.fail_within("health", ended);
        }
        _ => fields.wrong(member, "must be false or an object"),
    }
}
