//! The revisions of MCP and what each can do. Versions are never compared as text.

use std::fmt;

use crate::ErrorCode;

/// A revision of the Model Context Protocol, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Revision {
    /// 2024-11-05.
    V2024_11_05,
    /// 2025-03-26.
    V2025_03_26,
    /// 2025-06-18.
    V2025_06_18,
    /// 2025-11-25.
    V2025_11_25,
    /// 2026-07-28.
    V2026_07_28,
}

/// How version and capabilities are agreed upon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Era {
    /// By an `initialize` handshake, once per connection.
    Session,
    /// By `_meta` of each request.
    Stateless,
}

impl Revision {
    /// All revisions, oldest first.
    pub const ALL: [Self; 5] = [
        Self::V2024_11_05,
        Self::V2025_03_26,
        Self::V2025_06_18,
        Self::V2025_11_25,
        Self::V2026_07_28,
    ];

    /// The newest revision that is agreed upon by `initialize`.
    pub const NEWEST_SESSION: Self = Self::V2025_11_25;

    /// The newest revision.
    pub const NEWEST: Self = Self::V2026_07_28;

    /// Parses a revision's date; `None` for one that is not known.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|revision| revision.as_str() == text)
    }

    /// The revision's date.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// The revision to answer to an `initialize` that asks for `requested`: the same one when it
    /// is a known session-era revision, else the newest of these.
    #[must_use]
    pub fn negotiate(requested: &str) -> Self {
        match Self::parse(requested) {
            Some(revision) if revision.era() == Era::Session => revision,
            _ => Self::NEWEST_SESSION,
        }
    }

    /// Its era.
    #[must_use]
    pub const fn era(self) -> Era {
        match self {
            Self::V2026_07_28 => Era::Stateless,
            _ => Era::Session,
        }
    }

    /// Its place in [`Revision::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Whether arrays of messages are accepted.
    #[must_use]
    pub fn batches(self) -> bool {
        self <= Self::V2025_03_26
    }

    /// Whether tools have annotations.
    #[must_use]
    pub fn tool_annotations(self) -> bool {
        self >= Self::V2025_03_26
    }

    /// Whether the server declares `completions`.
    #[must_use]
    pub fn completions_capability(self) -> bool {
        self >= Self::V2025_03_26
    }

    /// Whether a progress notification may carry a message.
    #[must_use]
    pub fn progress_message(self) -> bool {
        self >= Self::V2025_03_26
    }

    /// Whether tools, prompts, resources and implementations have a `title`.
    #[must_use]
    pub fn titles(self) -> bool {
        self >= Self::V2025_06_18
    }

    /// Whether tools have an `outputSchema`.
    #[must_use]
    pub fn output_schema(self) -> bool {
        self >= Self::V2025_06_18
    }

    /// Whether tool results have `structuredContent`.
    #[must_use]
    pub fn structured_content(self) -> bool {
        self >= Self::V2025_06_18
    }

    /// Whether `structuredContent` and `outputSchema` may be other than objects.
    #[must_use]
    pub fn structured_any(self) -> bool {
        self >= Self::V2026_07_28
    }

    /// Whether a client may offer `elicitation`.
    #[must_use]
    pub fn elicitation(self) -> bool {
        self >= Self::V2025_06_18
    }

    /// Whether a client may offer to be sent to a URL by `elicitation`.
    #[must_use]
    pub fn elicitation_url(self) -> bool {
        self >= Self::V2025_11_25
    }

    /// Whether a client may offer that its model calls tools of a `sampling` request.
    #[must_use]
    pub fn sampling_tools(self) -> bool {
        self >= Self::V2025_11_25
    }

    /// Whether results carry `resultType`, caching hints and the server's name in `_meta`.
    #[must_use]
    pub fn self_describing_results(self) -> bool {
        self.era() == Era::Stateless
    }

    /// The code of a resource that does not exist.
    #[must_use]
    pub fn resource_not_found_code(self) -> ErrorCode {
        match self.era() {
            Era::Session => ErrorCode::RESOURCE_NOT_FOUND,
            Era::Stateless => ErrorCode::INVALID_PARAMS,
        }
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_session_revision_is_kept_and_anything_else_gets_the_newest() {
        for revision in Revision::ALL {
            let expected = match revision.era() {
                Era::Session => revision,
                Era::Stateless => Revision::V2025_11_25,
            };
            assert_eq!(Revision::negotiate(revision.as_str()), expected);
            assert_eq!(Revision::ALL[revision.index()], revision);
        }
        assert_eq!(Revision::negotiate("1900-01-01"), Revision::V2025_11_25);
        assert_eq!(Revision::negotiate(""), Revision::V2025_11_25);
    }

    #[test]
    fn features_begin_and_end_with_their_revision() {
        let with = |feature: fn(Revision) -> bool| {
            Revision::ALL
                .into_iter()
                .filter(|revision| feature(*revision))
                .count()
        };
        assert_eq!(with(Revision::batches), 2);
        assert_eq!(with(Revision::tool_annotations), 4);
        assert_eq!(with(Revision::titles), 3);
        assert_eq!(with(Revision::structured_content), 3);
        assert_eq!(with(Revision::structured_any), 1);
        assert_eq!(
            Revision::V2025_11_25.resource_not_found_code(),
            ErrorCode(-32002)
        );
        assert_eq!(
            Revision::V2026_07_28.resource_not_found_code(),
            ErrorCode(-32602)
        );
    }
}
