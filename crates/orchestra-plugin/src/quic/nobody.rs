//! Whether anybody is at an address at all.
//!
//! A program that is killed says nothing more, and its silence alone tells no more of it than that of
//! one that is stopped or slow. But a datagram to a port that nobody has is refused by the system at
//! the other end, and whoever sent it is told, where no network between them keeps that back.

use std::{
    convert::Infallible,
    future::pending,
    io::{self, ErrorKind},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use tokio::{
    net::UdpSocket,
    time::{sleep, timeout},
};

/// How often a port is tried.
const AGAIN: Duration = Duration::from_millis(250);

/// What is sent there: no packet of QUIC, so that whoever has the port leaves it.
const KNOCK: [u8; 1] = [0];

/// How often it is looked whether a caller of this machine still says something.
const LOOK_HERE: Duration = Duration::from_secs(1);

/// Looks in a row without anything that came, from which on it is asked whether anybody is there.
const SILENT_LOOKS: u32 = 2;

/// How long the answer to that may take.
const ASKING: Duration = Duration::from_millis(400);

/// Waits until the port of a peer is nobody's any more, although the connection has not ended: its
/// program was killed. Whoever is silent for another reason is waited for. Between two looks at what
/// has come lies a `pause`.
pub(super) async fn deserted<F: Future<Output = ()>>(
    connection: &quinn::Connection,
    pause: impl Fn() -> F,
) {
    let heard = || connection.stats().udp_rx.datagrams;
    let (mut before, mut silent) = (heard(), 0);
    loop {
        pause().await;
        let now = heard();
        if now != before {
            (before, silent) = (now, 0);
            continue;
        }
        silent += 1;
        if silent < SILENT_LOOKS {
            continue;
        }
        let nobody = nobody_at(connection.remote_address());
        if timeout(ASKING, nobody).await.is_ok() {
            return;
        }
    }
}

/// The same of a peer that calls from this machine. Others are not asked for: what is between may
/// refuse in their stead.
pub(super) async fn deserted_here(connection: &quinn::Connection) {
    match connection.remote_address().ip().is_loopback() {
        true => deserted(connection, || sleep(LOOK_HERE)).await,
        false => pending().await,
    }
}

/// Waits until it is known that nobody has a port: for ever where somebody has it, or where that is
/// not told.
pub(super) async fn nobody_at(address: SocketAddr) {
    let error = match knock(address).await {
        Ok(never) => match never {},
        Err(error) => error,
    };
    if error.kind() != ErrorKind::ConnectionRefused {
        // Nothing is known then.
        tracing::trace!(%address, %error, "cannot check whether a process listens on the address");
        pending::<()>().await;
    }
}

/// The address that sockets have for what goes out towards another.
pub(super) fn local(towards: SocketAddr) -> SocketAddr {
    let ip: IpAddr = match towards.ip() {
        IpAddr::V4(ip) if ip.is_loopback() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_loopback() => Ipv6Addr::LOCALHOST.into(),
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    SocketAddr::new(ip, 0)
}

async fn knock(address: SocketAddr) -> io::Result<Infallible> {
    // A socket of its own: one that calls go out from is not told whose port was refused.
    let socket = UdpSocket::bind(local(address)).await?;
    socket.connect(address).await?;
    loop {
        socket.send(&KNOCK).await?;
        let refused = async {
            let mut byte = [0];
            loop {
                // What is said there is for nobody.
                if let Err(error) = socket.recv(&mut byte).await {
                    return error;
                }
            }
        };
        if let Ok(error) = timeout(AGAIN, refused).await {
            return Err(error);
        }
    }
}
