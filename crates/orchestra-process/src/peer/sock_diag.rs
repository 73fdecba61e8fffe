//! Lookup of one TCP socket by its addresses over netlink (`sock_diag(7)`).

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::OwnedFd,
};

use rustix::{
    io::Errno,
    net::{
        AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType,
        netlink::{self, SocketAddrNetlink},
        recvfrom, sendto, socket_with,
    },
};

/// Type of a request for a socket and of its reply (`linux/sock_diag.h`).
const BY_FAMILY: u16 = 20;

/// Type of a reply that is an error (`linux/netlink.h`).
const ERROR: u16 = 2;

/// Flag of a message that is a request (`linux/netlink.h`).
const REQUEST: u16 = 1;

const TCP: u8 = 6;
const INET: u8 = 2;
const INET6: u8 = 10;

/// State of a socket whose connection neither side has begun to close (`net/tcp_states.h`).
const ESTABLISHED: u8 = 1;

/// Length of a netlink header and of a request behind it.
const HEADER: usize = 16;
const REQUEST_LENGTH: usize = HEADER + 56;

/// Length of a reply up to the inode; attributes follow.
const REPLY_LENGTH: usize = HEADER + 72;

/// Replies to earlier requests that are skipped.
const STALE: usize = 16;

/// A connection to the kernel.
#[derive(Debug)]
pub(super) struct SockDiag {
    socket: OwnedFd,
    sequence: u32,
}

/// A socket as the kernel describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Socket {
    state: u8,
    user: u32,
    inode: u32,
}

impl Socket {
    /// Its owner. A socket that was closed belongs to no process any more: it has no inode, and some
    /// kernels list it as one of root.
    pub(super) const fn user(self) -> Option<u32> {
        if self.state == ESTABLISHED && self.inode != 0 {
            Some(self.user)
        } else {
            None
        }
    }
}

impl SockDiag {
    /// Opens the connection.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn open() -> io::Result<Self> {
        let socket = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            Some(netlink::SOCK_DIAG),
        )?;
        Ok(Self {
            socket,
            sequence: 0,
        })
    }

    /// Finds the TCP socket that is bound to `local` and connected to `remote`; `None` when no such
    /// socket exists in this network namespace. Never waits.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn find(
        &mut self,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> io::Result<Option<Socket>> {
        let (local, remote) = (canonical(local), canonical(remote));
        self.sequence = self.sequence.wrapping_add(1);
        let request = request(self.sequence, local, remote);
        let kernel = SocketAddrNetlink::new(0, 0);
        sendto(&self.socket, &request, SendFlags::empty(), &kernel)?;
        for _ in 0..STALE {
            let mut buffer = [0; 1024];
            // The kernel has answered before the request was sent.
            let (length, _, sender) = recvfrom(&self.socket, &mut buffer[..], RecvFlags::empty())?;
            let sender = sender.and_then(|sender| SocketAddrNetlink::try_from(sender).ok());
            if sender.is_some_and(|sender| sender.pid() == 0)
                && let Some(found) = reply(&buffer[..length], self.sequence, local, remote)
            {
                return found;
            }
        }
        Err(io::ErrorKind::InvalidData.into())
    }
}

/// The address with IPv4-mapped IPv6 as IPv4. The kernel keeps both kinds of sockets in one table.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn request(sequence: u32, local: SocketAddr, remote: SocketAddr) -> [u8; REQUEST_LENGTH] {
    let mut bytes = [0; REQUEST_LENGTH];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(
        0,
        &u32::try_from(REQUEST_LENGTH)
            .unwrap_or(u32::MAX)
            .to_ne_bytes(),
    );
    put(4, &BY_FAMILY.to_ne_bytes());
    put(6, &REQUEST.to_ne_bytes());
    put(8, &sequence.to_ne_bytes());
    put(16, &[if local.is_ipv4() { INET } else { INET6 }, TCP]);
    // All states.
    put(20, &u32::MAX.to_ne_bytes());
    put(24, &local.port().to_be_bytes());
    put(26, &remote.port().to_be_bytes());
    put(28, &octets(local.ip()));
    put(44, &octets(remote.ip()));
    // No interface, and no cookie of an earlier reply.
    put(64, &u64::MAX.to_ne_bytes());
    bytes
}

/// The address in the 16 bytes that the kernel gives it.
fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V6(address) => address.octets(),
        IpAddr::V4(address) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&address.octets());
            bytes
        }
    }
}

/// Reads a reply; `None` when it is one to another request.
fn reply(
    bytes: &[u8],
    sequence: u32,
    local: SocketAddr,
    remote: SocketAddr,
) -> Option<io::Result<Option<Socket>>> {
    if number(bytes, 8)? != sequence {
        return None;
    }
    let kind = u16::from_ne_bytes(array(bytes, 4)?);
    if kind == ERROR {
        let error = i32::from_ne_bytes(array(bytes, HEADER)?);
        let error = Errno::from_raw_os_error(error.wrapping_neg());
        return Some(if error == Errno::NOENT {
            Ok(None)
        } else {
            Err(error.into())
        });
    }
    if kind != BY_FAMILY || bytes.len() < REPLY_LENGTH {
        return Some(Err(io::ErrorKind::InvalidData.into()));
    }
    let address = |at: usize, port: usize| -> Option<SocketAddr> {
        let ip = match bytes[HEADER] {
            INET => IpAddr::from(Ipv4Addr::from_octets(array(bytes, at)?)),
            _ => IpAddr::from(Ipv6Addr::from_octets(array(bytes, at)?)).to_canonical(),
        };
        Some(SocketAddr::new(ip, u16::from_be_bytes(array(bytes, port)?)))
    };
    // A listener is found as well where no connection is.
    let is_it = address(24, 20)? == local && address(40, 22)? == remote;
    Some(Ok(is_it.then_some(Socket {
        state: bytes[HEADER + 1],
        user: number(bytes, 80)?,
        inode: number(bytes, 84)?,
    })))
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_ne_bytes)
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn listener_is_no_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut sockets = SockDiag::open().unwrap();
        let nobody = SocketAddr::from(([127, 0, 0, 1], 1));
        assert_eq!(sockets.find(address, nobody).unwrap(), None);
        let client = TcpStream::connect(address).unwrap();
        let from = client.local_addr().unwrap();
        let found = sockets.find(from, address).unwrap().unwrap();
        let user = rustix::process::geteuid().as_raw();
        assert_eq!(found.user(), Some(user));
    }

    #[test]
    fn socket_without_inode_or_connection_has_no_user() {
        let open = Socket {
            state: ESTABLISHED,
            user: 7,
            inode: 9,
        };
        assert_eq!(open.user(), Some(7));
        assert_eq!(Socket { inode: 0, ..open }.user(), None);
        for state in (0..13).filter(|state| *state != ESTABLISHED) {
            assert_eq!(Socket { state, ..open }.user(), None, "{state}");
        }
    }

    #[test]
    fn reply_to_another_request_is_skipped_and_a_short_one_is_an_error() {
        let here = SocketAddr::from(([127, 0, 0, 1], 7));
        let mut bytes = vec![0; REPLY_LENGTH];
        bytes[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
        bytes[8..12].copy_from_slice(&5_u32.to_ne_bytes());
        assert!(reply(&bytes, 6, here, here).is_none());
        assert!(matches!(reply(&bytes, 5, here, here), Some(Ok(None))));
        assert!(matches!(
            reply(&bytes[..REPLY_LENGTH - 1], 5, here, here),
            Some(Err(_))
        ));
        assert!(reply(&[], 5, here, here).is_none());
    }
}
