//! How a plugin is.

use std::collections::BTreeMap;

use crate::generated::health_result::Status;

/// How a plugin is, as its own health check sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    pub(super) status: Status,
    pub(super) message: String,
    pub(super) details: BTreeMap<String, String>,
}

impl Health {
    /// All is well.
    pub fn healthy() -> Self {
        Self::new(Status::Healthy, "ok")
    }

    /// It serves, with less than it should.
    pub fn degraded(message: impl Into<String>) -> Self {
        Self::new(Status::Degraded, message)
    }

    /// It does not serve.
    pub fn unhealthy(message: impl Into<String>) -> Self {
        Self::new(Status::Unhealthy, message)
    }

    /// The same with something more to say.
    #[must_use]
    pub fn detail(mut self, name: &str, value: impl Into<String>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    fn new(status: Status, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            details: BTreeMap::new(),
        }
    }
}
