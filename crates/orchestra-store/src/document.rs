//! Documents of plugins: files that a plugin keeps below `.projects/` beside the boards, each with
//! front matter, a body and a version that only rises. What they mean is the plugins' own affair.

mod error;
pub(crate) mod front;
mod glob;
mod metadata;
mod path;
mod yaml;

use orchestra_board::Timestamp;

pub use self::error::{DocumentError, DocumentRefusal};
pub use self::glob::{Glob, GlobError};
pub use self::metadata::{Metadata, MetadataError};
pub use self::path::{DocumentDirectory, DocumentPath, DocumentPathError};

pub(crate) use self::path::{GIVEN_UP, SIDE, can_be_made_by_hand, key};

/// What a writer of a document expects to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Nothing: the document is made.
    Create,
    /// The document with this version.
    Version(i64),
    /// Whatever is there, if anything.
    Any,
}

impl Expected {
    /// Reads the number of the storage contract: 0 creates, a number above must be the version, -1 is
    /// unconditional.
    ///
    /// # Errors
    /// When it is any other number.
    pub const fn parse(number: i64) -> Result<Self, DocumentError> {
        match number {
            0 => Ok(Self::Create),
            -1 => Ok(Self::Any),
            1.. => Ok(Self::Version(number)),
            _ => Err(DocumentError::Expected(number)),
        }
    }
}

/// What a document says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DocumentBody {
    pub(crate) content: Vec<u8>,
    pub(crate) metadata: Option<Metadata>,
}

/// A document to be written.
#[derive(Debug, Clone)]
pub struct NewDocument {
    pub(crate) path: DocumentPath,
    pub(crate) body: DocumentBody,
    pub(crate) expected: Expected,
}

impl NewDocument {
    /// The most bytes of content and metadata together: what fits into a frame of the plugin
    /// protocol, which has 16 MiB, with room for what stands around it.
    pub const MAX_BYTES: usize = 16 * 1024 * 1024 - 64 * 1024;

    /// Checks that a document is not too large.
    ///
    /// # Errors
    /// [`DocumentError::TooLarge`] when it is.
    pub fn new(
        path: DocumentPath,
        content: Vec<u8>,
        metadata: Option<Metadata>,
        expected: Expected,
    ) -> Result<Self, DocumentError> {
        let body = DocumentBody { content, metadata };
        let bytes = body.bytes();
        if bytes > Self::MAX_BYTES {
            return Err(DocumentError::TooLarge { bytes });
        }
        Ok(Self {
            path,
            body,
            expected,
        })
    }

    /// Where it is written.
    #[must_use]
    pub const fn path(&self) -> &DocumentPath {
        &self.path
    }
}

impl DocumentBody {
    /// How much it holds.
    pub(crate) fn bytes(&self) -> usize {
        let metadata = self.metadata.as_ref();
        self.content.len() + metadata.map_or(0, |metadata| metadata.as_json().len())
    }
}

/// A document as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The body.
    pub content: Vec<u8>,
    /// The front matter; `None` when it has no fields.
    pub metadata: Option<Metadata>,
    /// Rises by each change and is never used again, also after the document was deleted.
    pub version: i64,
    /// When it was changed last.
    pub modified: Timestamp,
}

/// A document in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentEntry {
    /// Where it is.
    pub path: DocumentPath,
    /// The bytes of its file.
    pub size: u64,
    /// Its version.
    pub version: i64,
    /// When it was changed last.
    pub modified: Timestamp,
    /// Its front matter, where [`Detail::Metadata`] was asked for and it has some.
    pub metadata: Option<Metadata>,
}

/// What a list of documents tells of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Detail {
    /// Path, size, version and time, as the storage contract has it.
    #[default]
    Plain,
    /// The metadata as well, so that nobody need read each document for it.
    Metadata,
}
