//! Plans without I/O: a graph of jobs, the states that it goes through, who may start next, and the
//! log of events that all of it is folded from.
//!
//! Nothing here knows of processes, files, git or the clock. What happens is handed in as commands
//! and outcomes together with the time; what comes back are events to be kept, and what is to be
//! started.
//!
//! Whoever runs plans goes round like this:
//!
//! 1. A command comes in: [`decide`](decide::decide) makes events of it, or a refusal.
//! 2. The events are made durable and folded in by [`Plan::apply`](plan::Plan::apply); what that
//!    has changed goes to the [`Scheduler`](schedule::Scheduler). A job that holds no slot any more
//!    is ended, if a process of it is still there; a plan that [wants
//!    branches](plan::Plan::wants_branches) is given them.
//! 3. [`Scheduler::next`](schedule::Scheduler::next) names the jobs to start: each is scheduled by
//!    a command.
//! 4. For every job that holds a slot, [`Plan::next`](plan::Plan::next) says what is to be done
//!    now. It is done, and reported by a command; an act is reported to begin before anything of it
//!    happens.
//!
//! Who starts anew replays the logs, loads the scheduler, and goes on with 4: what is [under
//! way](plan::Step::UnderWay) is found again, or reported lost.

pub mod budget;
pub mod command;
pub mod complexity;
pub mod decide;
pub mod definition;
pub mod draw;
pub mod event;
pub mod group;
pub mod ids;
pub mod mark;
pub mod outcome;
pub mod phase;
pub mod plan;
pub mod pressure;
pub mod reshape;
pub mod schedule;
pub mod spec;
pub mod status;
pub mod value;
pub mod view;
pub mod work;

#[cfg(test)]
mod testing;
