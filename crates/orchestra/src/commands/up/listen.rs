//! Where `up` listens, and what makes it stop.

use std::{io, net::SocketAddr};

use tokio::{net::TcpListener, sync::watch};

use crate::http::Limits;

/// How many ports after one that is taken are tried.
const PORTS_TRIED: u16 = 100;

/// Files that are left for others than connections: the database on each thread, files of the
/// board, what tools read.
const OTHER_FILES: usize = 256;

/// Connections that are served however few files may be open.
const FEWEST_CONNECTIONS: usize = 16;

/// Listens on `address`, or on the next port that is free.
pub(super) async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let mut candidate = address;
    for _ in 0..PORTS_TRIED {
        match TcpListener::bind(candidate).await {
            Ok(listener) => return Ok(listener),
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
    anyhow::bail!("{address} and the ports after it are taken; name another with --http")
}

/// The bounds of connections, such that there are enough open files for them.
pub(super) fn limits() -> Limits {
    let usual = Limits::default();
    let wanted = usual.connections + OTHER_FILES;
    let files = open_files(wanted).saturating_sub(OTHER_FILES);
    Limits {
        connections: usual.connections.min(files.max(FEWEST_CONNECTIONS)),
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

/// Turns true at SIGINT, SIGTERM or ctrl-c.
pub(super) fn stop_signal() -> io::Result<watch::Receiver<bool>> {
    let (sender, receiver) = watch::channel(false);
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::spawn(async move {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            // Nobody listens any more only when the program ends already.
            let _ = sender.send(true);
        });
    }
    #[cfg(not(unix))]
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            let _ = sender.send(true);
        }
    });
    Ok(receiver)
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
}
