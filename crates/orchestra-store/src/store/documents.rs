//! The door to the documents of plugins.

use std::future::Future;

use super::Store;
use crate::{
    Action, Detail, Document, DocumentDirectory, DocumentEntry, DocumentError, DocumentPath,
    DocumentPathError, Fault, Glob, Made, NewDocument,
};

/// How many documents of a list are looked at on one snapshot.
const PAGE: usize = 2_000;
/// The most bytes of a path that operating systems take, with the ending NUL.
const MAX_SYSTEM_PATH: usize = 4_096;
/// Room for the endings of files beside a document.
const ENDINGS: usize = ".conflict.orchestra-tmp".len();

impl Store {
    /// Reads a document; `None` when there is none.
    ///
    /// # Errors
    /// When the database cannot be read: an error is never an empty document.
    pub fn read_document(&self, path: &DocumentPath) -> Result<Option<Document>, DocumentError> {
        Ok(self.read(|reader| reader.document(path))?)
    }

    /// Writes a document if what is there is as expected, and answers its new version once that is
    /// durable. Writes are queued at once, in the order of the calls, and compared and set one after
    /// the other, whichever process they come from. Dropping the answer undoes nothing.
    ///
    /// # Errors
    /// When another version is there, a file is in the way, or the store fails; nothing was kept then.
    pub fn write_document(
        &self,
        document: NewDocument,
    ) -> impl Future<Output = Result<i64, DocumentError>> + Send + 'static {
        let submitted = self
            .check_length(document.path())
            .map(|()| self.submit(None, Action::WriteDocument(Box::new(document))));
        async move {
            match submitted?.await?.made {
                Made::Document { version } => Ok(version),
                _ => Err(Fault::Unknown { what: "answer" }.into()),
            }
        }
    }

    /// Deletes a document, and says whether there was one, once that is durable. Its versions go on
    /// when it is made again.
    ///
    /// # Errors
    /// When the store fails.
    pub fn delete_document(
        &self,
        path: DocumentPath,
    ) -> impl Future<Output = Result<bool, DocumentError>> + Send + 'static {
        let submitted = self.submit(None, Action::DeleteDocument(path));
        async move {
            match submitted.await?.made {
                Made::DocumentDeleted { was_there } => Ok(was_there),
                _ => Err(Fault::Unknown { what: "answer" }.into()),
            }
        }
    }

    /// Lists the documents in a directory and all below whose last names fit, in the order of a walk
    /// through the directories. What is changed meanwhile may be told or not; none is told twice.
    ///
    /// # Errors
    /// When the database cannot be read. A directory that is not there has no documents.
    pub fn list_documents(
        &self,
        directory: &DocumentDirectory,
        pattern: &Glob,
        detail: Detail,
    ) -> Result<Vec<DocumentEntry>, DocumentError> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let page = self.read(|reader| {
                reader.documents(directory, pattern, detail, after.as_deref(), PAGE)
            })?;
            all.extend(page.entries);
            after = page.last;
            if after.is_none() {
                return Ok(all);
            }
        }
    }

    /// Refuses a path that no file of this workspace can have.
    fn check_length(&self, path: &DocumentPath) -> Result<(), DocumentPathError> {
        let root = self.0.shared.paths.projects.as_os_str().len();
        let bytes = root + path.as_str().len() + ENDINGS + 2;
        if bytes > MAX_SYSTEM_PATH {
            return Err(DocumentPathError::TooLong { bytes });
        }
        Ok(())
    }
}
