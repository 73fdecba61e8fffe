//! Time from the acknowledgement of a claim to the first answer that shows it, through every other client.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use serde_json::json;

use super::{
    PROJECT, STORY, Until, World,
    caller::{Caller, Failure, Kind},
    ledger::Change,
};
use crate::support::PATIENCE;

/// Number of claims in a phase of a short run.
const CLAIMS: u64 = 2;

/// Time after which a client that sees only errors starts another server.
const RECONNECT: Duration = Duration::from_secs(1);

/// Times of the phases of a kind, in order.
#[derive(Debug, Default)]
pub(super) struct Times {
    seen: Vec<Duration>,
    /// Number of looks whose client lost its connection before an answer showed the claim.
    dropped: usize,
}

/// Times of a phase until claims were visible; `None` where a client lost its connection before.
pub(super) type Looks = Vec<Option<Duration>>;

impl Times {
    /// A time that so many of a thousand do not exceed.
    fn within(&self, thousandths: usize) -> Duration {
        let place = (self.seen.len() * thousandths).div_ceil(1000).max(1) - 1;
        self.seen.get(place).copied().unwrap_or_default()
    }

    /// Time that 99 of 100 do not exceed.
    pub(super) fn p99(&self) -> Duration {
        self.within(990)
    }

    /// Adds the times of a phase.
    pub(super) fn add(&mut self, looks: Looks) {
        self.dropped += looks.iter().filter(|look| look.is_none()).count();
        self.seen.extend(looks.into_iter().flatten());
        self.seen.sort_unstable();
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [median, all] = [500, 1000].map(|part| self.within(part));
        let (count, most, dropped) = (self.seen.len(), self.p99(), self.dropped);
        write!(
            f,
            "{count} answers, {dropped} dropped, p50 {median:.1?}, p99 {most:.1?}, at most {all:.1?}"
        )
    }
}

/// Clients that claim tasks and look at them, beside the clients that work.
pub(super) struct Claims<'w> {
    world: &'w World,
    connected: Vec<Caller<'w>>,
    /// Client with a process for each call.
    command: Caller<'w>,
    number: u64,
}

impl<'w> Claims<'w> {
    /// Connects clients in all worktrees.
    pub(super) fn new(world: &'w World) -> Self {
        let kinds = [Kind::Stdio, Kind::Http];
        let worktrees = 0..world.worktrees.len();
        let connected = worktrees.flat_map(|at| kinds.map(|kind| Caller::new(world, kind, at)));
        let mut connected: Vec<Caller<'_>> = connected.collect();
        for caller in &mut connected {
            caller.call_until_acknowledged("list_projects", &json!({}));
        }
        Self {
            world,
            connected,
            command: Caller::new(world, Kind::Command, 0),
            number: 0,
        }
    }

    /// Claims tasks until the end of a phase, each through another client. Returns the times through connected clients
    /// and through commands.
    pub(super) fn measure(&mut self, until: Until) -> [Looks; 2] {
        let mut times = [Vec::new(), Vec::new()];
        let first = self.number;
        loop {
            let is_over = match until {
                Until::Changes(_) => self.number - first >= CLAIMS,
                Until::Instant(end) => Instant::now() >= end,
            };
            if is_over {
                return times;
            }
            self.number += 1;
            self.claim(&mut times);
        }
    }

    fn claim(&mut self, [connected, commands]: &mut [Looks; 2]) {
        let world = self.world;
        let claimer = usize::try_from(self.number).unwrap_or_default() % self.connected.len();
        let (before, rest) = self.connected.split_at_mut(claimer);
        let (claimer, after) = rest.split_first_mut().expect("it is one of them");
        let title = format!("claimed {}", self.number);
        let task = json!({"project": PROJECT, "story_id": STORY, "title": title, "type": "task"});
        let created = claimer.call_until_acknowledged("create_task", &task);
        let id = created["id"].as_str().expect("a task has an id").to_owned();
        world.ledger().record(&id, Change::Created { title });
        let agent = format!("agent-{}", self.number);
        let claim = json!({"project": PROJECT, "task_id": id, "agent": agent});
        claimer.call_until_acknowledged("claim_task", &claim);
        let acknowledged = Instant::now();
        let seen = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for caller in before.iter_mut().chain(after) {
                let (seen, id, agent) = (&seen, &id, &agent);
                scope.spawn(move || {
                    let time = look(caller, id, agent, acknowledged);
                    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                    seen.push(time);
                });
            }
            commands.push(look(&mut self.command, &id, &agent, acknowledged));
        });
        world.ledger().record(&id, Change::Claimed { agent });
        connected.append(&mut seen.into_inner().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Asks for a task until the answer shows the claim; `None` where the client loses its connection before that.
fn look(caller: &mut Caller<'_>, id: &str, agent: &str, acknowledged: Instant) -> Option<Duration> {
    let asked = json!({"project": PROJECT, "task_id": id});
    loop {
        match caller.call("get_task", &asked) {
            Ok(task) if task["claim"]["agent"] == agent => return Some(acknowledged.elapsed()),
            Err(Failure::Unanswered(_)) => return None,
            // Its worktree may be gone.
            Err(Failure::Refused(_)) if acknowledged.elapsed() > RECONNECT => caller.disconnect(),
            answer => assert!(acknowledged.elapsed() < PATIENCE, "{id}: {answer:?}"),
        }
    }
}
