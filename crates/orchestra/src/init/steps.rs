//! What `init` did, or would do, to each file.

use serde::Serialize;

/// What happened to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Action {
    /// It was not there.
    Created,
    /// It was changed.
    Updated,
    /// It is as it should be.
    Unchanged,
    /// It is the user's, or was edited, and stays as it is.
    Kept,
    /// It is gone.
    Removed,
    /// It could not be understood, and stays as it is.
    Refused,
}

impl Action {
    /// The action of a file that is written, depending on whether it was there before.
    pub(crate) const fn written(existed: bool) -> Self {
        if existed {
            Self::Updated
        } else {
            Self::Created
        }
    }

    /// Its name in the report of a dry run.
    pub(crate) const fn intent(self) -> &'static str {
        match self {
            Self::Created => "would create",
            Self::Updated => "would update",
            Self::Unchanged => "unchanged",
            Self::Kept => "would keep",
            Self::Removed => "would remove",
            Self::Refused => "would refuse",
        }
    }

    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Unchanged => "unchanged",
            Self::Kept => "kept",
            Self::Removed => "removed",
            Self::Refused => "refused",
        }
    }
}

/// One file and what happened to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Step {
    /// The file, relative to the workspace.
    pub(crate) path: String,
    /// What happened.
    pub(crate) action: Action,
    /// Why, where that is not plain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
}

impl Step {
    /// Returns whether the file was created or changed.
    pub(crate) fn is_written(&self) -> bool {
        matches!(self.action, Action::Created | Action::Updated)
    }
}

/// A planned change of a file that others own too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edit {
    /// What happens.
    pub(crate) action: Action,
    /// Why, where that is not plain.
    pub(crate) reason: Option<&'static str>,
    /// The file's text afterwards, where it is written.
    pub(crate) text: Option<String>,
    /// Whether the file as it was is kept beside it.
    pub(crate) backup: bool,
}

impl Edit {
    /// A change that explains itself.
    pub(crate) const fn done(action: Action) -> Self {
        Self {
            action,
            reason: None,
            text: None,
            backup: false,
        }
    }

    /// A change that needs a reason.
    pub(crate) const fn because(action: Action, reason: &'static str) -> Self {
        Self {
            action,
            reason: Some(reason),
            text: None,
            backup: false,
        }
    }

    /// With the file's new text.
    pub(crate) fn with_text(self, text: String) -> Self {
        Self {
            text: Some(text),
            ..self
        }
    }

    /// With a backup of the file as it was.
    pub(crate) fn with_backup(self) -> Self {
        Self {
            backup: true,
            ..self
        }
    }
}
