//! What can be wrong with certificates, and what to do about it.

use std::{io, path::PathBuf};

use crate::ids::CertName;

/// Why certificates could not be read, made or written.
#[derive(Debug, thiserror::Error)]
pub enum CertError {
    /// The home directory is not known, so the default directory is not either.
    #[error(
        "the home directory is not known, so there is no default certificate directory; pass a certificate directory"
    )]
    NoHome,
    /// A file or the directory could not be used.
    #[error("cannot {attempt} {}", .path.display())]
    File {
        /// What was attempted.
        attempt: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Others may write to the directory, so they could put an authority of their own there.
    #[error("other users may write to {}: run `chmod 700` on it", .path.display())]
    Exposed {
        /// The directory.
        path: PathBuf,
    },
    /// A file is larger than any certificate or key.
    #[error("{} has more than {most} bytes, so it is not a certificate or key", .path.display())]
    Large {
        /// The file.
        path: PathBuf,
        /// The most that is read.
        most: u64,
    },
    /// A file does not hold what its name promises.
    #[error("{} is not a usable {what}: {why}", .path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What was expected.
        what: &'static str,
        /// What is wrong.
        why: String,
    },
    /// Another program holds the lock for too long.
    #[error("another program has held the lock {} for {seconds} seconds; end that program or try again later", .path.display())]
    Locked {
        /// The lock.
        path: PathBuf,
        /// How long it was waited for.
        seconds: u64,
    },
    /// A leaf is needed and this program cannot sign one.
    #[error(
        "there is no valid certificate for {name} in {}, and this machine cannot issue one: {why}. Run `orchestra certs issue {name}` on the machine of the authority",
        .path.display()
    )]
    CannotSign {
        /// Whose leaf.
        name: CertName,
        /// The directory.
        path: PathBuf,
        /// Why it cannot be signed here.
        why: String,
    },
    /// A leaf is needed, and there is no authority that could sign one.
    #[error(
        "there is no certificate for {name} in {}, and no authority that could issue it; run `orchestra up` or `orchestra certs init` to create an authority. If the authority is on another machine, run `orchestra certs issue {name} --out DIR` there and copy the files here",
        .path.display()
    )]
    NoAuthority {
        /// Whose leaf.
        name: CertName,
        /// The directory.
        path: PathBuf,
    },
    /// The authority cannot be rotated, because its key is not at hand.
    #[error("the authority in {} cannot be rotated: {why}", .path.display())]
    CannotRotate {
        /// The directory.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// The authority is over.
    #[error("the authority in {} has expired: run `orchestra certs rotate` on the machine that has its key", .path.display())]
    Expired {
        /// The directory.
        path: PathBuf,
    },
    /// Certificates are not put where others would be lost.
    #[error("cannot write certificates to {}: {why}; name an empty directory", .path.display())]
    Taken {
        /// The directory.
        path: PathBuf,
        /// Why not.
        why: &'static str,
    },
    /// A certificate could not be made.
    #[error("cannot create a certificate: {0}")]
    Make(String),
    /// There is no randomness.
    #[error("the system returned no random bytes: {0}")]
    Random(String),
}
