//! What the main thread of a page did, as the browser traces it.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use chromiumoxide::{
    Browser,
    cdp::browser_protocol::tracing::{
        EndParams, EventDataCollected, EventTracingComplete, StartParams, StartTransferMode,
        TraceConfig,
    },
    listeners::EventStream,
};
use futures_util::{FutureExt as _, StreamExt as _};
use serde_json::Value;

/// What is traced: the tasks of all threads, and the frames.
const CATEGORIES: [&str; 4] = [
    "toplevel",
    "devtools.timeline",
    "disabled-by-default-devtools.timeline",
    "__metadata",
];
/// The event of a task of a thread.
const TASK: &str = "RunTask";
/// The event with which the main thread hands a frame over, in the task that made it.
const FRAME: &str = "BeginCommitCompositorFrame";
/// Far more than the browser takes to give a trace.
const PATIENCE: Duration = Duration::from_secs(60);

/// A trace that goes on.
pub(super) struct Tracing<'a> {
    browser: &'a Browser,
    collected: EventStream<EventDataCollected>,
    complete: EventStream<EventTracingComplete>,
}

/// What was done from the first frame on.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// Of each frame, the time of a processor that the main thread's work until the next took, in ms.
    pub(super) frames: Vec<f64>,
    /// The same by the clock: with what other threads and programs were given meanwhile.
    pub(super) lasted: Vec<f64>,
    /// Each task of the main thread, in ms.
    pub(super) tasks: Vec<f64>,
}

impl<'a> Tracing<'a> {
    pub(super) async fn start(browser: &'a Browser) -> Result<Self> {
        let collected = browser.event_listener().await.context("listening")?;
        let complete = browser.event_listener().await.context("listening")?;
        let config = TraceConfig::builder().included_categories(CATEGORIES.map(str::to_owned));
        let start = StartParams::builder()
            .transfer_mode(StartTransferMode::ReportEvents)
            .trace_config(config.build());
        let started = browser.execute(start.build()).await;
        started.context("starting a trace")?;
        Ok(Self {
            browser,
            collected,
            complete,
        })
    }

    /// Ends the trace; what the busiest main thread of a page did meanwhile.
    pub(super) async fn end(mut self) -> Result<Work> {
        let ended = self.browser.execute(EndParams::default()).await;
        ended.context("ending a trace")?;
        let mut events = Vec::new();
        let all = async {
            loop {
                tokio::select! {
                    biased;
                    Some(some) = self.collected.next() => events.extend(some.value.iter().cloned()),
                    complete = self.complete.next() => {
                        // What was told before it may not have been looked at yet.
                        while let Some(Some(some)) = self.collected.next().now_or_never() {
                            events.extend(some.value.iter().cloned());
                        }
                        return complete;
                    }
                }
            }
        };
        let complete = tokio::time::timeout(PATIENCE, all).await;
        let complete = complete.context("the trace does not end")?;
        let complete = complete.context("the browser is gone")?;
        ensure!(!complete.data_loss_occurred, "the trace is not whole");
        work(&events).context("the trace tells of no page that is painted")
    }
}

/// The work of that main thread on which most was done, of those that made frames.
fn work(events: &[Value]) -> Option<Work> {
    let is_main = |event: &&Value| {
        event["name"] == "thread_name" && event["args"]["name"] == "CrRendererMain"
    };
    let threads = events
        .iter()
        .filter(is_main)
        .map(|event| (&event["pid"], &event["tid"]));
    let works = threads.map(|(pid, tid)| {
        let own = events
            .iter()
            .filter(|event| event["pid"] == *pid && event["tid"] == *tid);
        of_thread(own)
    });
    let painted = works.filter(|work| !work.frames.is_empty());
    painted.max_by(|one, other| {
        let total = |work: &Work| work.tasks.iter().sum::<f64>();
        total(one).total_cmp(&total(other))
    })
}

/// The work of one thread, whose events come in any order.
fn of_thread<'a>(events: impl Iterator<Item = &'a Value>) -> Work {
    let (mut handed, mut tasks) = (Vec::new(), Vec::new());
    for event in events {
        let Some(at) = event["ts"].as_f64() else {
            continue;
        };
        match event["name"].as_str() {
            Some(FRAME) => handed.push(at),
            Some(TASK) => tasks.extend(event["dur"].as_f64().map(|long| {
                let busy = event["tdur"].as_f64().unwrap_or(long);
                (at, long / 1e3, busy / 1e3)
            })),
            _ => {}
        }
    }
    handed.sort_by(f64::total_cmp);
    let mut frames = vec![(0.0, 0.0); handed.len()];
    for (at, long, busy) in &tasks {
        // The task that made a frame began before the event that tells of it.
        let frame = handed.partition_point(|over| over <= &(at + long * 1e3));
        if let Some(work) = frame.checked_sub(1).and_then(|frame| frames.get_mut(frame)) {
            work.0 += busy;
            work.1 += long;
        }
    }
    let (frames, lasted) = frames.into_iter().unzip();
    Work {
        frames,
        lasted,
        tasks: tasks.into_iter().map(|(_, long, _)| long).collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn work_is_counted_to_the_frame_it_belongs_to() {
        let event = |name: &str, ts: u64, dur: u64| json!({"pid": 1, "tid": 2, "name": name, "ts": ts, "dur": dur, "tdur": dur / 2});
        let name =
            json!({"pid": 1, "tid": 2, "name": "thread_name", "args": {"name": "CrRendererMain"}});
        let events = [
            name,
            event(TASK, 0, 500),
            event(TASK, 1_000, 3_000),
            event(FRAME, 1_100, 0),
            event(TASK, 5_000, 1_000),
            event(TASK, 17_000, 2_000),
            event(FRAME, 17_100, 0),
            json!({"pid": 1, "tid": 3, "name": TASK, "ts": 2_000, "dur": 90_000}),
        ];
        let work = work(&events).expect("a page");
        assert_eq!(work.frames, [2.0, 1.0]);
        assert_eq!(work.lasted, [4.0, 2.0]);
        assert_eq!(work.tasks, [0.5, 3.0, 1.0, 2.0]);
    }
}
