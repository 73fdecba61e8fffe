//! Where documents of plugins are kept: the seam between the face and whoever keeps them.

use futures_util::future::BoxFuture;
use orchestra_plugin::{
    generated::{
        StorageDeleteRequest, StorageDeleteResponse, StorageListRequest, StorageListResponse,
        StorageReadRequest, StorageReadResponse, StorageWriteRequest, StorageWriteResponse,
    },
    ids::PluginId,
};

/// The type of storage that is meant where none is named.
pub const DEFAULT_TYPE: &str = "markdown";

/// Keeps documents. Requests come as plugins wrote them, and nothing in them is checked but that
/// whoever asks may use the storage; its type may be empty, which stands for [`DEFAULT_TYPE`].
///
/// Dropping a future gives the request up; one that writes is then done wholly or not at all, and
/// nobody knows which.
pub trait Storage: Send + Sync + 'static {
    /// Reads a document.
    fn read(&self, request: StorageReadRequest) -> Answer<'_, StorageReadResponse>;

    /// Writes a document.
    fn write(&self, request: StorageWriteRequest) -> Answer<'_, StorageWriteResponse>;

    /// Deletes a document.
    fn delete(&self, request: StorageDeleteRequest) -> Answer<'_, StorageDeleteResponse>;

    /// Lists documents.
    fn list(&self, request: StorageListRequest) -> Answer<'_, StorageListResponse>;

    /// The plugin that keeps the documents of a type, if it is one. It must be quick.
    fn keeper(&self, storage_type: &str) -> Option<PluginId> {
        let _ = storage_type;
        None
    }
}

/// What a storage answers.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, StorageError>>;

/// Why a request to a storage failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StorageError {
    /// Nobody keeps documents of this type.
    #[error("no plugin provides storage type {storage_type:?}")]
    NoStorage {
        /// The type.
        storage_type: String,
    },
    /// There is no such document.
    #[error("there is no document {path:?}")]
    NotFound {
        /// Its path.
        path: String,
    },
    /// The document has another version than the writer expected.
    #[error("the document has version {found}, not {expected}: read it again")]
    Conflict {
        /// What the writer expected.
        expected: i64,
        /// What is there.
        found: i64,
    },
    /// The request cannot be understood or is not allowed.
    #[error("{0}")]
    Invalid(String),
    /// Whoever asks may not use the storage.
    #[error("{0}")]
    NotPermitted(String),
    /// Whoever keeps the documents cannot be reached, or broke.
    #[error("{0}")]
    Failed(String),
    /// Nobody knows whether it was written: whoever keeps the documents may have done so after it
    /// was given up, or before it broke.
    #[error("{0}: the write may have succeeded; read the document before you write again")]
    UnknownOutcome(String),
    /// Whoever keeps the documents said this.
    #[error("{message}")]
    Said {
        /// The kind of the failure.
        code: String,
        /// The failure in words.
        message: String,
    },
}

impl StorageError {
    /// The kind of the failure, as peers are told.
    #[must_use]
    pub fn code(&self) -> &str {
        match self {
            Self::NoStorage { .. } => "no_storage",
            Self::NotFound { .. } => "not_found",
            Self::Conflict { .. } => "version_conflict",
            Self::Invalid(_) => "invalid_request",
            Self::NotPermitted(_) => "not_permitted",
            Self::Failed(_) => "storage_error",
            Self::UnknownOutcome(_) => "unknown_outcome",
            Self::Said { code, .. } => code,
        }
    }
}

/// Keeps nothing: every type is one that nobody provides.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoStorage;

impl NoStorage {
    fn refuse<T: Send + 'static>(storage_type: &str) -> Answer<'static, T> {
        let storage_type = named(storage_type).to_owned();
        Box::pin(std::future::ready(Err(StorageError::NoStorage {
            storage_type,
        })))
    }
}

impl Storage for NoStorage {
    fn read(&self, request: StorageReadRequest) -> Answer<'_, StorageReadResponse> {
        Self::refuse(&request.storage_type)
    }

    fn write(&self, request: StorageWriteRequest) -> Answer<'_, StorageWriteResponse> {
        Self::refuse(&request.storage_type)
    }

    fn delete(&self, request: StorageDeleteRequest) -> Answer<'_, StorageDeleteResponse> {
        Self::refuse(&request.storage_type)
    }

    fn list(&self, request: StorageListRequest) -> Answer<'_, StorageListResponse> {
        Self::refuse(&request.storage_type)
    }
}

/// The type that a request means.
#[must_use]
pub fn named(storage_type: &str) -> &str {
    match storage_type {
        "" => DEFAULT_TYPE,
        named => named,
    }
}
