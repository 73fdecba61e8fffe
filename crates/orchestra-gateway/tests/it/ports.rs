//! Ports that stay free until a test uses them.

use std::{
    net::{Ipv4Addr, TcpListener, UdpSocket},
    sync::atomic::{AtomicU32, Ordering},
};

/// Returns a port that no program listens on. It is below those that systems assign, and each process of
/// tests begins at another one, so that it stays free until it is used, and when it is used again.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let next = std::process::id() * 8 + NEXT.fetch_add(1, Ordering::Relaxed);
        let port = u16::try_from(10_000 + next % 20_000).unwrap();
        let address = (Ipv4Addr::LOCALHOST, port);
        if TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok() {
            return port;
        }
    }
}
