//! Fetching from the user's remotes, with nobody there to be asked for a password.

use super::{GitError, Repository};

impl Repository {
    /// Fetches all remotes, as the user has set them up. Only references that stand for branches of remotes
    /// move. Without remotes nothing is done.
    ///
    /// # Errors
    /// When one of them cannot be fetched; the others were.
    pub async fn fetch(&self) -> Result<(), GitError> {
        let asked = [
            "config",
            "--get-regexp",
            r"^(remote\..*\.url|core\.sshcommand)$",
        ];
        let call = self.call("look for remotes", asked).accept(&[0, 1]);
        let said = call.run().await?.text();
        if !said.lines().any(|line| line.starts_with("remote.")) {
            return Ok(());
        }
        let mut call = self
            .call(
                "fetch the remotes",
                [
                    "fetch",
                    "--all",
                    "--quiet",
                    "--no-recurse-submodules",
                    "--no-write-fetch-head",
                    "--no-auto-maintenance",
                ],
            )
            .env("GIT_ASKPASS", "")
            .env("SSH_ASKPASS_REQUIRE", "never")
            .env("GCM_INTERACTIVE", "never");
        if !said.lines().any(|line| line.starts_with("core.sshcommand")) {
            call = call.env("GIT_SSH_COMMAND", "ssh -oBatchMode=yes");
        }
        call.run().await.map(drop)
    }
}
