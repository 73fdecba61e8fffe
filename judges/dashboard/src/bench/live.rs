//! How long after an agent asked for a change it is painted, while many listen.

use std::{
    io::{self, Read as _, Write as _},
    net::{Shutdown, TcpStream},
    thread::{self, JoinHandle},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::{Bench, PAINTED, TASKS, bar, figure, quantile};
use crate::{program::Program, scenarios::card_in, tab::Tab};

/// How many listen besides the page.
const LISTENERS: usize = 49;
/// How many changes are made.
const CHANGES: usize = 400;
/// The longest it may take, in ms.
const LONGEST_MS: f64 = 150.0;
/// How often the clocks are compared.
const COMPARED: usize = 20;

pub(super) async fn measure(bench: &Bench<'_>) -> Result<()> {
    let program = bench.program()?;
    let ids = program.board(TASKS)?;
    let id = ids.first().context("a task")?;
    let change = |state: &str| {
        let change = json!({"project": "app", "task_id": id, "status": state});
        program.call("update_task", &change)
    };
    change("todo")?;
    change("in-progress")?;
    let tab = bench.board(&program).await?;
    tab.sees(&card_in("in-progress", id), None).await?;
    let listeners = Listeners::open(&program)?;
    let ahead = ahead(&tab).await?;
    let (mut answered, mut painted) = (Vec::new(), Vec::new());
    for state in ["blocked", "in-progress"].into_iter().cycle().take(CHANGES) {
        let _: u64 = tab.ask(&watch(&card_in(state, id))).await?;
        let (asked, began) = (now_ms()?, Instant::now());
        change(state)?;
        answered.push(began.elapsed().as_secs_f64() * 1e3);
        let seen: f64 = tab.ask("painted").await?;
        painted.push(seen - ahead - asked);
    }
    let heard = listeners.close()?;
    ensure!(
        heard.iter().all(|&bytes| bytes > CHANGES),
        "a listener heard nothing: {heard:?}"
    );
    figure("a change is answered, p99", quantile(&answered, 0.99), "ms");
    let what =
        format!("a change is painted, one page and {LISTENERS} listeners, {CHANGES} changes");
    figure(&format!("{what}, p50"), quantile(&painted, 0.5), "ms");
    bar(
        &format!("{what}, p99"),
        quantile(&painted, 0.99),
        LONGEST_MS,
        "ms",
    );
    tab.close().await
}

/// Sets `painted` to when something of this selector will have been painted, in ms of the page's clock.
fn watch(selector: &str) -> String {
    let selector = json!(selector);
    format!(
        "(window.painted = new Promise((done) => {{ const look = () => {{ if (!document.querySelector({selector})) return; \
         watcher.disconnect(); ({PAINTED})((at) => done(performance.timeOrigin + at)); }}; \
         const watcher = new MutationObserver(look); watcher.observe(document.body, {{ subtree: true, childList: true, \
         attributes: true }}); look(); }}), 0)"
    )
}

/// How far the page's clock is ahead of this one, in ms, by the comparison that took the least time.
async fn ahead(tab: &Tab) -> Result<f64> {
    let mut best = (f64::INFINITY, 0.0);
    for _ in 0..COMPARED {
        let before = now_ms()?;
        let there: f64 = tab
            .ask("performance.timeOrigin + performance.now()")
            .await?;
        let after = now_ms()?;
        if after - before < best.0 {
            best = (after - before, there - f64::midpoint(before, after));
        }
    }
    Ok(best.1)
}

fn now_ms() -> Result<f64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Ok(since.context("the clock is before 1970")?.as_secs_f64() * 1e3)
}

/// Those who listen as the page does.
struct Listeners(Vec<(TcpStream, JoinHandle<io::Result<usize>>)>);

impl Listeners {
    /// Opens all, each of which has been answered.
    fn open(program: &Program) -> Result<Self> {
        let one = || {
            let mut stream = TcpStream::connect(program.address())?;
            stream.set_read_timeout(Some(Duration::from_secs(60)))?;
            let asked = format!(
                "GET /api/events HTTP/1.1\r\nHost: {}\r\nAccept: text/event-stream\r\n\r\n",
                program.address()
            );
            stream.write_all(asked.as_bytes())?;
            let mut reader = stream.try_clone()?;
            let mut buffer = vec![0; 16 * 1024];
            let mut heard = reader.read(&mut buffer)?;
            let hearing = thread::spawn(move || {
                loop {
                    match reader.read(&mut buffer) {
                        Ok(0) => return Ok(heard),
                        Ok(more) => heard += more,
                        Err(error) => return Err(error),
                    }
                }
            });
            Ok((stream, hearing))
        };
        let all: io::Result<_> = (0..LISTENERS).map(|_| one()).collect();
        all.map(Self).context("listening")
    }

    /// Closes all; how many bytes each heard.
    fn close(self) -> Result<Vec<usize>> {
        let heard = self.0.into_iter().map(|(stream, hearing)| {
            stream.shutdown(Shutdown::Both).context("closing")?;
            let heard = hearing.join().expect("a listener does not panic");
            heard.context("listening")
        });
        heard.collect()
    }
}
