//! Storage that a plugin offers: documents with a version.

use std::{collections::BTreeMap, future::Future, sync::Arc};

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::{
    generated::{
        StorageDeleteRequest, StorageDeleteResponse, StorageEntry, StorageListRequest,
        StorageListResponse, StorageProblem, StorageReadRequest, StorageReadResponse,
        StorageWriteRequest, StorageWriteResponse,
    },
    quic::BoxFuture,
    structs::{self, Numbers, StructError, Style},
    timestamp::Timestamp,
};

/// The kind of storage that is meant when none is named.
pub(super) const DEFAULT_KIND: &str = "markdown";

/// A document.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Document {
    /// Its body.
    pub content: Bytes,
    /// What stands in front of its body.
    pub metadata: Map<String, Value>,
    /// How often it was written.
    pub version: i64,
}

/// A document in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Where it is, with slashes between the parts.
    pub path: String,
    /// Its size in bytes.
    pub size: i64,
    /// How often it was written.
    pub version: i64,
    /// When it was written last, in seconds since 1970, if that is known.
    pub modified: Option<i64>,
}

/// What a document must be for a write to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Anything, or not there at all.
    Any,
    /// Not there.
    Absent,
    /// Of this version.
    Version(i64),
}

impl Expected {
    pub(super) fn number(self) -> i64 {
        match self {
            Self::Any => -1,
            Self::Absent => 0,
            Self::Version(version) => version,
        }
    }

    fn of(number: i64) -> Self {
        match number {
            0 => Self::Absent,
            ..0 => Self::Any,
            version => Self::Version(version),
        }
    }
}

/// Why a storage did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StorageError {
    /// The document is not what was expected: somebody else has written it.
    #[error("{0}")]
    Conflict(String),
    /// There is no such document.
    #[error("there is no such document")]
    NotFound,
    /// It may have been done, or not: whoever keeps the documents has not said. Read before you
    /// write again.
    #[error("{0}")]
    UnknownOutcome(String),
    /// Anything else, with a short word for programs and words for a reader.
    #[error("{message}")]
    Other {
        /// The word.
        code: String,
        /// The words.
        message: String,
    },
}

/// What the word is when a document is not what was expected.
pub(super) const CONFLICT: &str = "version_conflict";

/// What the word is when there is no document.
pub(super) const NOT_FOUND: &str = "not_found";

/// What the word is when nobody knows whether a document was changed.
const UNKNOWN_OUTCOME: &str = "unknown_outcome";

impl StorageError {
    pub(super) fn problem(&self) -> StorageProblem {
        let code = match self {
            Self::Conflict(_) => CONFLICT,
            Self::NotFound => NOT_FOUND,
            Self::UnknownOutcome(_) => UNKNOWN_OUTCOME,
            Self::Other { code, .. } => code,
        };
        StorageProblem {
            code: code.to_owned(),
            message: self.to_string(),
        }
    }

    pub(super) fn of(problem: StorageProblem) -> Self {
        match problem.code.as_str() {
            CONFLICT | "already_exists" => Self::Conflict(problem.message),
            NOT_FOUND => Self::NotFound,
            UNKNOWN_OUTCOME => Self::UnknownOutcome(problem.message),
            _ => Self::Other {
                code: problem.code,
                message: problem.message,
            },
        }
    }
}

/// Keeps documents.
pub trait Storage: Send + Sync + 'static {
    /// Reads a document; `None` when there is none.
    fn read(
        &self,
        path: String,
    ) -> impl Future<Output = Result<Option<Document>, StorageError>> + Send;

    /// Writes a document if it is as expected, and says which version it has now. Looking and
    /// writing are one step.
    fn write(
        &self,
        path: String,
        content: Bytes,
        metadata: Map<String, Value>,
        expected: Expected,
    ) -> impl Future<Output = Result<i64, StorageError>> + Send;

    /// Deletes a document.
    fn delete(&self, path: String) -> impl Future<Output = Result<(), StorageError>> + Send;

    /// Lists what is below a directory and matches a pattern of a shell, in the order of the paths.
    fn list(
        &self,
        prefix: String,
        pattern: String,
    ) -> impl Future<Output = Result<Vec<Entry>, StorageError>> + Send;
}

/// The storages of a plugin by their kind.
pub(super) type Storages = BTreeMap<String, Arc<dyn AnyStorage>>;

/// A [`Storage`] as it is asked over the wire.
pub(super) trait AnyStorage: Send + Sync {
    fn read(&self, request: StorageReadRequest) -> BoxFuture<'_, StorageReadResponse>;
    fn write(&self, request: StorageWriteRequest) -> BoxFuture<'_, StorageWriteResponse>;
    fn delete(&self, request: StorageDeleteRequest) -> BoxFuture<'_, StorageDeleteResponse>;
    fn list(&self, request: StorageListRequest) -> BoxFuture<'_, StorageListResponse>;
}

impl<S: Storage> AnyStorage for S {
    fn read(&self, request: StorageReadRequest) -> BoxFuture<'_, StorageReadResponse> {
        Box::pin(async move {
            let failed = |error: &StorageError| StorageReadResponse {
                problem: Some(error.problem()),
                ..StorageReadResponse::default()
            };
            match Storage::read(self, request.path).await {
                Ok(Some(document)) => match metadata_struct(&document.metadata) {
                    Ok(metadata) => StorageReadResponse {
                        content: document.content,
                        // Without it, old peers take the document as not found.
                        metadata: Some(metadata),
                        version: document.version,
                        problem: None,
                    },
                    Err(error) => failed(&error),
                },
                Ok(None) => failed(&StorageError::NotFound),
                Err(error) => failed(&error),
            }
        })
    }

    fn write(&self, request: StorageWriteRequest) -> BoxFuture<'_, StorageWriteResponse> {
        Box::pin(async move {
            let written = match metadata_object(request.metadata.as_ref()) {
                Ok(metadata) => {
                    let expected = Expected::of(request.expected_version);
                    Storage::write(self, request.path, request.content, metadata, expected).await
                }
                Err(error) => Err(error),
            };
            match written {
                Ok(new_version) => StorageWriteResponse {
                    success: true,
                    new_version,
                    ..StorageWriteResponse::default()
                },
                Err(error) => StorageWriteResponse {
                    error: error.to_string(),
                    problem: Some(error.problem()),
                    ..StorageWriteResponse::default()
                },
            }
        })
    }

    fn delete(&self, request: StorageDeleteRequest) -> BoxFuture<'_, StorageDeleteResponse> {
        Box::pin(async move {
            let deleted = Storage::delete(self, request.path).await;
            StorageDeleteResponse {
                success: deleted.is_ok(),
                problem: deleted.err().map(|error| error.problem()),
            }
        })
    }

    fn list(&self, request: StorageListRequest) -> BoxFuture<'_, StorageListResponse> {
        Box::pin(async move {
            let pattern = match request.pattern {
                pattern if pattern.is_empty() => "*.md".to_owned(),
                pattern => pattern,
            };
            match Storage::list(self, request.prefix, pattern).await {
                Ok(entries) => StorageListResponse {
                    entries: entries.into_iter().map(Entry::into_wire).collect(),
                    problem: None,
                },
                Err(error) => StorageListResponse {
                    entries: Vec::new(),
                    problem: Some(error.problem()),
                },
            }
        })
    }
}

impl Entry {
    fn into_wire(self) -> StorageEntry {
        StorageEntry {
            path: self.path,
            size: self.size,
            version: self.version,
            modified_at: self.modified.map(|seconds| Timestamp { seconds, nanos: 0 }),
        }
    }

    pub(super) fn of(entry: StorageEntry) -> Self {
        Self {
            path: entry.path,
            size: entry.size,
            version: entry.version,
            modified: entry.modified_at.map(|time| time.seconds),
        }
    }
}

/// Metadata as a `Struct`.
pub(super) fn metadata_struct(metadata: &Map<String, Value>) -> Result<Bytes, StorageError> {
    let json = serde_json::to_vec(metadata).map_err(|error| unfit(&error))?;
    structs::encode(&json, Numbers::Exact).map_err(|error: StructError| unfit(&error))
}

/// Metadata from a `Struct`.
pub(super) fn metadata_object(
    metadata: Option<&Bytes>,
) -> Result<Map<String, Value>, StorageError> {
    let Some(metadata) = metadata else {
        return Ok(Map::new());
    };
    let json = structs::decode(metadata, Style::Plain).map_err(|error| unfit(&error))?;
    serde_json::from_str(&json).map_err(|error| unfit(&error))
}

fn unfit(error: &dyn std::error::Error) -> StorageError {
    StorageError::Other {
        code: "invalid_metadata".to_owned(),
        message: format!("the metadata cannot be used: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::OrchestratorError;

    #[test]
    fn what_may_have_been_done_is_told_as_such() {
        let error = StorageError::UnknownOutcome("it was given up".to_owned());
        let problem = error.problem();
        assert_eq!(problem.code, "unknown_outcome");
        assert_eq!(StorageError::of(problem), error);
        assert!(OrchestratorError::Storage(error).may_have_run());
        assert!(!OrchestratorError::Storage(StorageError::NotFound).may_have_run());
    }
}
