//! Who we say we are to a server, and what its process may reach, out of its object.

use super::super::{
    Auth, Sandbox, Template,
    fields::{Fields, same},
    node::Value,
};

/// `oauth`, or an object with a type.
pub(super) fn auth(fields: &mut Fields<'_>) -> Option<Auth> {
    let member = fields.take(&["auth", "oauth"])?;
    match &member.node.value {
        Value::Text(text) if same(text, "oauth") => return Some(oauth(None)),
        // Some clients say so of servers that need no sign-in.
        Value::Bool(false) => return None,
        Value::Bool(true) => return Some(oauth(None)),
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
        ("oauth", Kind::OAuth),
    ];
    let kind = inner.choice(&["type"], &kinds);
    let kind = kind.or(is_oauth.then_some(Kind::OAuth));
    let auth = match kind {
        None => {
            inner.missing("say `type`: bearer, env, command or oauth");
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
    OAuth,
}

impl Kind {
    const fn needs(self) -> &'static str {
        match self {
            Self::Bearer => "say `token`, as \"${VARIABLE}\"",
            Self::Env => "say `variable`, the name of a variable",
            Self::Command => "say `command`, a program that prints a token",
            Self::OAuth => "it must be an object",
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
            Self::OAuth => Some(oauth(Some(inner))),
        }
    }
}

fn oauth(inner: Option<&mut Fields<'_>>) -> Auth {
    let Some(inner) = inner else {
        return Auth::OAuth {
            client_id: None,
            client_secret: None,
            scopes: Vec::new(),
            redirect_port: None,
        };
    };
    let scopes = inner.texts(&["scopes", "scope"]).unwrap_or_default();
    let split = scopes.iter().flat_map(|scope| scope.split_whitespace());
    let port = inner.number(&["redirectPort", "callbackPort"], 1..=65_535);
    Auth::OAuth {
        client_id: inner.template(&["clientId"]),
        client_secret: inner.template(&["clientSecret"]),
        scopes: split.map(str::to_owned).collect(),
        redirect_port: port.map(|port| u16::try_from(port).expect("the range fits")),
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
