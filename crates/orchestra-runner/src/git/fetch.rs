//! Fetching from the user's remotes, with nobody there to be asked for a password.

use std::collections::BTreeSet;

use super::{GitError, Repository, call::Call, names::shortened};

/// The variable by which git is told of a remote that it is to leave out.
const LEFT_OUT: &str = "GIT_REMOTE_LEFT_OUT";

/// Occasion of a call that reaches a remote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occasion {
    /// A command of the user, as if it were git's own: the configuration of the repository counts, except for programs.
    Command,
    /// Background work. No setting of the repository counts that changes how a remote is reached.
    Background,
}

impl Repository {
    /// Fetches all remotes, as the user has set them up, but for those that write into the user's own
    /// branches, as a mirror does: no branch moves. Without remotes nothing is done.
    ///
    /// # Errors
    /// When one of them cannot be fetched; the others were.
    pub async fn fetch(&self) -> Result<(), GitError> {
        let asked = [
            "config",
            "-z",
            "--get-regexp",
            r"^(remote\..*\.(url|fetch)|core\.sshcommand)$",
        ];
        let call = self.call("look for remotes", asked).accept(&[0, 1]);
        let said = call.run().await?.text();
        let (mut remotes, mut has_command) = (false, false);
        let mut left_out = BTreeSet::new();
        for setting in said.split('\0') {
            let (key, value) = setting.split_once('\n').unwrap_or((setting, ""));
            has_command |= key == "core.sshcommand";
            let named = key.strip_prefix("remote.");
            match named.and_then(|named| named.rsplit_once('.')) {
                Some((_, "url")) => remotes = true,
                Some((name, "fetch")) if writes_branches(value) => {
                    left_out.insert(name.to_owned());
                }
                _ => {}
            }
        }
        if !remotes {
            return Ok(());
        }
        let mut call = self.call(
            "fetch the remotes",
            [
                "fetch",
                "--all",
                "--quiet",
                "--no-recurse-submodules",
                "--no-write-fetch-head",
                "--no-auto-maintenance",
            ],
        );
        call = without_prompts(call, has_command.then_some(""));
        for name in left_out {
            tracing::info!(
                name,
                "remote not fetched: its refspec writes to your local branches"
            );
            call = call
                .option(format!(
                    "--config-env=remote.{name}.skipFetchAll={LEFT_OUT}"
                ))
                .env(LEFT_OUT, "true");
        }
        call.run().await.map(drop)
    }

    /// A call that reaches a remote without prompts.
    ///
    /// # Errors
    /// [`GitError::Starts`] when the configuration of the repository itself, which can come from an archive, names a
    /// program for that, and [`GitError::Diverts`] when it changes in another way how remotes are reached and the user
    /// does not wait for the call.
    pub(super) async fn unattended(
        &self,
        call: Call,
        occasion: Occasion,
    ) -> Result<Call, GitError> {
        let asked = ["config", "-z", "--show-scope", "--get-regexp", REACHES];
        let found = self.call("look for settings about remotes", asked);
        let answer = found.accept(&[0, 1]).run().await?;
        let fields: Vec<&[u8]> = answer.fields().collect();
        let mut command = None;
        for setting in fields.chunks_exact(2) {
            let text = String::from_utf8_lossy(setting[1]);
            let (key, value) = text.split_once('\n').unwrap_or((&text, ""));
            if matches!(setting[0], b"local" | b"worktree") {
                let shown = shortened(key);
                if starts_program(key) {
                    return Err(GitError::Starts { key: shown });
                }
                if occasion == Occasion::Background {
                    return Err(GitError::Diverts { key: shown });
                }
            }
            if key == "core.sshcommand" {
                // Git uses the last one.
                command = Some(value.to_owned());
            }
        }
        Ok(without_prompts(call, command.as_deref()))
    }
}

/// Keys by which git reaches another address than the one that the user sees, sends other data there, or starts a
/// program. Git prints keys in lower case, except for the name of a remote or a URL.
const REACHES: &str = r"^(core\.(sshcommand|gitproxy|alternaterefscommand)|(http|credential|url|protocol|ssh)\..*|remote\..*\.(proxy|proxyauthmethod|vcs|uploadpack|receivepack|serveroption)|(fetch|transfer)\.bundleuri|fetch\.uriprotocols)$";

/// Returns whether git starts the value of a key of [`REACHES`] as a program.
fn starts_program(key: &str) -> bool {
    let is_one_of = |names: &[&str]| {
        let last = key.rsplit_once('.').map_or(key, |(_, last)| last);
        names.contains(&last)
    };
    match key.split_once('.') {
        Some(("core", _)) => true,
        Some(("credential", _)) => is_one_of(&["helper"]),
        Some(("remote", _)) => is_one_of(&["vcs", "uploadpack", "receivepack"]),
        _ => false,
    }
}

/// A call without prompts. A configured ssh command that is not OpenSSH's is used as it is.
fn without_prompts(call: Call, command: Option<&str>) -> Call {
    let call = call
        .env("GIT_ASKPASS", "")
        .env("SSH_ASKPASS_REQUIRE", "never")
        .env("GCM_INTERACTIVE", "never");
    match command {
        None => call.env("GIT_SSH_COMMAND", "ssh -oBatchMode=yes"),
        Some(command) if is_openssh(command) => {
            call.env("GIT_SSH_COMMAND", format!("{command} -oBatchMode=yes"))
        }
        Some(_) => call,
    }
}

/// Returns whether a command line starts a program called `ssh`, without variables before it.
fn is_openssh(command: &str) -> bool {
    let program = command.split_whitespace().next().unwrap_or_default();
    program == "ssh" || program.ends_with("/ssh")
}

/// Whether what is fetched by a refspec may go into branches of this repository.
fn writes_branches(refspec: &str) -> bool {
    const BRANCHES: &str = "refs/heads/";
    let Some((_, to)) = refspec.split_once(':').filter(|(_, to)| !to.is_empty()) else {
        return false;
    };
    // A name that is not whole stands for a branch as well.
    let before = to.split_once('*').map_or(to, |(before, _)| before);
    !before.starts_with("refs/") || before.starts_with(BRANCHES) || BRANCHES.starts_with(before)
}

#[cfg(test)]
mod tests {
    use super::{is_openssh, starts_program, writes_branches};

    #[test]
    fn keys_that_start_programs_are_known() {
        for key in [
            "core.sshcommand",
            "credential.helper",
            "credential.https://example.org.helper",
            "remote.a.b.uploadpack",
            "remote.origin.vcs",
        ] {
            assert!(starts_program(key), "{key}");
        }
        for key in [
            "http.proxy",
            "url.https://helper.insteadof",
            "credential.username",
            "remote.vcs.proxy",
        ] {
            assert!(!starts_program(key), "{key}");
        }
    }

    #[test]
    fn command_lines_of_openssh_are_known() {
        for command in ["ssh", "ssh -i key", "/usr/bin/ssh -v"] {
            assert!(is_openssh(command), "{command}");
        }
        for command in ["", "plink -batch", "PROXY=1 ssh", "my-ssh", "'/a b/ssh'"] {
            assert!(!is_openssh(command), "{command}");
        }
    }

    #[test]
    fn refspecs_that_write_branches_are_known() {
        for refspec in [
            "+refs/heads/*:refs/heads/*",
            "+refs/*:refs/*",
            "main:main",
            "refs/heads/main:heads/main",
            "refs/heads/*:refs/hea*",
            "*:*",
        ] {
            assert!(writes_branches(refspec), "{refspec}");
        }
        for refspec in [
            "+refs/heads/*:refs/remotes/origin/*",
            "+refs/tags/*:refs/tags/*",
            "refs/heads/main",
            "refs/heads/main:",
            "^refs/heads/old",
            "",
        ] {
            assert!(!writes_branches(refspec), "{refspec}");
        }
    }
}
