//! Why a plugin does not start.

use std::{io, path::PathBuf};

use crate::{certs::CertError, quic::BindError};

/// Why a plugin could not start.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    #[error("cannot resolve {address:?}")]
    Resolve {
        address: String,
        #[source]
        source: io::Error,
    },
    #[error("cannot use the certificates")]
    Certs(#[source] CertError),
    #[error("cannot listen")]
    Bind(#[source] BindError),
    #[error("cannot {attempt}")]
    System {
        attempt: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("cannot write the log to {}", .path.display())]
    Log {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}
