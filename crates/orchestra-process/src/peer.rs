//! The user at the other end of a TCP connection over a loopback address.
//!
//! Linux names the owner of a socket by its exact pair of addresses (`sock_diag(7)`): one request of
//! constant size, for any number of sockets. Other systems name none.

use std::net::SocketAddr;

use tokio::net::TcpStream;

#[cfg(target_os = "linux")]
mod sock_diag;

/// User at the other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PeerUser {
    /// The user who runs this program.
    Same,
    /// Another user of this machine, by id; root is one.
    Other(u32),
    /// A user whom the system does not name: the connection comes from another machine or network
    /// namespace, was redirected on its way, or its peer has closed it.
    Unknown,
}

impl PeerUser {
    /// Returns the id of the user, if the system names it.
    #[must_use]
    pub fn id(self) -> Option<u32> {
        match self {
            Self::Same => Some(rustix::process::geteuid().as_raw()),
            Self::Other(user) => Some(user),
            Self::Unknown => None,
        }
    }
}

/// Looks up the users at the other end of connections.
#[derive(Debug)]
pub struct PeerUsers {
    #[cfg(target_os = "linux")]
    system: Option<System>,
}

/// Facts about Linux that the lookup needs.
#[cfg(target_os = "linux")]
#[derive(Debug)]
struct System {
    sockets: sock_diag::SockDiag,
    user: u32,
}

/// Id under which Linux reports all users that a user namespace does not map. A program that runs as
/// this user cannot distinguish its own connections from theirs.
#[cfg(target_os = "linux")]
const UNMAPPED_USER: u32 = 65_534;

impl PeerUsers {
    /// Prepares for lookups. Where the system supports none, every user is unknown.
    #[must_use]
    pub fn new() -> Self {
        Self {
            #[cfg(target_os = "linux")]
            system: System::open(),
        }
    }

    /// Returns whether the system names users at all.
    #[must_use]
    pub const fn are_named(&self) -> bool {
        #[cfg(target_os = "linux")]
        return self.system.is_some();
        #[cfg(not(target_os = "linux"))]
        return false;
    }

    /// Returns the user at the other end of an accepted connection, which came from `peer`.
    #[cfg(target_os = "linux")]
    pub fn find(&mut self, stream: &TcpStream, peer: SocketAddr) -> PeerUser {
        let Some(system) = &mut self.system else {
            return PeerUser::Unknown;
        };
        if !peer.ip().to_canonical().is_loopback() {
            return PeerUser::Unknown;
        }
        let Ok(local) = stream.local_addr() else {
            return PeerUser::Unknown;
        };
        let user = match system.sockets.find(peer, local) {
            Ok(Some(socket)) => socket.user(),
            Ok(None) | Err(_) => None,
        };
        // A connection that was reset keeps what was sent on it, while another process may have
        // connected from its port since. As long as ours is connected, the socket found is its peer.
        let user = user.filter(|_| stream.peer_addr().is_ok());
        match user {
            None => PeerUser::Unknown,
            Some(user) if user == system.user => PeerUser::Same,
            Some(user) => PeerUser::Other(user),
        }
    }

    /// Returns that the user is unknown.
    #[cfg(not(target_os = "linux"))]
    pub fn find(&mut self, _stream: &TcpStream, _peer: SocketAddr) -> PeerUser {
        PeerUser::Unknown
    }
}

impl Default for PeerUsers {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(target_os = "linux")]
impl System {
    fn open() -> Option<Self> {
        let user = rustix::process::geteuid().as_raw();
        let mut sockets = sock_diag::SockDiag::open().ok()?;
        // A kernel without the protocol, and a sandbox, refuse the first request.
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
        sockets.find(nowhere, nowhere).ok()?;
        (user != UNMAPPED_USER).then_some(Self { sockets, user })
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::{
        io::{self, Read as _, Write as _},
        net::{Ipv6Addr, TcpStream as Client},
        time::Duration,
    };

    use rustix::net::sockopt::set_socket_linger;
    use tokio::net::TcpListener;

    use super::*;

    /// Connects to a listener on `bound` by way of `reached`; both ends.
    async fn connect(bound: &str, reached: &str) -> (Client, TcpStream, SocketAddr) {
        let listener = TcpListener::bind(bound).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = Client::connect((reached, port)).unwrap();
        let (stream, peer) = listener.accept().await.unwrap();
        (client, stream, peer)
    }

    fn users() -> PeerUsers {
        let users = PeerUsers::new();
        assert!(users.are_named(), "this system names no users");
        users
    }

    #[tokio::test]
    async fn own_connection_is_of_the_same_user_over_every_address_family() {
        let mut users = users();
        for (bound, reached) in [
            ("127.0.0.1:0", "127.0.0.1"),
            ("127.0.0.1:0", "::ffff:127.0.0.1"),
            ("127.8.9.10:0", "127.8.9.10"),
            ("[::]:0", "127.0.0.1"),
            ("[::ffff:127.0.0.1]:0", "127.0.0.1"),
            ("[::1]:0", "::1"),
        ] {
            let (_client, stream, peer) = connect(bound, reached).await;
            let user = users.find(&stream, peer);
            assert_eq!(user, PeerUser::Same, "{bound} by {reached}");
        }
    }

    #[tokio::test]
    async fn closed_peer_is_unknown_although_its_request_is_readable() {
        let mut users = users();
        let (mut client, stream, peer) = connect("127.0.0.1:0", "127.0.0.1").await;
        client.write_all(b"request").unwrap();
        drop(client);
        stream.readable().await.unwrap();
        let mut sent = [0; 7];
        assert_eq!(stream.try_read(&mut sent).unwrap(), 7);
        assert_eq!(users.find(&stream, peer), PeerUser::Unknown);
    }

    #[tokio::test]
    async fn half_closed_peer_is_unknown() {
        let mut users = users();
        let (client, stream, peer) = connect("127.0.0.1:0", "127.0.0.1").await;
        client.shutdown(std::net::Shutdown::Write).unwrap();
        stream.readable().await.unwrap();
        assert_eq!(users.find(&stream, peer), PeerUser::Unknown);
    }

    #[tokio::test]
    async fn reset_connection_is_unknown_although_another_has_its_port_now() {
        let mut users = users();
        // Another program may take the port of the first before the second: then all begins anew.
        let (listener, from, second) = loop {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let mut first = Client::connect(address).unwrap();
            let from = first.local_addr().unwrap();
            first.write_all(b"request").unwrap();
            set_socket_linger(&first, Some(Duration::ZERO)).unwrap();
            drop(first);
            let second = tokio::net::TcpSocket::new_v4().unwrap();
            second.set_reuseaddr(true).unwrap();
            match second.bind(from) {
                Ok(()) => {
                    let second = second.connect(address).await.unwrap();
                    break (listener, from, second);
                }
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::AddrInUse),
            }
        };
        let (stream, peer) = listener.accept().await.unwrap();
        assert_eq!(peer, from);
        let mut sent = [0; 7];
        stream.readable().await.unwrap();
        assert_eq!(stream.try_read(&mut sent).unwrap(), 7, "it is the first");
        assert_eq!(users.find(&stream, peer), PeerUser::Unknown);
        let (stream, peer) = listener.accept().await.unwrap();
        assert_eq!(users.find(&stream, peer), PeerUser::Same);
        drop(second);
    }

    #[tokio::test]
    async fn peer_of_another_machine_is_unknown() {
        let mut users = users();
        let (_client, stream, _) = connect("[::1]:0", "::1").await;
        let elsewhere = SocketAddr::from((Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), 1));
        assert_eq!(users.find(&stream, elsewhere), PeerUser::Unknown);
    }

    #[tokio::test]
    async fn peer_of_another_user_is_named() {
        if !rustix::process::geteuid().is_root() {
            assert!(
                std::env::var_os("CI").is_none(),
                "CI runs this test as root"
            );
            eprintln!("SKIPPED: another user needs root");
            return;
        }
        let mut users = users();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; cat <&3");
        // direct: a test becomes another user with it, and waits for it.
        let mut child = std::process::Command::new("setpriv")
            .args([
                "--reuid=1",
                "--regid=1",
                "--clear-groups",
                "bash",
                "-c",
                &script,
            ])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let (stream, peer) = listener.accept().await.unwrap();
        assert_eq!(users.find(&stream, peer), PeerUser::Other(1));
        drop(stream);
        let mut rest = String::new();
        let mut output = child.stdout.take().unwrap();
        output.read_to_string(&mut rest).unwrap();
        assert!(child.wait().unwrap().success());
    }
}
