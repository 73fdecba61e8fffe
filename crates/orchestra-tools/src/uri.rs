//! URIs of the built-in resources, parsed strictly: what is not one of the three forms, letter for
//! letter after percent-decoding, is refused before anything is looked up.

use std::fmt;

use orchestra_board::{IssueId, IssueRef, Slug};

/// The template of a PRD's URI.
pub(crate) const PRD_TEMPLATE: &str = "toon://project/{slug}/prd";
/// The template of a project's status.
pub(crate) const STATUS_TEMPLATE: &str = "toon://project/{slug}/status";
/// The template of a task.
pub(crate) const TASK_TEMPLATE: &str = "toon://project/{slug}/task/{epicId}/{storyId}/{taskId}";

/// The longest URI that is looked at: the longest ids, every byte of them percent-encoded, fit.
const MAX_URI_BYTES: usize = 1_024;

/// What a URI means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ResourceUri {
    /// The PRD document of a project.
    Prd(Slug),
    /// A project with counts.
    Status(Slug),
    /// A task.
    Task(IssueRef),
}

/// Why a text is no URI of a built-in resource.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UriError {
    /// It has none of the three forms.
    #[error(
        "no such resource; the forms are {PRD_TEMPLATE}, {STATUS_TEMPLATE} and {TASK_TEMPLATE}"
    )]
    OtherForm,
    /// A part of it is not what it should be.
    #[error("{0}")]
    Part(String),
}

impl ResourceUri {
    /// Parses a URI.
    pub(crate) fn parse(uri: &str) -> Result<Self, UriError> {
        if uri.len() > MAX_URI_BYTES {
            return Err(UriError::Part(format!(
                "the URI is longer than {MAX_URI_BYTES} bytes"
            )));
        }
        let path = uri
            .strip_prefix("toon://project/")
            .ok_or(UriError::OtherForm)?;
        match path.split('/').collect::<Vec<_>>().as_slice() {
            [slug, "prd"] => Ok(Self::Prd(part(slug, Slug::parse)?)),
            [slug, "status"] => Ok(Self::Status(part(slug, Slug::parse)?)),
            [slug, "task", epic, story, task] => Ok(Self::Task(IssueRef {
                project: part(slug, Slug::parse)?,
                epic: Some(part(epic, IssueId::parse)?),
                story: Some(part(story, IssueId::parse)?),
                id: part(task, IssueId::parse)?,
            })),
            _ => Err(UriError::OtherForm),
        }
    }

    /// The project it is about.
    pub(crate) const fn project(&self) -> &Slug {
        match self {
            Self::Prd(slug) | Self::Status(slug) => slug,
            Self::Task(target) => &target.project,
        }
    }
}

/// No part needs an escape, as slugs and ids are made of letters, digits and `-`.
impl fmt::Display for ResourceUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prd(slug) => write!(f, "toon://project/{slug}/prd"),
            Self::Status(slug) => write!(f, "toon://project/{slug}/status"),
            Self::Task(IssueRef {
                project,
                id,
                epic: Some(epic),
                story: Some(story),
            }) => {
                write!(f, "toon://project/{project}/task/{epic}/{story}/{id}")
            }
            Self::Task(_) => Err(fmt::Error),
        }
    }
}

fn part<T, E: fmt::Display>(text: &str, parse: fn(&str) -> Result<T, E>) -> Result<T, UriError> {
    let decoded = decode(text)
        .ok_or_else(|| UriError::Part("the URI has a broken percent-escape".to_owned()))?;
    parse(&decoded).map_err(|error| UriError::Part(error.to_string()))
}

/// Percent-decoding (RFC 3986, section 2.1); `None` when an escape is broken or no UTF-8 comes out.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => hex(rest.next()?)? << 4 | hex(rest.next()?)?,
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

fn hex(digit: u8) -> Option<u8> {
    let value = char::from(digit).to_digit(16)?;
    u8::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::{ResourceUri, UriError};

    #[test]
    fn the_three_forms_are_understood() {
        for (uri, shown) in [
            ("toon://project/my-app/prd", "toon://project/my-app/prd"),
            (
                "toon://project/%6Dy-app/status",
                "toon://project/my-app/status",
            ),
            (
                "toon://project/my-app/task/MA-1/MA-2/BUG-3",
                "toon://project/my-app/task/MA-1/MA-2/BUG-3",
            ),
            ("toon://project/prd/prd", "toon://project/prd/prd"),
        ] {
            assert_eq!(ResourceUri::parse(uri).unwrap().to_string(), shown);
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for uri in [
            "",
            "toon://",
            "TOON://project/a/prd",
            "toon://project/a",
            "toon://project/a/prd/",
            "toon://project//prd",
            "toon://project/a/prd?x",
            "toon://project/a/task/MA-1/MA-2",
            "file:///etc/passwd",
        ] {
            assert!(ResourceUri::parse(uri).is_err(), "{uri}");
        }
        for uri in [
            "toon://project/../prd",
            "toon://project/%2e%2e/prd",
            "toon://project/a%2Fb/prd",
            "toon://project/a%00/prd",
            "toon://project/a%/prd",
            "toon://project/a%zz/prd",
            "toon://project/a%ff/prd",
            "toon://project/a/task/MA-1/MA-2/..",
        ] {
            assert!(
                matches!(ResourceUri::parse(uri), Err(UriError::Part(_))),
                "{uri}"
            );
        }
        let long = format!("toon://project/{}/prd", "a".repeat(1_000_000));
        assert!(matches!(ResourceUri::parse(&long), Err(UriError::Part(_))));
    }
}
