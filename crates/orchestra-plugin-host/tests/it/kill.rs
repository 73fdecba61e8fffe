//! A plugin that is killed again and again under load: no call waits beyond its deadline, the next
//! one works, nothing runs twice that may not, and no process is left.
//!
//! What ran is what the plugins themselves have noted.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use orchestra_hub::{Attachment, Caller, Cx, Toolset};
use rustix::process::{Pid, test_kill_process};
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval, sleep},
};

use crate::{
    gated::{Gated, config, told},
    rig::{Rig, is_soak, say, until},
};

/// How long a call may take.
const DEADLINE: Duration = Duration::from_secs(60);

/// Callers at once, and how often each of them calls.
const CALLERS: usize = 24;
const PACE: Duration = Duration::from_millis(20);

/// The pause from when a plugin is back until it is killed again.
const BETWEEN: Duration = Duration::from_millis(150);

/// The plugins, what is called of each, and whether it is killed.
const PLUGINS: [(&str, &str, bool); 3] = [
    ("calm", "count", false),
    ("once", "count", true),
    // What it does may run twice.
    ("safe", "repeat", true),
];

/// Kills of each plugin that is killed.
fn kills() -> usize {
    if is_soak() { 500 } else { 8 }
}

/// One call as its caller saw it.
struct Seen {
    plugin: usize,
    number: u64,
    began: Instant,
    ended: Instant,
    /// Why it failed, and whether it says that it may have run.
    error: Option<(String, bool)>,
}

/// From a kill to the first answer of the next process.
struct Kill {
    plugin: usize,
    at: Instant,
    back: Instant,
}

struct Bench {
    gated: Gated,
    number: AtomicU64,
    over: AtomicBool,
    kills: Mutex<Vec<Kill>>,
    /// Everything that was started, guards included.
    processes: Mutex<BTreeSet<(i32, u64)>>,
}

impl Bench {
    async fn start() -> Arc<Self> {
        let plugins = PLUGINS.map(|(name, tool, _)| {
            let mut config = config(name);
            config.trust = tool == "repeat";
            config.timeout = DEADLINE;
            (config, Rig::new("ok"))
        });
        Arc::new(Self {
            gated: Gated::with(plugins.into()).await,
            number: AtomicU64::new(0),
            over: AtomicBool::new(false),
            kills: Mutex::default(),
            processes: Mutex::default(),
        })
    }

    fn attach(&self) -> Attachment {
        let caller = Caller {
            face: "test",
            client: None,
        };
        self.gated.hub.attach(caller, Toolset::All)
    }

    async fn call(&self, attachment: &Attachment, plugin: usize) -> Seen {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let (name, tool, _) = PLUGINS[plugin];
        let (tool, arguments) = (format!("{name}__{tool}"), json!({"n": number}));
        let began = Instant::now();
        let cx = Cx {
            deadline: Some(began + DEADLINE),
            ..Cx::default()
        };
        let told = told(attachment, &tool, arguments, cx).await;
        let may_have_run = told.may_have_run();
        Seen {
            plugin,
            number,
            began,
            ended: Instant::now(),
            error: told.is_error.then_some((told.text, may_have_run)),
        }
    }

    /// One of many who call, until it is over.
    async fn caller(self: Arc<Self>, seed: usize) -> Vec<Seen> {
        let attachment = self.attach();
        let mut seen = Vec::new();
        let mut pace = interval(PACE);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !self.over.load(Ordering::Relaxed) {
            let plugin = (seed + seen.len()) % PLUGINS.len();
            seen.push(self.call(&attachment, plugin).await);
            pace.tick().await;
        }
        seen
    }

    /// Kills a plugin, and calls it until it answers again.
    async fn kill(&self, attachment: &Attachment, plugin: usize) -> Vec<Seen> {
        let name = PLUGINS[plugin].0;
        let ids = self.gated.report(name).processes;
        assert!(ids.len() <= 1, "more than one process of {name}: {ids:?}");
        let ids: Vec<Pid> = ids
            .iter()
            .filter_map(|id| Pid::from_raw(id.cast_signed()))
            .collect();
        for id in &ids {
            let own = [Some(id.as_raw_nonzero().get()), parent(*id)];
            let born = own.into_iter().flatten();
            let born = born.filter_map(|id| Some((id, stat(id, 19)?)));
            self.processes.lock().unwrap().extend(born);
        }
        let at = Instant::now();
        self.gated.plugins[plugin].kill_last();
        let mut seen = Vec::new();
        loop {
            let call = self.call(attachment, plugin).await;
            // One that has ended and whose end nobody has heard of is there as well.
            let is_there = |id: &Pid| test_kill_process(*id).is_ok();
            let is_back = call.error.is_none() && !ids.iter().any(is_there);
            let back = call.ended;
            let waited = back - at;
            assert!(
                waited < DEADLINE,
                "{name} does not come back: {:?}",
                call.error
            );
            seen.push(call);
            if is_back {
                let kill = Kill { plugin, at, back };
                self.kills.lock().unwrap().push(kill);
                return seen;
            }
            tokio::task::yield_now().await;
        }
    }

    async fn killer(self: Arc<Self>, plugin: usize) -> Vec<Seen> {
        let attachment = self.attach();
        let mut seen = vec![self.call(&attachment, plugin).await];
        for _ in 0..kills() {
            seen.extend(self.kill(&attachment, plugin).await);
            sleep(BETWEEN).await;
        }
        seen
    }

    /// Whether a call ran into a kill: it was not over before one, and began before the plugin was
    /// back.
    fn is_concerned(&self, call: &Seen) -> bool {
        self.kills.lock().unwrap().iter().any(|kill| {
            kill.plugin == call.plugin && kill.at <= call.ended && kill.back >= call.began
        })
    }
}

/// A field of `/proc/ID/stat`, counted from behind the name: 1 is the parent, 19 when it was born.
fn stat(id: i32, field: usize) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let rest = text.get(text.rfind(')')? + 2..)?;
    rest.split(' ').nth(field)?.parse().ok()
}

fn parent(id: Pid) -> Option<i32> {
    i32::try_from(stat(id.as_raw_nonzero().get(), 1)?).ok()
}

/// How often each call was run.
fn runs(rig: &Rig) -> HashMap<u64, usize> {
    let mut runs = HashMap::new();
    for line in rig.noted() {
        let number = line
            .split_once("{\"n\":")
            .and_then(|(_, rest)| rest.strip_suffix('}'));
        if let Some(number) = number {
            *runs.entry(number.parse().unwrap()).or_default() += 1;
        }
    }
    runs
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plugin_that_is_killed_under_load_is_back_and_nothing_runs_twice() {
    let bench = Bench::start().await;
    let mut callers = JoinSet::new();
    for seed in 0..CALLERS {
        callers.spawn(Arc::clone(&bench).caller(seed));
    }
    let mut killers = JoinSet::new();
    for (plugin, (.., is_killed)) in PLUGINS.iter().enumerate() {
        if *is_killed {
            killers.spawn(Arc::clone(&bench).killer(plugin));
        }
    }
    let mut seen: Vec<Seen> = killers.join_all().await.into_iter().flatten().collect();
    bench.over.store(true, Ordering::Relaxed);
    seen.extend(callers.join_all().await.into_iter().flatten());
    let ran: Vec<_> = bench.gated.plugins.iter().map(runs).collect();
    let (mut failed, mut through, mut repeated) = (0, 0, 0);
    for call in &seen {
        let (name, tool, _) = PLUGINS[call.plugin];
        let times = ran[call.plugin].get(&call.number).copied().unwrap_or(0);
        let what = format!(
            "call {} of {name}, run {times} times: {:?}",
            call.number, call.error
        );
        match &call.error {
            None => {
                assert!(times > 0, "it never ran; {what}");
                through += usize::from(bench.is_concerned(call));
            }
            Some((_, may_have_run)) => {
                assert!(bench.is_concerned(call), "nothing was killed; {what}");
                assert!(times == 0 || *may_have_run, "it ran; {what}");
                assert_eq!(tool, "count", "it may run twice, and failed; {what}");
                failed += 1;
            }
        }
        assert!(times <= 1 || tool == "repeat", "{what}");
        repeated += usize::from(times > 1);
    }
    let kills = std::mem::take(&mut *bench.kills.lock().unwrap());
    let mut back: Vec<Duration> = kills.iter().map(|kill| kill.back - kill.at).collect();
    back.sort_unstable();
    say(&format!(
        "{} calls, {} kills; {failed} calls told of a kill, {through} answered past one, {repeated} \
         that may ran twice, 0 others; back after {:?} (median), at most {:?}",
        seen.len(),
        kills.len(),
        back[back.len() / 2],
        back[back.len() - 1],
    ));
    assert!(through > 0, "no call met a kill");
    // What lives now is of the last starts; all others are gone, and so are their guards.
    let processes = std::mem::take(&mut *bench.processes.lock().unwrap());
    assert!(processes.len() > kills.len(), "guards were seen");
    let bench = Arc::into_inner(bench).unwrap();
    bench.gated.close().await;
    until("no process is left", || {
        processes
            .iter()
            .all(|(id, born)| stat(*id, 19) != Some(*born))
    })
    .await;
}
