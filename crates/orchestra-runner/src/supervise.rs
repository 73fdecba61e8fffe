//! Processes of jobs: started by a supervisor that outlives a runner, found again by the next.
//!
//! Between the runner and the command of a phase stands a supervisor: our own program in a session of
//! its own ([`job_main`]). It gets its order over standard input, so that the environment of a command is
//! not written down for it, takes the lock of the attempt, makes the file of the run, starts the command by
//! `orchestra-process`, writes what it prints, holds it to its limits, and writes how it ended before
//! it ends itself. By files alone whoever comes later finds what became of a run:
//!
//! - `attempt.lock`: locked by the supervisor of the run that goes on, of whatever phase;
//! - `<phase>.<run>.run`: made new by the supervisor with the lock in its hands, so that a run begins
//!   once whoever starts it how often; it names the supervisor, the guard and the command by their ids
//!   and when they began;
//! - `<phase>.<run>.exit.json`: how it ended, put there whole;
//! - `<phase>.<run>.raw`, `lines.jsonl`: what it printed, see [`crate::logs`];
//! - `supervisor.log`: what the supervisor has to say of itself; as a rule there is none.
//!
//! A killed supervisor takes its command and all that descends from it along, by the guard; a killed
//! guard does, by the supervisor. What is left when all of ours are killed at once carries the name of the run in its environment
//! ([`RUN_VARIABLE`]), and ends before anybody hears that the run is lost.

mod board;
mod drive;
mod ending;
mod environment;
mod find;
mod identity;
mod job;
mod order;
mod output;
mod record;
mod start;

pub use board::{BoardServer, SOCKET_VARIABLE};
pub use ending::{Ending, How};
pub(crate) use environment::named_in;
pub use environment::{Variables, environment};
pub use find::Found;
pub use identity::{BadRun, RUN_VARIABLE, RunId};
pub use job::{JOB_COMMAND, job_main};
pub use order::{ErrorAction, JobLimits, LogBounds, Order, Program, Shell};
pub use start::{Progress, StartError, Supervised};
