//! A plugin, out of its object: as `orchestra.toml` has it below `plugins`, or as an entry of the
//! list of a `plugins.yaml`.

use std::{collections::BTreeMap, time::Duration};

use super::{
    super::{
        InheritEnv, Origin, Permit, PluginConfig, PluginId, ServerConfig, Template, Transport,
        fields::Fields,
        plugin::{DEFAULT_SHUTDOWN, LEGACY},
        plugin_list::{Wording, beside},
    },
    SECOND, reach,
};

/// The most texts of a list; no plugin has as many.
const MAX_TEXTS: usize = 256;

/// The longest name of a kind of storage or of a provider of models.
const MAX_NAME_CHARS: usize = 128;

/// Reads a plugin of this id; `None` when it cannot be told how it is started.
pub(super) fn read(
    fields: &mut Fields<'_>,
    id: &str,
    wording: Wording,
    origin: &Origin,
) -> Option<Transport> {
    let id = match id.parse::<PluginId>() {
        Ok(id) => id,
        Err(error) => {
            fields.unusable(error.to_string());
            return None;
        }
    };
    let directory = beside(&origin.file);
    let Some(binary) = fields.text(&["binary"]).filter(|text| !text.is_empty()) else {
        fields.missing(
            "needs `binary`, the path of its program relative to the directory of this file",
        );
        return None;
    };
    let args = fields.texts(&["args"]).unwrap_or_default();
    let args = match wording {
        Wording::Ours => args,
        Wording::List => {
            let here = format!("--workspace={}", directory.display());
            let put_in = |arg: String| {
                if arg == "--workspace=." {
                    here.clone()
                } else {
                    arg
                }
            };
            args.into_iter().map(put_in).collect()
        }
    };
    let text = |text: String| match wording {
        Wording::Ours => Template::new(text),
        // Nothing is put into a text there.
        Wording::List => Template::literal(&text),
    };
    let env = reach::environment(fields).into_iter();
    let config = fields.pairs(&["config"]).unwrap_or_default().into_iter();
    let all = |pairs: &mut dyn Iterator<Item = (String, String)>| -> BTreeMap<String, Template> {
        pairs.map(|(name, value)| (name, text(value))).collect()
    };
    Some(Transport::Plugin(PluginConfig {
        id,
        binary: text(binary),
        directory,
        args: args.into_iter().map(text).collect(),
        env: all(&mut { env }),
        config: all(&mut { config }),
        provides_storage: names(fields, "provides_storage"),
        provides_ai: names(fields, "provides_ai"),
        permit: match wording {
            Wording::Ours => permit(fields),
            Wording::List => Permit::default(),
        },
        depends_on: depends_on(fields),
        inherit_env: match wording {
            Wording::Ours => reach::inherit(fields),
            Wording::List => InheritEnv::All,
        },
        cwd: match wording {
            Wording::Ours => fields.template(&["cwd"]),
            Wording::List => None,
        },
        shutdown: match wording {
            Wording::Ours => {
                let time = fields.duration(&["shutdown"], Duration::ZERO..=60 * SECOND);
                time.unwrap_or(DEFAULT_SHUTDOWN)
            }
            Wording::List => DEFAULT_SHUTDOWN,
        },
        is_legacy: match wording {
            Wording::Ours => is_legacy(fields),
            Wording::List => true,
        },
    }))
}

/// Whether its certificates lie as those of plugins of the past do.
fn is_legacy(fields: &mut Fields<'_>) -> bool {
    match fields.text(&["certs"]).as_deref() {
        None | Some("own") => false,
        Some(LEGACY) => true,
        Some(_) => {
            fields.unusable(format!("certs: `own` or `{LEGACY}`"));
            false
        }
    }
}

/// Names of what it provides.
fn names(fields: &mut Fields<'_>, key: &'static str) -> Vec<String> {
    let names = fields.texts(&[key]).unwrap_or_default();
    let is_name = |name: &String| {
        (1..=MAX_NAME_CHARS).contains(&name.chars().count()) && !name.chars().any(char::is_control)
    };
    if names.len() > MAX_TEXTS || !names.iter().all(is_name) {
        fields.unusable(format!(
            "{key}: at most {MAX_TEXTS} names of 1 to {MAX_NAME_CHARS} characters"
        ));
    }
    names
}

/// What it may have of what it needs.
fn permit(fields: &mut Fields<'_>) -> Permit {
    let Some(mut inner) = fields.object(&["permit"]) else {
        return Permit::default();
    };
    let mut list = |key: &'static str| {
        let names = inner.texts(&[key])?;
        if names.len() > MAX_TEXTS {
            inner.unusable(format!("permit.{key}: at most {MAX_TEXTS} names"));
        }
        Some(names)
    };
    let permit = Permit {
        tools: list("tools"),
        storage: list("storage"),
        ai: list("ai"),
        events: list("events"),
    };
    // What is misspelt would leave unbounded what was meant to be bounded.
    if let Some(key) = inner.first_unknown() {
        inner.unusable(format!(
            "permit.{key}: the keys are tools, storage, ai and events"
        ));
    }
    let inner = inner.end();
    fields.fail_within("permit", inner);
    permit
}

fn depends_on(fields: &mut Fields<'_>) -> Vec<PluginId> {
    let texts = fields.texts(&["depends_on"]).unwrap_or_default();
    if texts.len() > MAX_TEXTS {
        fields.unusable(format!("depends_on: at most {MAX_TEXTS} plugins"));
        return Vec::new();
    }
    let mut ids = Vec::with_capacity(texts.len());
    for text in texts {
        match text.parse() {
            Ok(id) => ids.push(id),
            Err(error) => {
                let shown: String = text.chars().take(80).collect();
                fields.unusable(format!("depends_on: `{}`: {error}", shown.escape_debug()));
            }
        }
    }
    ids
}

/// What cannot be set of a plugin as it can of a server.
pub(super) fn check(fields: &mut Fields<'_>, config: &ServerConfig) {
    if !matches!(config.transport, Transport::Plugin(_)) {
        return;
    }
    if config.sandbox.is_some() {
        fields.unusable(
            "sandbox: it blocks the network, over which a plugin is reached; remove it".into(),
        );
    }
    if matches!(&config.transport, Transport::Plugin(plugin) if !plugin.provides_ai.is_empty())
        && !config.prefix
    {
        fields.unusable(
            "prefix: required, because model providers have tools with the same names; remove this key"
                .into(),
        );
    }
    if config.pool.max > 1 {
        fields.unusable("pool: a plugin has one process; remove `max`".into());
    }
}
