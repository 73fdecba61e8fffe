//! A board that belongs to nobody, for looking at the tools and for trying a call where there is
//! no board yet.

use orchestra_store::Options;
use tempfile::TempDir;

use super::{PATIENCE, Serving};
use crate::{config::Config, exit::Failure};

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
        let directory = tempfile::tempdir()
            .map_err(|error| anyhow::Error::new(error).context("make a temporary directory"))?;
        let workspace = &config.workspace;
        let config = Config {
            workspace: directory.path().to_owned(),
            ..config.clone()
        };
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
