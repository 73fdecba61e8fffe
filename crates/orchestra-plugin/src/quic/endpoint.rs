//! A socket with an identity: calls go out from it and may come in at it.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use quinn::{EndpointConfig, TokioRuntime};
use rustix::net::sockopt;
use tokio::{
    select,
    time::{sleep, timeout},
};

use super::{
    admission::{Admission, Role},
    codes,
    connection::Connection,
    error::{BindError, ConnectError},
    limits::Limits,
    nobody::{local, nobody_at},
    peer::Peer,
    reset,
    serve::{Handler, Serving},
    tls,
    transport::{HANDSHAKE_TIME, MAX_DATAGRAM_BYTES, Pace},
};
use crate::{certs::Identity, ids::CertName};

/// What the system may keep for a socket. A burst that exceeds it is lost and sent again, and the
/// usual default is less than one large call.
const SOCKET_BUFFER_BYTES: usize = 4 * 1024 * 1024;

/// How long a handshake goes on until it is asked whether anybody is there.
const ANSWER_TIME: Duration = Duration::from_millis(100);

/// Reason of a connection that is closed because of its peer's certificate.
pub(super) const UNTRUSTED: &[u8] = b"the certificate is no longer trusted";

/// Whom to call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Where.
    pub address: SocketAddr,
    /// The DNS name or address that the peer's certificate must be for. Every certificate of ours is
    /// for `localhost` and the loopback addresses, so these say nothing of who answers.
    pub server_name: String,
    /// The name that the peer must have; `None` takes anyone of the authority.
    pub expected: Option<CertName>,
}

impl Target {
    /// Whoever of the authority is at an address.
    pub fn anyone(address: SocketAddr) -> Self {
        Self {
            address,
            server_name: address.ip().to_string(),
            expected: None,
        }
    }

    /// A peer of a known name at an address, wherever that is.
    pub fn named(address: SocketAddr, name: CertName) -> Self {
        Self {
            address,
            server_name: name.as_str().to_owned(),
            expected: Some(name),
        }
    }
}

/// A UDP socket that speaks for one identity.
#[derive(Debug, Clone)]
pub struct Endpoint {
    inner: quinn::Endpoint,
    pace: Pace,
    listens: bool,
    client: Arc<Mutex<quinn::ClientConfig>>,
    admission: Admission,
}

impl Endpoint {
    /// Where plugins and orchestrators of one machine listen: IPv4, which every peer can reach, on
    /// a port that the system chooses.
    pub const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

    /// Binds an address, from which calls can go out at once. Calls come in after
    /// [`Self::serve`]; a handshake that arrives before then waits.
    ///
    /// It must be called within a tokio runtime.
    ///
    /// # Errors
    /// The address is taken, or the certificates are unusable.
    pub fn bind(address: SocketAddr, identity: &Identity, pace: Pace) -> Result<Self, BindError> {
        let server = tls::server(identity, pace)?;
        Self::new(address, Some(server), identity, pace)
    }

    /// Binds a free port for calls that only go out, towards addresses like `towards`.
    ///
    /// # Errors
    /// As for [`Self::bind`].
    pub fn outgoing(
        towards: SocketAddr,
        identity: &Identity,
        pace: Pace,
    ) -> Result<Self, BindError> {
        Self::new(local(towards), None, identity, pace)
    }

    /// The address that was bound.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    /// Shows another certificate from the next handshake on, and trusts other authorities. Open connections whose
    /// peers' certificates are no longer trusted are closed.
    ///
    /// # Errors
    /// The certificates are unusable; nothing has changed then.
    pub fn renew(&self, identity: &Identity) -> Result<(), BindError> {
        let client = tls::client(identity, self.pace)?;
        let trust = tls::trust(identity)?;
        if self.listens {
            self.inner
                .set_server_config(Some(tls::server(identity, self.pace)?));
        }
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = client;
        self.admission.renew(trust);
        Ok(())
    }

    /// Answers the calls that come in.
    pub fn serve(&self, handler: Arc<dyn Handler>, limits: Limits) -> Serving {
        Serving::start(self.inner.clone(), self.admission.clone(), handler, limits)
    }

    /// Connects, within 5 seconds; sooner it is known only that nobody has the port.
    ///
    /// # Errors
    /// Nobody answers, or the handshake fails, or somebody else is there.
    pub async fn connect(&self, target: &Target) -> Result<Connection, ConnectError> {
        let Target {
            address,
            server_name,
            expected,
        } = target;
        let address = *address;
        let client = self
            .client
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let connecting = self
            .inner
            .connect_with(client, address, server_name)
            .map_err(|source| ConnectError::Target { address, source })?;
        let connecting = async {
            let nobody = async {
                sleep(ANSWER_TIME).await;
                nobody_at(address).await;
            };
            select! {
                biased;
                connected = timeout(HANDSHAKE_TIME, connecting) => Ok(connected),
                () = nobody => Err(ConnectError::Nobody { address }),
            }
        };
        let connection = match connecting.await? {
            Ok(Ok(connection)) => connection,
            Ok(Err(quinn::ConnectionError::TimedOut)) | Err(_) => {
                return Err(ConnectError::NoAnswer {
                    address,
                    seconds: HANDSHAKE_TIME.as_secs(),
                });
            }
            Ok(Err(source)) => return Err(ConnectError::Handshake { address, source }),
        };
        let peer = Peer::of(&connection);
        match (peer, expected) {
            (Some(peer), None) => Ok(Connection::new(connection, peer)),
            (Some(peer), Some(expected)) if peer.name() == expected => {
                Ok(Connection::new(connection, peer))
            }
            (peer, expected) => {
                connection.close(codes::WRONG_PEER, b"another peer was expected");
                let found = peer.map(|peer| peer.name().clone());
                let expected = expected.clone().or_else(|| server_name.parse().ok());
                match expected {
                    Some(expected) => Err(ConnectError::WrongPeer {
                        address,
                        expected,
                        found,
                    }),
                    None => Err(ConnectError::Closed),
                }
            }
        }
    }

    /// Closes a connection of this endpoint when the certificate of the server is no longer trusted; completes then.
    pub(super) async fn close_untrusted(&self, connection: &Connection) {
        let inner = connection.inner();
        self.admission.withdrawn(inner, Role::Server).await;
        inner.close(codes::UNTRUSTED, UNTRUSTED);
    }

    /// Closes every connection at once and waits until that has been said.
    pub async fn close(&self) {
        self.inner.close(codes::CLOSED, b"closed");
        self.inner.wait_idle().await;
    }

    fn new(
        address: SocketAddr,
        server: Option<quinn::ServerConfig>,
        identity: &Identity,
        pace: Pace,
    ) -> Result<Self, BindError> {
        let client = tls::client(identity, pace)?;
        let admission = Admission::new(tls::trust(identity)?);
        let failed = |source| BindError::Socket { address, source };
        let listens = server.is_some();
        let socket = UdpSocket::bind(address).map_err(failed)?;
        // The system grants what it grants; with less, large calls are slower.
        let _ = sockopt::set_socket_recv_buffer_size(&socket, SOCKET_BUFFER_BYTES);
        let _ = sockopt::set_socket_send_buffer_size(&socket, SOCKET_BUFFER_BYTES);
        let mut config = match listens {
            true => reset::config(identity),
            false => EndpointConfig::default(),
        };
        config
            .max_udp_payload_size(MAX_DATAGRAM_BYTES)
            .expect("it is between the least and the most of QUIC");
        let runtime = Arc::new(TokioRuntime);
        let inner = quinn::Endpoint::new(config, server, socket, runtime).map_err(failed)?;
        Ok(Self {
            inner,
            pace,
            listens,
            client: Arc::new(Mutex::new(client)),
            admission,
        })
    }
}
