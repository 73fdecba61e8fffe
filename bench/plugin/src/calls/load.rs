//! Puts a load on a way: cold connections, calls one by one, many in flight, and large ones.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Result;
use orchestra_plugin::generated::{ToolRequest, ToolResponse};
use serde::Serialize;

use crate::echo;

/// Connections that are made anew, one after the other.
const COLD: usize = 20;

const WARM_UP: Duration = Duration::from_millis(300);
const ONE_BY_ONE: Duration = Duration::from_millis(800);
const IN_FLIGHT: Duration = Duration::from_millis(1000);
const LARGE: Duration = Duration::from_millis(600);

/// The machine's moods change within a run, so its best stretch of this length counts.
const BURST: Duration = Duration::from_millis(100);

/// How calls go out.
pub(crate) trait Way {
    type Caller: Caller;

    /// Opens a connection for many calls.
    async fn open(&self) -> Result<Self::Caller>;

    /// Makes one call over a connection of its own; the time until its answer.
    async fn cold(&self, request: ToolRequest) -> Result<(Duration, ToolResponse)>;
}

/// A connection that many may use at once.
pub(crate) trait Caller: Clone + Send + Sync + 'static {
    fn call(&self, request: ToolRequest) -> impl Future<Output = Result<ToolResponse>> + Send;
}

/// How large calls are, and how many are made at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) small: usize,
    pub(crate) large: usize,
    pub(crate) window: usize,
}

#[derive(Serialize)]
struct Figures {
    cold_p50_ms: f64,
    p50_us: f64,
    p99_us: f64,
    calls_per_second: f64,
    large_p10_us: f64,
}

/// Does all of it, and tells what it came to.
///
/// # Errors
/// When a call fails or is answered wrongly.
pub(crate) async fn run<W: Way>(way: W, sizes: Sizes) -> Result<String> {
    let small = echo::request(sizes.small);
    let mut cold = Vec::with_capacity(COLD);
    for _ in 0..COLD {
        let (time, response) = way.cold(small.clone()).await?;
        echo::check(&response, sizes.small)?;
        cold.push(time);
    }
    let caller = way.open().await?;
    one_by_one(&caller, sizes.small, WARM_UP).await?;
    let mut times = one_by_one(&caller, sizes.small, ONE_BY_ONE).await?;
    in_flight(&caller, sizes, WARM_UP).await?;
    let calls_per_second = in_flight(&caller, sizes, IN_FLIGHT).await?;
    one_by_one(&caller, sizes.large, WARM_UP).await?;
    let mut large = one_by_one(&caller, sizes.large, LARGE).await?;
    let figures = Figures {
        cold_p50_ms: quantile(&mut cold, 0.5).as_secs_f64() * 1e3,
        p50_us: quantile(&mut times, 0.5).as_secs_f64() * 1e6,
        p99_us: quantile(&mut times, 0.99).as_secs_f64() * 1e6,
        calls_per_second,
        large_p10_us: quantile(&mut large, 0.1).as_secs_f64() * 1e6,
    };
    Ok(serde_json::to_string(&figures)?)
}

/// One call after the other, from a task as the program makes them.
async fn one_by_one<C: Caller>(caller: &C, bytes: usize, time: Duration) -> Result<Vec<Duration>> {
    let (caller, request) = (caller.clone(), echo::request(bytes));
    let task = async move {
        let (mut times, begun) = (Vec::new(), Instant::now());
        while begun.elapsed() < time {
            let request = request.clone();
            let started = Instant::now();
            let response = caller.call(request).await?;
            times.push(started.elapsed());
            echo::check(&response, bytes)?;
        }
        Ok(times)
    };
    tokio::spawn(task).await?
}

/// Keeps the window full; the calls a second of the best stretch.
async fn in_flight<C: Caller>(caller: &C, sizes: Sizes, time: Duration) -> Result<f64> {
    let (count, ended) = (
        Arc::new(AtomicU64::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let tasks: Vec<_> = (0..sizes.window)
        .map(|_| {
            let (caller, request) = (caller.clone(), echo::request(sizes.small));
            let (count, ended) = (count.clone(), ended.clone());
            tokio::spawn(async move {
                while !ended.load(Ordering::Relaxed) {
                    let response = caller.call(request.clone()).await?;
                    echo::check(&response, sizes.small)?;
                    count.fetch_add(1, Ordering::Relaxed);
                }
                anyhow::Ok(())
            })
        })
        .collect();
    let mut best = 0.0_f64;
    let begun = Instant::now();
    while begun.elapsed() < time {
        let (before, since) = (count.load(Ordering::Relaxed), Instant::now());
        tokio::time::sleep(BURST).await;
        let done = count.load(Ordering::Relaxed) - before;
        best = best.max(done as f64 / since.elapsed().as_secs_f64());
    }
    ended.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await??;
    }
    Ok(best)
}

fn quantile(times: &mut [Duration], share: f64) -> Duration {
    times.sort_unstable();
    let last = times.len().saturating_sub(1);
    let index = (last as f64 * share).ceil() as usize;
    times.get(index).copied().unwrap_or_default()
}
