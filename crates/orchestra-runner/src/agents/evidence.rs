//! The file by which a job shows that its work is done although nothing was changed.

use std::{
    io,
    path::{Path, PathBuf},
};

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::place::{self, PRIVATE_DIRECTORY};

/// The largest file that is read.
const MAX_BYTES: u64 = 64 * 1024;

/// The only version there is.
const VERSION: u32 = 1;

/// Longest texts in it.
const MAX_SUMMARY_CHARS: usize = 4_000;
const MAX_WORD_CHARS: usize = 200;

/// What it says. Members that are not known are passed over: a model wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// 1.
    pub version: u32,
    /// The id of the job.
    pub node_id: String,
    /// When it was written.
    pub timestamp: String,
    /// What was done or found.
    pub summary: String,
    /// How it came out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// What kind of evidence it is.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// Why a file is no evidence.
#[derive(Debug, Error)]
pub enum EvidenceError {
    /// It cannot be read, or is no file of the worktree.
    #[error("the evidence file {} cannot be read", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It is not JSON, or lacks something.
    #[error("the evidence file {} does not have the required form", path.display())]
    Form {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// It says what cannot be taken.
    #[error("the evidence file {} {what}", path.display())]
    Content {
        /// Which.
        path: PathBuf,
        /// What is wrong, and what is expected.
        what: String,
    },
}

/// Where a job's evidence lies, within its worktree.
#[must_use]
pub fn evidence_path(job: &str) -> PathBuf {
    Path::new(PRIVATE_DIRECTORY)
        .join("evidence")
        .join(format!("{job}.json"))
}

/// Forgets what an earlier attempt said of its work.
///
/// # Errors
/// When the file cannot be removed.
pub fn forget_evidence(worktree: &Path, job: &str) -> io::Result<()> {
    place::remove(worktree, &evidence_path(job))
}

/// Reads and checks the evidence of a job, if there is any.
///
/// # Errors
/// When there is a file that is no evidence of this job.
pub fn read_evidence(worktree: &Path, job: &str) -> Result<Option<Evidence>, EvidenceError> {
    let path = evidence_path(job);
    let contents = match place::read(worktree, &path, MAX_BYTES) {
        Ok(contents) => contents,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(EvidenceError::Read { path, source }),
    };
    let evidence: Evidence = match serde_json::from_slice(&contents) {
        Ok(evidence) => evidence,
        Err(source) => return Err(EvidenceError::Form { path, source }),
    };
    match fault(&evidence, job) {
        Some(what) => Err(EvidenceError::Content { path, what }),
        None => Ok(Some(evidence)),
    }
}

fn fault(evidence: &Evidence, job: &str) -> Option<String> {
    let Evidence {
        version,
        node_id,
        timestamp,
        summary,
        outcome,
        kind,
    } = evidence;
    if *version != VERSION {
        return Some(format!("has version {version}; {VERSION} is known"));
    }
    if node_id != job {
        return Some(format!("is of another job; `nodeId` must be {job}"));
    }
    if summary.trim().is_empty() || summary.chars().count() > MAX_SUMMARY_CHARS {
        return Some(format!(
            "needs a `summary` of 1 to {MAX_SUMMARY_CHARS} characters"
        ));
    }
    let is_word = |word: &String| !word.trim().is_empty() && word.chars().count() <= MAX_WORD_CHARS;
    let words = [
        ("timestamp", Some(timestamp)),
        ("outcome", outcome.as_ref()),
        ("type", kind.as_ref()),
    ];
    let mut wrong = words
        .iter()
        .filter(|(_, word)| word.is_some_and(|word| !is_word(word)));
    let (name, _) = wrong.next()?;
    Some(format!(
        "needs a `{name}` of 1 to {MAX_WORD_CHARS} characters"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn said(value: &Value) -> Result<Option<Evidence>, String> {
        let worktree = tempfile::tempdir().unwrap();
        let contents = value.to_string();
        place::write(worktree.path(), &evidence_path("job"), contents.as_bytes()).unwrap();
        read_evidence(worktree.path(), "job").map_err(|error| error.to_string())
    }

    fn good() -> Value {
        json!({
            "version": 1, "nodeId": "job", "timestamp": "2026-01-01T00:00:00Z",
            "summary": "All links are right.", "more": [1],
        })
    }

    #[test]
    fn evidence_of_the_job_is_taken() {
        let evidence = said(&good()).unwrap().unwrap();
        assert_eq!(evidence.summary, "All links are right.");
        let worktree = tempfile::tempdir().unwrap();
        assert!(read_evidence(worktree.path(), "job").unwrap().is_none());
    }

    #[test]
    fn other_evidence_is_refused_with_what_is_expected() {
        for (name, value, expected) in [
            ("version", json!(2), "has version 2; 1 is known"),
            ("nodeId", json!("other"), "`nodeId` must be job"),
            ("summary", json!("  "), "needs a `summary`"),
            ("summary", json!("x".repeat(5_000)), "needs a `summary`"),
            ("timestamp", json!(""), "needs a `timestamp`"),
            ("type", json!("x".repeat(300)), "needs a `type`"),
            ("version", json!("1"), "does not have the required form"),
        ] {
            let mut evidence = good();
            evidence[name] = value;
            let error = said(&evidence).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let large = json!({"x": "x".repeat(70_000)});
        assert!(said(&large).unwrap_err().contains("cannot be read"));
    }
}
