//! Texts with variables in them: `${VAR}`, `${VAR:-default}`, `${env:VAR}`, and `$$` for a dollar.
//!
//! They are put in when something is sent and kept nowhere. Where the values come from is up to
//! [`Secrets`].

use std::{fmt, sync::Arc};

use crate::client::ClientError;

/// The longest template: a header that is longer is refused by most servers.
const MAX_TEMPLATE_BYTES: usize = 16 * 1024;

/// Knows the values of variables.
pub trait Secrets: Send + Sync + 'static {
    /// The value of a variable, as it is named between the braces and without `env:`. Other
    /// prefixes (`input:token`) are left to whoever implements this.
    fn value(&self, name: &str) -> Option<String>;

    /// Why a variable has no value, where more can be said of that than its name. Never a secret.
    fn why_missing(&self, _name: &str) -> Option<String> {
        None
    }
}

/// The variables of this process.
#[derive(Debug, Clone, Copy, Default)]
pub struct Environment;

impl Secrets for Environment {
    fn value(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

impl<F: Fn(&str) -> Option<String> + Send + Sync + 'static> Secrets for F {
    fn value(&self, name: &str) -> Option<String> {
        self(name)
    }
}

/// A text with variables. `Debug` shows their names and never their values; text that stands in
/// the template itself may be a secret too and is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Template(Arc<[Piece]>);

#[derive(Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Variable {
        name: String,
        default: Option<String>,
    },
}

/// Why a text is no template, or cannot be filled in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// A `${` without its `}`.
    #[error("`${{` has no `}}`; write `$$` for a dollar sign")]
    Open,
    /// `${}`.
    #[error("`${{}}` names no variable")]
    Nameless,
    /// It is too long.
    #[error("the text is longer than {MAX_TEMPLATE_BYTES} bytes")]
    Long,
    /// A variable has no value and no default.
    #[error("the variable {0} is not set; set it, or give a default as `${{{0}:-…}}`")]
    Missing(String),
    /// What a variable stands for cannot be had.
    #[error("{0}")]
    Unavailable(String),
    /// A variable is set to nothing.
    #[error("the variable {0} is empty")]
    Empty(String),
}

impl Template {
    /// Parses a text.
    ///
    /// # Errors
    /// When a `${` is not closed or names nothing, or the text is too long.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        if text.len() > MAX_TEMPLATE_BYTES {
            return Err(TemplateError::Long);
        }
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            plain.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix('$') {
                plain.push('$');
                rest = after;
            } else if let Some(inner) = rest.strip_prefix('{') {
                let (inner, after) = inner.split_once('}').ok_or(TemplateError::Open)?;
                let (name, default) = match inner.split_once(":-") {
                    Some((name, default)) => (name, Some(default.to_owned())),
                    None => (inner, None),
                };
                let name = name.strip_prefix("env:").unwrap_or(name).trim();
                if name.is_empty() {
                    return Err(TemplateError::Nameless);
                }
                if !plain.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut plain)));
                }
                let name = name.to_owned();
                pieces.push(Piece::Variable { name, default });
                rest = after;
            } else {
                plain.push('$');
            }
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Self(pieces.into()))
    }

    /// A text as it is, without variables.
    #[must_use]
    pub fn verbatim(text: impl Into<String>) -> Self {
        Self(Arc::new([Piece::Text(text.into())]))
    }

    /// Puts the values in.
    ///
    /// # Errors
    /// When a variable without a default is not set, or a variable is set to nothing: half a
    /// secret is never sent.
    pub fn expand(&self, secrets: &dyn Secrets) -> Result<String, TemplateError> {
        let mut text = String::new();
        for piece in &*self.0 {
            match piece {
                Piece::Text(plain) => text.push_str(plain),
                Piece::Variable { name, default } => {
                    match secrets.value(name).filter(|value| !value.is_empty()) {
                        Some(value) => text.push_str(&value),
                        None => match default {
                            Some(default) => text.push_str(default),
                            None if secrets.value(name).is_some() => {
                                return Err(TemplateError::Empty(name.clone()));
                            }
                            None => {
                                let missing = || TemplateError::Missing(name.clone());
                                let why = secrets.why_missing(name);
                                return Err(why.map_or_else(missing, TemplateError::Unavailable));
                            }
                        },
                    }
                }
            }
        }
        Ok(text)
    }

    /// Whether it has variables.
    #[must_use]
    pub fn has_variables(&self) -> bool {
        self.variables().next().is_some()
    }

    /// The variables, in their order.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Variable { name, .. } => Some(name.as_str()),
        })
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for piece in &*self.0 {
            match piece {
                Piece::Text(_) => f.write_str("…")?,
                Piece::Variable { name, .. } => write!(f, "${{{name}}}")?,
            }
        }
        Ok(())
    }
}

/// A template that cannot be filled in, as an error of a call: `what` names the setting.
pub(super) fn invalid(what: &str, error: &TemplateError) -> ClientError {
    ClientError::InvalidConfig {
        what: format!("{what}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(text: &str) -> Result<String, TemplateError> {
        let secrets = |name: &str| match name {
            "TOKEN" => Some("abc".to_owned()),
            "NOTHING" => Some(String::new()),
            "input:key" => Some("typed".to_owned()),
            _ => None,
        };
        Template::parse(text)?.expand(&secrets)
    }

    #[test]
    fn variables_are_put_in_and_a_missing_one_is_named() {
        let missing = |name: &str| Err(TemplateError::Missing(name.to_owned()));
        for (text, expected) in [
            ("plain", Ok("plain".to_owned())),
            ("", Ok(String::new())),
            ("Bearer ${TOKEN}", Ok("Bearer abc".to_owned())),
            ("${env:TOKEN}", Ok("abc".to_owned())),
            ("${TOKEN:-other}", Ok("abc".to_owned())),
            ("${GONE:-other}", Ok("other".to_owned())),
            ("${GONE:-}", Ok(String::new())),
            ("${input:key}", Ok("typed".to_owned())),
            ("$$ and $${TOKEN}", Ok("$ and ${TOKEN}".to_owned())),
            ("$TOKEN costs 5$", Ok("$TOKEN costs 5$".to_owned())),
            ("Bearer ${GONE}", missing("GONE")),
            ("${env:GONE}", missing("GONE")),
            (
                "${NOTHING}",
                Err(TemplateError::Empty("NOTHING".to_owned())),
            ),
            ("${TOKEN", Err(TemplateError::Open)),
            ("${}", Err(TemplateError::Nameless)),
        ] {
            assert_eq!(expand(text), expected, "{text}");
        }
    }

    #[test]
    fn nothing_of_a_template_but_names_is_shown() {
        let template = Template::parse("Bearer s3cret-${TOKEN}").unwrap();
        assert_eq!(format!("{template:?}"), "…${TOKEN}");
    }
}
