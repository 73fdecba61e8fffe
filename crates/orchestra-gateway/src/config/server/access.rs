//! Who we say we are to a server, and what its process may reach, out of its object.

use super::{
    super::{
        Auth, OAuth, Sandbox, Template,
        fields::{Fields, same},
        node::Value,
    },
    oauth,
};

/// `oauth`, or an object with a type.
pub(super) fn auth(fields: &mut Fields<'_>) -> Option<Auth> {
    let member = fields.take(&["auth", "oauth"])?;
    match &member.node.value {
        Value::Text(text) if same(text, "oauth") => return Some(Auth::OAuth(OAuth::default())),
        // Some clients say so of servers that need no sign-in.
        Value::Bool(false) => return None,
        Value::Bool(true) => return Some(Auth::OAuth(OAuth::default())),
        Value::Text(text) if same(text, "none") => return None,
        _ => {}
    }
    let is_oauth = same(&member.key, "oauth");
    let path = fields.path_of(member);
    let Some(mut inner) = Fields::of(&member.node, &path, fields.report()) else {
        fields.fail("auth: must be an object".into());
        return None;
    };
    let kinds = [
        ("bearer", Kind::Bearer),
        ("env", Kind::Env),
        ("command", Kind::Command),
        ("oauth", Kind::OAuth(oauth::Kind::Person)),
        ("client_credentials", Kind::OAuth(oauth::Kind::Client)),
        ("workload", Kind::OAuth(oauth::Kind::Workload)),
        ("workload_identity", Kind::OAuth(oauth::Kind::Workload)),
        ("enterprise", Kind::OAuth(oauth::Kind::Enterprise)),
    ];
    let kind = inner.choice(&["type"], &kinds);
    let kind = kind.or(is_oauth.then_some(Kind::OAuth(oauth::Kind::Person)));
    let auth = match kind {
        None => {
            inner.missing(
                "needs `type`: bearer, env, command, oauth, client_credentials, workload or enterprise",
            );
            None
        }
        Some(kind) => {
            let auth = kind.read(&mut inner);
            if auth.is_none() {
                inner.missing(kind.needs());
            }
            auth
        }
    };
    let ended = inner.end();
    fields.fail_within("auth", ended);
    auth
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bearer,
    Env,
    Command,
    OAuth(oauth::Kind),
}

impl Kind {
    const fn needs(self) -> &'static str {
        match self {
            Self::Bearer => "say `token`, as \"${VARIABLE}\"",
            Self::Env => "needs `variable`, the name of an environment variable",
            Self::Command => "needs `command`, a program that prints a token",
            Self::OAuth(_) => "say what it is asked for by",
        }
    }

    fn read(self, inner: &mut Fields<'_>) -> Option<Auth> {
        match self {
            Self::Bearer => inner.template(&["token", "value"]).map(Auth::Bearer),
            Self::Env => {
                let names = ["variable", "name", "value", "env"];
                inner.text(&names).map(Auth::Env)
            }
            Self::Command => {
                let mut words = inner.templates(&["command"])?.into_iter();
                let command = words.next()?;
                let mut args: Vec<Template> = words.collect();
                args.extend(inner.templates(&["args"]).unwrap_or_default());
                Some(Auth::Command { command, args })
            }
            Self::OAuth(kind) => kind.read(inner),
        }
    }
}

/// A word, or an object.
pub(super) fn sandbox(fields: &mut Fields<'_>) -> Sandbox {
    let Some(member) = fields.take(&["sandbox"]) else {
        return Sandbox::None;
    };
    let workspace = |read, write| Sandbox::Workspace { read, write };
    match &member.node.value {
        Value::Bool(false) => Sandbox::None,
        Value::Text(text) if same(text, "none") => Sandbox::None,
        Value::Bool(true) => workspace(Vec::new(), Vec::new()),
        Value::Text(text) if same(text, "workspace") => workspace(Vec::new(), Vec::new()),
        Value::Map(_) => {
            let path = fields.path_of(member);
            let Some(mut inner) = Fields::of(&member.node, &path, fields.report()) else {
                return Sandbox::None;
            };
            let confined = inner.choice(&["mode"], &[("workspace", true), ("none", false)]);
            let sandbox = workspace(
                inner.templates(&["read"]).unwrap_or_default(),
                inner.templates(&["write"]).unwrap_or_default(),
            );
            let ended = inner.end();
            fields.fail_within("sandbox", ended);
            if confined.unwrap_or(true) {
                sandbox
            } else {
                Sandbox::None
            }
        }
        _ => {
            fields.wrong(member, "must be \"none\", \"workspace\" or an object");
            Sandbox::None
        }
    }
}
