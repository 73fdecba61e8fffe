//! Connections from a child that can create no socket but pairs.
//!
//! The child inherits one end of a socket ([`Command::inherit`](crate::Command::inherit)). To connect, a process of
//! the child creates a pair of sockets and sends one of them over the inherited end. No path and no secret is
//! involved: only processes that have inherited the end can connect, and none can after the child has ended.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream as StdStream,
    },
};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketType, getsockname, recvmsg, sendmsg, sockopt,
};
use tokio::{io::Interest, net::UnixStream};

use crate::message::recv_flags;

/// Byte that carries a socket.
const MARK: [u8; 1] = [b'C'];

/// Our end: the connections that a child makes.
#[derive(Debug)]
pub struct Connections(UnixStream);

impl Connections {
    /// Creates both ends; the second is the child's. Must run inside a runtime.
    ///
    /// # Errors
    /// When the system gives no sockets.
    pub fn new() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = StdStream::pair()?;
        ours.set_nonblocking(true)?;
        Ok((Self(UnixStream::from_std(ours)?), theirs.into()))
    }

    /// Waits for the next connection; `None` when the other end is closed.
    ///
    /// # Errors
    /// When the child sends something other than one stream socket, or the system fails.
    pub async fn accept(&self) -> io::Result<Option<UnixStream>> {
        let received = self
            .0
            .async_io(Interest::READABLE, || receive(&self.0))
            .await?;
        let Some(descriptor) = received else {
            return Ok(None);
        };
        let is_stream = matches!(sockopt::socket_type(&descriptor), Ok(SocketType::STREAM))
            && getsockname(&descriptor)
                .is_ok_and(|name| name.address_family() == AddressFamily::UNIX);
        if !is_stream {
            return Err(wrong());
        }
        let stream = StdStream::from(descriptor);
        stream.set_nonblocking(true)?;
        UnixStream::from_std(stream).map(Some)
    }
}

fn wrong() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the child sent something other than a stream socket",
    )
}

/// Receives one socket; `None` at the end.
fn receive(socket: &UnixStream) -> io::Result<Option<OwnedFd>> {
    // Descriptors for which there is no space are closed by the system.
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0; 1];
    let mut parts = [IoSliceMut::new(&mut byte)];
    let received = recvmsg(socket, &mut parts, &mut control, recv_flags())?;
    let mut descriptor = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            descriptor = received.last();
        }
    }
    match (received.bytes, descriptor) {
        (0, _) => Ok(None),
        (_, None) => Err(wrong()),
        (_, Some(descriptor)) => {
            rustix::io::fcntl_setfd(&descriptor, rustix::io::FdFlags::CLOEXEC)?;
            Ok(Some(descriptor))
        }
    }
}

/// Connects to the program that started this process, over the inherited descriptor with this number.
///
/// # Errors
/// When this process has no such descriptor, the other end is closed, or the system is not Linux.
pub fn connect(descriptor: i32) -> io::Result<StdStream> {
    let inherited = inherited(descriptor)?;
    let (ours, theirs) = StdStream::pair()?;
    let handed = [theirs.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fits = control.push(SendAncillaryMessage::ScmRights(&handed));
    debug_assert!(fits, "there is space for one descriptor");
    let parts = [IoSlice::new(&MARK)];
    sendmsg(&inherited, &parts, &mut control, no_signal())?;
    Ok(ours)
}

/// Flags of a send whose failure is an error and no signal, where the system can.
fn no_signal() -> SendFlags {
    #[cfg(target_os = "linux")]
    let flags = SendFlags::NOSIGNAL;
    #[cfg(not(target_os = "linux"))]
    let flags = SendFlags::empty();
    flags
}

/// Duplicate of a descriptor of this process, by its number.
#[cfg(target_os = "linux")]
fn inherited(descriptor: i32) -> io::Result<OwnedFd> {
    use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
    let this = pidfd_open(getpid(), PidfdFlags::empty())?;
    Ok(pidfd_getfd(this, descriptor, PidfdGetfdFlags::empty())?)
}

#[cfg(not(target_os = "linux"))]
fn inherited(_: i32) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        os::fd::AsRawFd as _,
    };

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn connections_over_one_descriptor_are_apart_and_end_with_it() {
        let (connections, theirs) = Connections::new().unwrap();
        let mut first = connect(theirs.as_raw_fd()).unwrap();
        let mut second = connect(theirs.as_raw_fd()).unwrap();
        let mut ours = connections.accept().await.unwrap().unwrap();
        let mut other = connections.accept().await.unwrap().unwrap();
        second.write_all(b"2").unwrap();
        first.write_all(b"1").unwrap();
        assert_eq!(ours.read_u8().await.unwrap(), b'1');
        assert_eq!(other.read_u8().await.unwrap(), b'2');
        ours.write_all(b"answer").await.unwrap();
        let mut answer = [0; 6];
        first.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"answer");
        drop(theirs);
        assert!(connections.accept().await.unwrap().is_none());
    }

    #[tokio::test]
    async fn descriptor_that_is_no_stream_socket_is_refused() {
        let (connections, theirs) = Connections::new().unwrap();
        let (read, _write) = io::pipe().unwrap();
        let handed = [read.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&handed)));
        sendmsg(&theirs, &[IoSlice::new(&MARK)], &mut control, no_signal()).unwrap();
        let refused = connections.accept().await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
        rustix::io::write(&theirs, b"text").unwrap();
        let refused = connections.accept().await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
    }

    #[tokio::test]
    async fn connection_is_refused_when_the_other_end_is_gone() {
        let (connections, theirs) = Connections::new().unwrap();
        let descriptor = theirs.as_raw_fd();
        drop(connections);
        assert_eq!(
            connect(descriptor).unwrap_err().kind(),
            io::ErrorKind::BrokenPipe
        );
    }
}
