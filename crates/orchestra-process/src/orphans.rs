//! What is left of a child whose guard was killed.
//!
//! A guard is the parent of whatever loses its parent below it. When it is killed itself, those
//! processes go to the next parent above that wants them; a program that has called [`adopt`] is
//! that parent, and kills them. Nobody is left to do so when both are killed at the same moment.

use std::{io, sync::OnceLock, time::Duration};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use tokio::time::{Instant, sleep};

use crate::{Process, detached, tree};

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

/// Kills what is left of a child that has lost everybody who watched it, all at the same moment: its
/// guard is waited for; then whoever has `variable` (`NAME=value`) in the environment that it began
/// with ends, and whoever is still in the session of `child` or of its guard, until nobody is found. What has left the
/// session and was begun without the variable is not found. Where the id of one of the two has been given to
/// another process since, its session is that one's, and is left alone. Linux; elsewhere nobody is found.
///
/// The caller sees to it that no guard of this child is running any more, or is about to end, and that both
/// were started where ids mean what they mean now ([`numbering`](crate::numbering)).
pub async fn kill_left(variable: &str, guard: Option<Process>, child: Option<Process>) {
    if let Some(guard) = guard {
        // It kills better than we do, as long as it is there.
        let _ = tokio::time::timeout(KILL_FOR, guard.gone()).await;
    }
    let leaders: Vec<Process> = [guard, child]
        .into_iter()
        .flatten()
        .filter(|leader| leader.began().is_some())
        .collect();
    let is_left = |process: Pid| {
        // An id is given to nobody else while a session has it; once nobody is left there, it may be.
        let in_session = leaders.iter().any(|leader| {
            tree::session(process) == Some(leader.id())
                && tree::began(process) >= leader.began()
                && !leader.is_replaced()
        });
        (in_session || tree::has_variable(process, variable.as_bytes()))
            && !tree::has_ended(process)
            && process != rustix::process::getpid()
    };
    let end = Instant::now() + KILL_FOR;
    loop {
        let left = tree::all(is_left);
        if left.is_empty() {
            return;
        }
        if Instant::now() >= end {
            tracing::warn!(
                processes = left.len(),
                "cannot kill the remaining processes of a child"
            );
            return;
        }
        for process in left {
            // Whoever is gone already is gone.
            let _ = kill_process(process, Signal::KILL);
        }
        sleep(KILL_EVERY).await;
    }
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
