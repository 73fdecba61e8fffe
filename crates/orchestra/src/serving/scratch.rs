//! A board that belongs to nobody, for looking at the tools and for trying a call where there is
//! no board yet.

use orchestra_store::Options;
use tempfile::TempDir;

use super::{PATIENCE, Serving};
use crate::{config::Config, exit::Failure, workspace::has_board};

/// What serves an empty board in a directory that goes away with it.
pub(crate) struct Scratch {
    serving: Serving,
    directory: TempDir,
}

impl Scratch {
    /// Makes the directory and opens a board in it, otherwise configured as `config` is; plans are
    /// those of its workspace, for which no board is needed. Must run inside the runtime.
    ///
    /// # Errors
    /// When the directory for temporary files cannot be written to.
    pub(crate) fn open(config: &Config) -> Result<Self, Failure> {
        let directory = orchestra_fs::temporary_directory()
            .map_err(|error| anyhow::Error::new(error).context("make a temporary directory"))?;
        let workspace = &config.workspace;
        let config = config.at(directory.path().to_owned());
        let options = Options {
            watch: false,
            sweep: false,
            ..Options::default()
        };
        let serving = Serving::open_scratch(&config, workspace, options, PATIENCE)?;
        Ok(Self { serving, directory })
    }

    /// What serves it.
    pub(crate) const fn serving(&self) -> &Serving {
        &self.serving
    }

    /// Takes it away again.
    pub(crate) fn close(self) {
        self.serving.close();
        if let Err(error) = self.directory.close() {
            tracing::warn!(%error, "cannot remove a temporary directory");
        }
    }
}

/// The board of a workspace, or a scratch board where the workspace has none.
pub(crate) enum BoardOrScratch {
    /// The board of the workspace.
    Board(Serving),
    /// A scratch board.
    Scratch(Scratch),
}

impl BoardOrScratch {
    /// Opens the board of a workspace without watching its files, or a scratch board. Must run inside the runtime.
    ///
    /// # Errors
    /// As [`Serving::open_waiting`] and [`Scratch::open`].
    pub(crate) fn open(config: &Config) -> Result<Self, Failure> {
        if !has_board(&config.workspace) {
            return Ok(Self::Scratch(Scratch::open(config)?));
        }
        let options = Options {
            watch: false,
            ..Options::default()
        };
        Ok(Self::Board(Serving::open_waiting(
            config, options, PATIENCE,
        )?))
    }

    /// Returns the server of the board.
    pub(crate) const fn serving(&self) -> &Serving {
        match self {
            Self::Board(serving) => serving,
            Self::Scratch(scratch) => scratch.serving(),
        }
    }

    /// Closes the board, or removes the scratch board.
    pub(crate) async fn close(self) {
        match self {
            Self::Board(serving) => {
                serving.leave_plans().await;
                serving.close();
            }
            Self::Scratch(scratch) => scratch.close(),
        }
    }
}
