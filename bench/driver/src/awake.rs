//! Keeps the processors from sleeping while calls of microseconds are measured.
//!
//! On a virtual machine it can take ten times longer to wake a halted processor than to answer a
//! call, and whether it had halted is the machine's mood. So one process for each processor spins
//! at idle priority: it yields at once to anything else, and no processor ever halts.

use std::{
    io::Read as _,
    process::{Child, Command, Stdio},
    thread,
};

use anyhow::{Context as _, Result};

/// The argument by which this program is told to spin.
pub(crate) const SPIN: &str = "--spin";

/// Spinning processes, gone when dropped.
pub(crate) struct Awake {
    spinners: Vec<Child>,
}

impl Awake {
    /// Starts a spinner for each processor; none where `chrt` is missing, for at any other
    /// priority they would take time from what is measured.
    ///
    /// # Errors
    /// When our own program cannot be found.
    pub(crate) fn keep() -> Result<Self> {
        let own = std::env::current_exe().context("looking for our own program")?;
        let count = thread::available_parallelism().map_or(1, usize::from);
        let spinner = |_| {
            let mut command = Command::new("chrt");
            command.args(["--idle", "0"]).arg(&own).arg(SPIN);
            command.stdin(Stdio::piped()).spawn().ok()
        };
        let spinners = (0..count).filter_map(spinner).collect();
        Ok(Self { spinners })
    }

    /// How the table's heading puts it.
    pub(crate) fn describe(&self) -> &'static str {
        if self.spinners.is_empty() {
            "processors may sleep between calls"
        } else {
            "processors kept awake at idle priority"
        }
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        for spinner in &mut self.spinners {
            // One that has gone already is as good.
            drop(spinner.kill().and_then(|()| spinner.wait()));
        }
    }
}

/// Spins until whoever started this process has gone.
pub(crate) fn spin() -> ! {
    thread::spawn(|| {
        drop(std::io::stdin().lock().read_to_end(&mut Vec::new()));
        std::process::exit(0);
    });
    loop {
        std::hint::spin_loop();
    }
}
