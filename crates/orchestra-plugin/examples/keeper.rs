//! A plugin that keeps documents of a kind of its own and of the usual one, for as long as it runs, and
//! has a tool of a provider of models.

use std::{
    collections::BTreeMap,
    process::ExitCode,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use orchestra_plugin::kit::{Document, Entry, Expected, Plugin, Storage, StorageError, tool};
use serde_json::{Map, Value};

#[derive(Default)]
struct Memory(Mutex<BTreeMap<String, Document>>);

impl Memory {
    fn documents(&self) -> MutexGuard<'_, BTreeMap<String, Document>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Storage for Memory {
    async fn read(&self, path: String) -> Result<Option<Document>, StorageError> {
        Ok(self.documents().get(&path).cloned())
    }

    async fn write(
        &self,
        path: String,
        content: Bytes,
        metadata: Map<String, Value>,
        expected: Expected,
    ) -> Result<i64, StorageError> {
        let mut documents = self.documents();
        let current = documents.get(&path).map_or(0, |document| document.version);
        let is_expected = match expected {
            Expected::Any => true,
            Expected::Absent => current == 0,
            Expected::Version(version) => version == current,
        };
        if !is_expected {
            return Err(StorageError::Conflict(format!(
                "version {current} is there"
            )));
        }
        let version = current + 1;
        let document = Document {
            content,
            metadata,
            version,
        };
        documents.insert(path, document);
        Ok(version)
    }

    async fn delete(&self, path: String) -> Result<(), StorageError> {
        let removed = self.documents().remove(&path);
        removed.map(drop).ok_or(StorageError::NotFound)
    }

    async fn list(&self, prefix: String, _: String) -> Result<Vec<Entry>, StorageError> {
        let documents = self.documents();
        let below = documents
            .iter()
            .filter(|(path, _)| path.starts_with(&prefix));
        let entry = |(path, document): (&String, &Document)| Entry {
            path: path.clone(),
            size: document.content.len().try_into().unwrap_or(i64::MAX),
            version: document.version,
            modified: None,
        };
        Ok(below.map(entry).collect())
    }
}

/// Says which model would answer.
#[tool]
async fn ask(question: String) -> String {
    format!("a model would answer: {question}")
}

fn main() -> ExitCode {
    Plugin::new("storage.memory", env!("CARGO_PKG_VERSION"))
        .storage("memory", Memory::default())
        .storage("markdown", Memory::default())
        .tool(ask::tool())
        .run()
}
