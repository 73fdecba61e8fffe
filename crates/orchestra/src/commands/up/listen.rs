//! Where `up` listens, and what makes it stop.

use std::{io, net::SocketAddr};

use tokio::{net::TcpListener, sync::watch};

use crate::exit::Failure;

/// How many ports after one that is taken are tried.
const PORTS_TRIED: u16 = 100;

/// Refuses an address that other machines can reach.
pub(super) fn check(address: SocketAddr) -> Result<(), Failure> {
    if address.ip().is_loopback() {
        return Ok(());
    }
    Err(Failure::usage_text(format!(
        "{address} can be reached from other machines, and nothing asks them who they are; \
         use a loopback address such as 127.0.0.1:{}",
        address.port()
    )))
}

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

    #[test]
    fn only_loopback_is_served() {
        for address in ["127.0.0.1:0", "[::1]:7420", "127.9.9.9:1"] {
            assert!(check(address.parse().unwrap()).is_ok());
        }
        for address in ["0.0.0.0:7420", "[::]:7420", "192.168.0.1:80"] {
            assert!(check(address.parse().unwrap()).is_err());
        }
    }
}
