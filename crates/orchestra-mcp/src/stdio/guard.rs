//! Moves standard input and output out of everyone else's reach.

use std::{fs::File, io};

use rustix::{
    fs::{Mode, OFlags},
    io::fcntl_dupfd_cloexec,
    stdio,
};

/// Takes standard input and output for the protocol: both become private descriptors, descriptor
/// 0 becomes empty, and descriptor 1 goes where descriptor 2 goes.
pub(super) fn take_over() -> io::Result<(File, File)> {
    // From 3 on, so that they are never taken for a standard descriptor.
    let input = fcntl_dupfd_cloexec(stdio::stdin(), 3)?;
    let output = fcntl_dupfd_cloexec(stdio::stdout(), 3)?;
    let nothing = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    stdio::dup2_stdin(&nothing)?;
    if stdio::dup2_stdout(stdio::stderr()).is_err() {
        // Standard error is closed.
        stdio::dup2_stdout(&nothing)?;
    }
    Ok((input.into(), output.into()))
}
