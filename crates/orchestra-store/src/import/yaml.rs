//! Fields of a YAML file of the earlier program, which checked little of what it wrote.

use orchestra_board::{Body, Label, Timestamp, Title};
use serde_norway::Value;

/// A mapping.
pub(super) struct Fields(Value);

/// Whether a `project-status.toon` is one of the earlier program.
pub(super) fn is_project(text: &str) -> bool {
    Fields::parse(text).is_some_and(|fields| fields.has("project"))
}

impl Fields {
    /// Parses a file of the earlier program; `None` for anything else, files of ours included.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let first = text
            .lines()
            .map(str::trim)
            .find(|line| !line.is_empty() && !line.starts_with('#'))?;
        if first.starts_with("schema:") {
            return None;
        }
        orchestra_fs::check_yaml_depth(text).ok()?;
        let value: Value = serde_norway::from_str(text).ok()?;
        value.is_mapping().then_some(Self(value))
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.0.get(key).is_some()
    }

    /// The keys whose values are not empty.
    pub(super) fn keys(&self) -> impl Iterator<Item = String> {
        let is_empty = |value: &Value| match value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Sequence(items) => items.is_empty(),
            Value::Mapping(members) => members.is_empty(),
            _ => false,
        };
        let members = self.0.as_mapping().into_iter().flatten();
        members
            .filter(move |(_, value)| !is_empty(value))
            .map(|(key, _)| scalar(key).unwrap_or_else(|| "a key that is no text".to_owned()))
    }

    /// A scalar as text.
    pub(super) fn text(&self, key: &str) -> Option<String> {
        scalar(self.0.get(key)?)
    }

    pub(super) fn title(&self, key: &str) -> Option<Title> {
        Title::cut(&self.text(key)?)
    }

    pub(super) fn body(&self, key: &str) -> Body {
        body(&self.text(key).unwrap_or_default())
    }

    pub(super) fn label(&self, key: &str) -> Option<Label> {
        label(&self.text(key)?)
    }

    pub(super) fn time(&self, key: &str) -> Option<Timestamp> {
        Timestamp::parse(&self.text(key)?).ok()
    }

    pub(super) fn number(&self, key: &str) -> u64 {
        self.0.get(key).and_then(Value::as_u64).unwrap_or_default()
    }

    pub(super) fn amount(&self, key: &str) -> f64 {
        self.0.get(key).and_then(Value::as_f64).unwrap_or_default()
    }

    /// A list of scalars.
    pub(super) fn texts(&self, key: &str) -> Vec<String> {
        let values = self.0.get(key).and_then(Value::as_sequence);
        values.into_iter().flatten().filter_map(scalar).collect()
    }

    /// A list of mappings.
    pub(super) fn rows(&self, key: &str) -> Vec<Self> {
        let values = self.0.get(key).and_then(Value::as_sequence);
        values
            .into_iter()
            .flatten()
            .filter(|value| value.is_mapping())
            .cloned()
            .map(Self)
            .collect()
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A text made to fit: control characters dropped, cut where it is too long.
pub(super) fn body(text: &str) -> Body {
    let clean: String = text
        .chars()
        .filter(|c| !c.is_control() || matches!(c, '\n' | '\r' | '\t'))
        .collect();
    let end = clean.floor_char_boundary(Body::MAX_BYTES);
    Body::parse(&clean[..end]).expect("was made to fit on the lines above")
}

/// A label made to fit; `None` when nothing is left.
pub(super) fn label(text: &str) -> Option<Label> {
    let clean: String = text.chars().filter(|c| !c.is_control()).collect();
    let cut: String = clean.trim().chars().take(50).collect();
    Label::parse(&cut).ok()
}
