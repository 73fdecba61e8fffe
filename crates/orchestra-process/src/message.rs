//! What crosses between us, the guard and the stage: one order with its descriptors in one
//! direction, reports in the other.
//!
//! All of it travels over the socket that guard and stage find as their standard input. An order
//! is a length and JSON; the descriptors of the child's input and output come with its first byte,
//! so that no process that is started at the same moment can inherit them. Reports are JSON, one a
//! line. All three are the same program, so the form is theirs alone.

use std::{
    ffi::OsString,
    io::{self, IoSlice, IoSliceMut, Read, Write},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};

use crate::{Limit, Limits, NestedNames};

/// Longest order; arguments and environment of a program end at about 2 MiB on Linux, and JSON has
/// up to four bytes for each.
const MAX_ORDER_BYTES: usize = 16 * 1024 * 1024;

/// One byte from us to the guard: end the child by SIGTERM.
pub(crate) const TERMINATE: u8 = b'T';
/// One byte from us to the guard: kill whatever is left of it.
pub(crate) const KILL: u8 = b'K';

/// What is to be started.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    /// Paths are kept as they are, whatever their bytes.
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) directory: Option<OsString>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) limits: Limits,
    pub(crate) confinement: Option<Confinement>,
    /// How the guard starts the stage.
    pub(crate) launcher: OsString,
    pub(crate) launcher_arguments: Vec<OsString>,
    /// Whether there is a stage at all.
    pub(crate) is_staged: bool,
    /// Environment variable that names the descriptor which the child inherits besides its standard ones.
    pub(crate) inherited: Option<OsString>,
}

/// What a confined child may reach besides the system's programs.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Confinement {
    /// File of the program, if the sandbox opens it.
    pub(crate) program: Option<OsString>,
    pub(crate) write: Vec<OsString>,
    pub(crate) read: Vec<OsString>,
    pub(crate) protected: Vec<OsString>,
    pub(crate) nested: Vec<NestedNames>,
    pub(crate) hidden: Vec<OsString>,
    /// Whether the protected ones become read-only mounts, and empty ones cover the hidden ones.
    pub(crate) mounts: bool,
}

/// The descriptors of the child.
#[derive(Debug)]
pub(crate) struct Descriptors {
    /// Standard input, output and error.
    pub(crate) stdio: [OwnedFd; 3],
    /// Descriptor that it inherits besides.
    pub(crate) inherited: Option<OwnedFd>,
}

/// Number of descriptors of a child at most.
const MAX_DESCRIPTORS: usize = 4;

impl Descriptors {
    /// Sends an order with these descriptors. Blocks until the other side has received it.
    pub(crate) fn send(&self, socket: &UnixStream, order: &[u8]) -> io::Result<()> {
        let all = self.stdio.iter().chain(&self.inherited);
        let all: Vec<BorrowedFd<'_>> = all.map(AsFd::as_fd).collect();
        send(socket, order, &all)
    }
}

/// What the guard says.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The child runs.
    Started {
        id: i32,
        /// Reason why its protected paths are no read-only mounts.
        without_mounts: Option<String>,
    },
    /// It could not be started.
    Failed(Failure),
    /// It ended, and nothing is left of it.
    Ended(Ended),
}

/// Why a child could not be started. The stage says nothing else.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) step: Step,
    pub(crate) errno: Option<i32>,
    pub(crate) what: String,
}

/// Where a start failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Step {
    /// Between guard and stage.
    Guard,
    Limit(Limit),
    /// The mounts of the sandbox, without which the stage is started again.
    Mounts,
    Sandbox,
    Directory,
    Program,
}

/// How a child ended.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    /// The limit for which the guard has killed it.
    pub(crate) over: Option<Limit>,
    /// What it has computed, if that could be seen.
    pub(crate) cpu_seconds: Option<u64>,
    /// What it and all that descended from it have computed, in milliseconds, if that could be seen.
    pub(crate) cpu_ms: Option<u64>,
}

impl Failure {
    pub(crate) fn new(step: Step, error: &io::Error) -> Self {
        Self {
            step,
            errno: error.raw_os_error(),
            what: error.to_string(),
        }
    }

    pub(crate) fn io(&self) -> io::Error {
        match self.errno {
            Some(errno) => io::Error::from_raw_os_error(errno),
            None => io::Error::other(self.what.clone()),
        }
    }
}

impl Report {
    pub(crate) fn send(&self, mut socket: impl Write) -> io::Result<()> {
        let mut line = serde_json::to_vec(self).map_err(io::Error::other)?;
        line.push(b'\n');
        socket.write_all(&line)
    }
}

/// Sends an order with its descriptors. Blocks until the other side has taken it.
pub(crate) fn send(
    mut socket: &UnixStream,
    order: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let length = u32::try_from(order.len())
        .ok()
        .filter(|length| *length as usize <= MAX_ORDER_BYTES)
        .ok_or_else(|| io::Error::other("arguments and environment are too long"))?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fits = control.push(SendAncillaryMessage::ScmRights(descriptors));
    debug_assert!(fits, "there is space for the descriptors");
    let head = length.to_be_bytes();
    let sent = sendmsg(
        socket,
        &[IoSlice::new(&head)],
        &mut control,
        SendFlags::empty(),
    )?;
    socket.write_all(&head[sent..])?;
    socket.write_all(order)
}

/// Takes an order and its descriptors from the other side.
pub(crate) fn receive(mut socket: impl Read + AsFd) -> io::Result<(Vec<u8>, Descriptors)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut head = [0; 4];
    let flags = recv_flags();
    let received = recvmsg(
        &socket,
        &mut [IoSliceMut::new(&mut head)],
        &mut control,
        flags,
    )?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            descriptors.extend(received);
        }
    }
    for descriptor in &descriptors {
        rustix::io::fcntl_setfd(descriptor, rustix::io::FdFlags::CLOEXEC)?;
    }
    if received.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    socket.read_exact(&mut head[received.bytes..])?;
    let length = u32::from_be_bytes(head) as usize;
    if length > MAX_ORDER_BYTES {
        return Err(io::Error::other("the order is too long"));
    }
    let mut order = vec![0; length];
    socket.read_exact(&mut order)?;
    let mut descriptors = descriptors.into_iter();
    let missing = || io::Error::other("the order came without its descriptors");
    let mut next = || descriptors.next().ok_or_else(missing);
    let stdio = [next()?, next()?, next()?];
    let inherited = descriptors.next();
    Ok((order, Descriptors { stdio, inherited }))
}

/// Where the system can, descriptors arrive closed to other programs.
pub(crate) fn recv_flags() -> RecvFlags {
    #[cfg(target_os = "linux")]
    let flags = RecvFlags::CMSG_CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    let flags = RecvFlags::empty();
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_arrives_whole_with_its_descriptors() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut read, write) = std::io::pipe().unwrap();
        // More than the socket holds.
        let order = vec![b'x'; 2 * 1024 * 1024];
        let reader = std::thread::spawn(move || receive(&theirs).unwrap());
        send(&ours, &order, &[write.as_fd(); 4]).unwrap();
        drop(write);
        let (received, descriptors) = reader.join().unwrap();
        assert_eq!(received, order);
        let Descriptors { stdio, inherited } = descriptors;
        assert!(inherited.is_some());
        for descriptor in stdio.iter().chain(&inherited) {
            let flags = rustix::io::fcntl_getfd(descriptor).unwrap();
            assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        }
        let [first, second, third] = stdio;
        drop((second, third, inherited));
        std::fs::File::from(first).write_all(b"through").unwrap();
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
    }
}
