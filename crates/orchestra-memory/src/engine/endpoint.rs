//! Where an engine is reached, as its file tells it.

use std::{
    fmt,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use orchestra_process::Process;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;

/// Bytes of a token.
const TOKEN_BYTES: usize = 32;

/// The version of the program; both sides of a connection have the same.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What a client of the engine shows. It is never told but to those who may read its file.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(String);

impl Token {
    /// A new one that nobody can guess.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub(crate) fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; TOKEN_BYTES];
        getrandom::fill(&mut bytes)?;
        Ok(Self(
            bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        ))
    }

    /// The token itself, for its user.
    pub(crate) fn into_text(self) -> String {
        self.0
    }

    /// The value of the metadata `authorization` that shows it.
    pub(crate) fn shown(&self) -> String {
        format!("Bearer {}", self.0)
    }

    /// Whether `value` shows this token; how long that takes says nothing of the token.
    pub(crate) fn is_shown_by(&self, value: &[u8]) -> bool {
        self.shown().as_bytes().ct_eq(value).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Where an engine is reached, and what it is.
///
/// Engines of later versions may say more: of them it must be known that they are there.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Endpoint {
    /// The workspace that it serves.
    pub workspace: PathBuf,
    /// The version of its program.
    pub version: String,
    /// Where it listens.
    pub address: SocketAddr,
    /// What its clients show; `None` where it asks for nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<Token>,
    /// Its process.
    pub pid: u32,
    /// When that began, in the system's measure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<u64>,
}

/// A workspace that no program can be told of.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the memory engine cannot serve the workspace {}, because this path is not UTF-8; rename the directory whose name \
     is not UTF-8",
    .0.display()
)]
pub struct PathError(PathBuf);

/// Refuses a workspace whose engine could be told of to nobody.
pub(crate) fn check_path(workspace: &Path) -> Result<(), PathError> {
    match workspace.to_str() {
        Some(_) => Ok(()),
        None => Err(PathError(workspace.to_owned())),
    }
}

/// Why an engine is not used that is there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Foreign {
    /// Its file was copied or moved here.
    #[error("the endpoint file names an engine of another workspace")]
    Workspace,
    /// It may answer otherwise than we expect.
    #[error(
        "the memory engine of this workspace has version {found}, but this program has version {VERSION}; end all \
         programs of the other version, so that an engine of this version can start"
    )]
    Version {
        /// Its version.
        found: String,
    },
}

impl Endpoint {
    /// This process, which serves `workspace` at `address`.
    pub(crate) fn new(workspace: &Path, address: SocketAddr, token: Option<Token>) -> Self {
        let this = Process::this();
        Self {
            workspace: workspace.to_owned(),
            version: VERSION.to_owned(),
            address,
            token,
            pid: this.id(),
            began: this.began(),
        }
    }

    /// Its process, if that is still the one that wrote the file.
    pub(crate) fn process(&self) -> Option<Process> {
        Process::find(self.pid, self.began)
    }

    /// Whether both tell of one engine. Where processes are few, as in a container, the next engine may
    /// have the process id of the last.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let of = |one: &Self| (one.pid, one.began, one.address);
        let token = |one: &Self| one.token.as_ref().map(|token| token.0.clone());
        of(self) == of(other) && token(self) == token(other)
    }

    /// Refuses an engine that is not for programs of this version in this workspace.
    pub(crate) fn check(&self, workspace: &Path) -> Result<(), Foreign> {
        if self.workspace != workspace {
            return Err(Foreign::Workspace);
        }
        if self.version != VERSION {
            let found = self.version.chars().take(40).collect();
            return Err(Foreign::Version { found });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_shown_by_itself_alone_and_printed_by_nobody() {
        let (token, other) = (Token::random().unwrap(), Token::random().unwrap());
        assert!(token.is_shown_by(token.shown().as_bytes()));
        for wrong in [
            other.shown(),
            token.0.clone(),
            token.shown().to_lowercase(),
            format!("{} ", token.shown()),
            token.shown()[..20].to_owned(),
            String::new(),
        ] {
            assert!(!token.is_shown_by(wrong.as_bytes()), "{wrong}");
        }
        assert_eq!(format!("{token:?}"), "Token(..)");
    }

    #[test]
    fn another_workspace_and_another_version_are_not_for_us() {
        let address = "127.0.0.1:1".parse().unwrap();
        let ours = Endpoint::new(Path::new("/w"), address, None);
        assert_eq!(ours.check(Path::new("/w")), Ok(()));
        assert_eq!(ours.check(Path::new("/v")), Err(Foreign::Workspace));
        let old = Endpoint {
            version: "0.9.0".to_owned(),
            ..ours
        };
        let found = "0.9.0".to_owned();
        assert_eq!(old.check(Path::new("/w")), Err(Foreign::Version { found }));
    }

    #[test]
    fn an_engine_that_says_more_than_we_know_is_known_to_be_there() {
        let address = "127.0.0.1:1".parse().unwrap();
        let ours = Endpoint::new(Path::new("/w"), address, None);
        let mut text = serde_json::to_value(&ours).unwrap();
        text["version"] = "2.0.0".into();
        text["socket"] = "/run/engine".into();
        let later: Endpoint = serde_json::from_value(text).unwrap();
        let found = "2.0.0".to_owned();
        assert_eq!(
            later.check(Path::new("/w")),
            Err(Foreign::Version { found })
        );
    }
}
