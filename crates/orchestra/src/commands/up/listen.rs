//! Where `up` listens.

use std::{io, net::SocketAddr};

use axum::http::Uri;
use orchestra_mcp::http::{Listeners, ServiceUrl};

use crate::{
    http::{Limits, MCP_PATH, PORTS_TRIED},
    stopping,
};

/// Files that are left for others than connections: the database on each thread, files of the
/// board, what tools read; connections that make room for others and are not closed yet, and those
/// that are reserved for the health of the program.
const OTHER_FILES: usize = 512;

/// Connections that are served however few files may be open.
const FEWEST_CONNECTIONS: usize = 16;

/// Listens on `address`, or on the next port that is free.
pub(super) async fn bind(address: SocketAddr) -> anyhow::Result<Listeners> {
    let mut candidate = address;
    for _ in 0..PORTS_TRIED {
        match Listeners::bind(candidate).await {
            Ok(listeners) => return Ok(listeners),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => {
                return Err(
                    anyhow::Error::new(error).context(format!("cannot listen on {candidate}"))
                );
            }
        }
        match candidate.port().checked_add(1) {
            Some(port) if candidate.port() != 0 => candidate.set_port(port),
            _ => break,
        }
    }
    anyhow::bail!("{address} and the ports after it are in use; choose another port with --http")
}

/// Listens on `address` alone: `resource`, for which tokens are made out, leads there and nowhere
/// else.
pub(super) async fn bind_for(
    resource: &ServiceUrl,
    address: SocketAddr,
) -> anyhow::Result<Listeners> {
    let taken = |error: &io::Error| error.kind() == io::ErrorKind::AddrInUse;
    Listeners::bind(address).await.map_err(|error| {
        let text = if taken(&error) {
            format!(
                "{address} is in use, and tokens are issued for {resource}, which leads there; stop the program that listens there, or set another address with --http and its URL with --oauth-resource"
            )
        } else {
            format!("cannot listen on {address}")
        };
        anyhow::Error::new(error).context(text)
    })
}

/// Whether the path of `resource` ends in the one at which MCP is served.
pub(super) fn leads_to_mcp(resource: &ServiceUrl) -> bool {
    let url: Result<Uri, _> = resource.to_string().parse();
    url.is_ok_and(|url| url.path().ends_with(MCP_PATH))
}

/// The bounds of connections, such that there are enough open files for them.
pub(super) fn limits() -> Limits {
    let usual = Limits::default();
    let wanted = usual.connections + OTHER_FILES;
    let files = open_files(wanted).saturating_sub(OTHER_FILES);
    Limits {
        connections: usual.connections.min(files.max(FEWEST_CONNECTIONS)),
        grace: stopping::CALLS,
        ..usual
    }
}

/// How many files this process may open, after its limit was raised to `wanted` if that is allowed.
#[cfg(unix)]
fn open_files(wanted: usize) -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let limit = getrlimit(Resource::Nofile);
    let (current, maximum) = (
        limit.current.map_or(usize::MAX, size),
        limit.maximum.map_or(usize::MAX, size),
    );
    let raised = wanted.min(maximum);
    if raised <= current {
        return current;
    }
    let new = Rlimit {
        current: u64::try_from(raised).ok(),
        maximum: limit.maximum,
    };
    match setrlimit(Resource::Nofile, new) {
        Ok(()) => raised,
        Err(_) => current,
    }
}

#[cfg(not(unix))]
fn open_files(wanted: usize) -> usize {
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_taken_port_leads_to_the_next_free_one() {
        let first = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let taken = first.local_addr().unwrap();
        let second = bind(taken).await.unwrap();
        assert_ne!(second.local_addr().unwrap().port(), taken.port());
    }

    #[test]
    fn the_path_of_a_resource_is_that_of_mcp_or_ends_in_it() {
        for (resource, expected) in [
            ("https://box.example/mcp", true),
            ("https://box.example:7420/team/mcp", true),
            ("https://box.example", false),
            ("https://mcp", false),
            ("https://box.example/mcp2", false),
        ] {
            let url = resource.parse().unwrap();
            assert_eq!(leads_to_mcp(&url), expected, "{resource}");
        }
    }
}
