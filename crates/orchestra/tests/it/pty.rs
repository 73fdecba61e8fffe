//! A program at a terminal of its own.

use std::{
    fs,
    io::{ErrorKind, Read as _, Write as _},
    os::fd::OwnedFd,
    process::{Child, Command, ExitStatus},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{Mode, OFlags},
    io::{Errno, FdFlags, fcntl_setfd},
    pipe::{PipeFlags, pipe_with},
    pty::{self, OpenptFlags},
    termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize},
};

use crate::support::PATIENCE;

/// The program, and what came on its terminal.
pub(crate) struct Pty {
    child: Child,
    /// The terminal; none once it has hung up.
    master: Option<OwnedFd>,
    /// The thread that reads from it, and what ends that.
    reader: Option<(thread::JoinHandle<()>, OwnedFd)>,
    bytes: Receiver<Vec<u8>>,
    partial: Vec<u8>,
    /// All that was on the terminal.
    pub(crate) all: String,
}

pub(crate) const fn size(columns: u16, lines: u16) -> Winsize {
    Winsize {
        ws_row: lines,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

impl Pty {
    pub(crate) fn start(mut command: Command, size: Winsize) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
        let master = pty::openpt(flags).unwrap();
        // A program that has its own terminal's other end open never sees it hang up.
        fcntl_setfd(&master, FdFlags::CLOEXEC).unwrap();
        pty::grantpt(&master).unwrap();
        pty::unlockpt(&master).unwrap();
        tcsetwinsize(&master, size).unwrap();
        let name = pty::ptsname(&master, Vec::new()).unwrap();
        // What another test starts meanwhile must not hold it open.
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let terminal = rustix::fs::open(name, flags, Mode::empty()).unwrap();
        let copy = || terminal.try_clone().unwrap();
        command.stdin(copy()).stdout(copy()).stderr(copy());
        let child = command.spawn().unwrap();
        drop((terminal, command));
        let mut reader = fs::File::from(master.try_clone().unwrap());
        let (sender, bytes) = mpsc::channel();
        let (ends, end) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let thread = thread::spawn(move || {
            let mut buffer = [0; 4096];
            loop {
                let mut both = [
                    PollFd::new(&reader, PollFlags::IN),
                    PollFd::new(&ends, PollFlags::empty()),
                ];
                match poll(&mut both, None) {
                    Err(Errno::INTR) => continue,
                    Ok(_) if both[1].revents().is_empty() => {}
                    Ok(_) | Err(_) => break,
                }
                match reader.read(&mut buffer) {
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    // A terminal that nobody has open any more ends with an error.
                    Ok(0) | Err(_) => break,
                    Ok(count) => {
                        if sender.send(buffer[..count].to_vec()).is_err() {
                            break;
                        }
                    }
                }
            }
        });
        Self {
            child,
            master: Some(master),
            reader: Some((thread, end)),
            bytes,
            partial: Vec::new(),
            all: String::new(),
        }
    }

    /// What comes next; `None` at the end.
    pub(crate) fn more(&mut self) -> Option<String> {
        match self.more_within(PATIENCE) {
            Ok(text) => Some(text),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("nothing comes: {}", self.all),
        }
    }

    /// The next output within a time.
    pub(crate) fn more_within(&mut self, time: Duration) -> Result<String, RecvTimeoutError> {
        self.partial.extend(self.bytes.recv_timeout(time)?);
        let valid = match std::str::from_utf8(&self.partial) {
            Ok(text) => text.len(),
            Err(error) => error.valid_up_to(),
        };
        let whole: Vec<u8> = self.partial.drain(..valid).collect();
        let whole = String::from_utf8(whole).unwrap();
        self.all.push_str(&whole);
        Ok(whole)
    }

    /// Types, or answers what the terminal was asked.
    pub(crate) fn write(&mut self, text: &str) {
        let mut master = fs::File::from(self.master().try_clone().unwrap());
        master.write_all(text.as_bytes()).unwrap();
    }

    fn master(&self) -> &OwnedFd {
        self.master.as_ref().unwrap()
    }

    /// Takes the terminal away, as a window does that is closed.
    pub(crate) fn hang_up(&mut self) {
        if let Some((thread, end)) = self.reader.take() {
            drop(end);
            thread.join().unwrap();
        }
        self.master = None;
    }

    pub(crate) fn resize(&self, size: Winsize) {
        tcsetwinsize(self.master(), size).unwrap();
    }

    /// How the terminal takes what is typed.
    pub(crate) fn modes(&self) -> LocalModes {
        tcgetattr(self.master()).unwrap().local_modes
    }

    pub(crate) fn id(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.child)
    }

    /// Waits for the end of the program.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < PATIENCE, "the process does not end");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
