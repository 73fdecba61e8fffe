//! The servers that judges try, and how they are started over HTTP.

use std::{path::Path, process::Command};

use anyhow::Result;

use super::others::free_address;
use crate::served::{Served, Told};

/// A server of ours under judgement.
pub(super) struct Server {
    /// Its name, which is also its script's.
    pub(super) name: &'static str,
    /// Its program, below the directory of debug builds.
    pub(super) program: &'static str,
    /// Whether it is given a workspace of its own.
    pub(super) workspace: Workspace,
}

/// Whether a server is given a workspace of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Workspace {
    None,
    Fresh,
}

/// Every server.
pub(super) const SERVERS: &[Server] = &[
    Server {
        name: "echo",
        program: "examples/echo",
        workspace: Workspace::None,
    },
    Server {
        name: "everything",
        program: "examples/everything",
        workspace: Workspace::None,
    },
    Server {
        name: "orchestra",
        program: "orchestra",
        workspace: Workspace::Fresh,
    },
];

/// Whom the program lets in over HTTP.
#[derive(Debug, Clone, Copy)]
pub(super) enum LetIn<'o> {
    /// Who comes from no page, or from one of this origin.
    Pages(&'o str),
    /// Who shows a token of the issuer at this origin.
    SignedIn(&'o str),
}

/// The scope that callers of an issuer need.
const SCOPE: &str = "orchestra:use";

/// Where a judge can serve what it needs: on a port that nobody listens on now.
///
/// # Errors
/// When no port is free.
pub(super) fn free_origin() -> Result<String> {
    Ok(format!("http://{}", free_address()?))
}

/// Starts a server over HTTP, on any port.
///
/// # Errors
/// When it cannot be started.
pub(super) fn serve(
    program: &mut Command,
    server: &Server,
    workspace: &Path,
    let_in: LetIn<'_>,
) -> Result<Served> {
    let any = "127.0.0.1:0";
    if server.workspace == Workspace::None {
        return Served::start(program.args(["--http", any]), Told::Stderr);
    }
    program.args(["up", "--json", "--workspace"]).arg(workspace);
    match let_in {
        LetIn::Pages(origin) => program.args(["--http", any, "--allow-origin", origin]),
        LetIn::SignedIn(issuer) => {
            // Tokens name the resource by its port, so it is known before.
            let site = free_origin()?;
            let address = site.trim_start_matches("http://");
            program.args(["--http", address, "--oauth-issuer", issuer]);
            program.args(["--oauth-resource", &format!("{site}/mcp")]);
            program.args(["--oauth-scope", SCOPE])
        }
    };
    Served::start(program, Told::Stdout)
}
