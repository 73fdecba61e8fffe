//! What was found wrong while a file was read.

use std::cell::RefCell;

use super::{Place, Severity, node::Path};

/// What was found wrong in a file, before it has the file's name.
#[derive(Debug, Default)]
pub(super) struct Report {
    found: RefCell<Vec<Finding>>,
}

/// Something that is wrong.
#[derive(Debug, Clone)]
pub(super) struct Finding {
    pub(super) severity: Severity,
    pub(super) place: Place,
    pub(super) path: Path,
    pub(super) message: String,
}

/// No file has more to say than this; what is found later is not told.
const MAX_FINDINGS: usize = 200;

impl Report {
    pub(super) fn error(&self, place: Place, path: &Path, message: impl Into<String>) {
        self.add(Severity::Error, place, path, message.into());
    }

    pub(super) fn warn(&self, place: Place, path: &Path, message: impl Into<String>) {
        self.add(Severity::Warning, place, path, message.into());
    }

    fn add(&self, severity: Severity, place: Place, path: &Path, message: String) {
        if !self.is_full() {
            self.found.borrow_mut().push(Finding {
                severity,
                place,
                path: path.clone(),
                message,
            });
        }
    }

    /// Returns whether further findings are dropped.
    pub(super) fn is_full(&self) -> bool {
        self.found.borrow().len() >= MAX_FINDINGS
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.borrow().is_empty()
    }

    pub(super) fn into_findings(self) -> Vec<Finding> {
        self.found.into_inner()
    }
}
