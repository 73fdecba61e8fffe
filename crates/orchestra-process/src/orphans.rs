//! What is left of a child whose guard was killed.
//!
//! A guard is the parent of whatever loses its parent below it. When it is killed itself, those
//! processes go to the next parent above that wants them; a program that has called [`adopt`] is
//! that parent, and kills them. Nobody is left to do so when both are killed at the same moment.

use std::{io, sync::OnceLock, time::Duration};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use tokio::time::{Instant, sleep};

use crate::{detached, tree};

/// How often what is left is looked for while it is being killed, and for how long: only a process
/// that the system itself holds survives that.
const KILL_EVERY: Duration = Duration::from_millis(2);
const KILL_FOR: Duration = Duration::from_secs(5);

/// Set once this program is the parent of orphans; the children that were its own before and could
/// be taken for such.
static BEFORE: OnceLock<Vec<Pid>> = OnceLock::new();

/// Makes this program the parent of whatever loses its parent below it, so that nothing is left of
/// a child even if its guard alone is killed, not even what has left its group. To be called once,
/// by programs that start nothing else in other sessions, but for what is [`Detached`]: it would be
/// killed as well when a guard was killed. Linux; elsewhere it changes nothing.
///
/// # Errors
/// When the system does not want it.
///
/// [`Detached`]: crate::Detached
pub fn adopt_orphans() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        let before = tree::adopted();
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        BEFORE.get_or_init(|| before);
    }
    Ok(())
}

/// Kills whatever a guard that was killed has left to us. The guard must have been waited for.
pub(crate) async fn kill_adopted() {
    let Some(before) = BEFORE.get() else {
        return;
    };
    let end = Instant::now() + KILL_FOR;
    loop {
        let mut adopted = detached::without_detached(tree::adopted());
        adopted.retain(|process| !before.contains(process));
        if adopted.is_empty() || Instant::now() >= end {
            return;
        }
        for process in adopted {
            // Whoever is gone already is gone.
            for below in tree::descendants(process) {
                let _ = kill_process(below, Signal::KILL);
            }
            let _ = kill_process(process, Signal::KILL);
            let _ = waitpid(Some(process), WaitOptions::NOHANG);
        }
        sleep(KILL_EVERY).await;
    }
}
