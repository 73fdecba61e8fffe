//! The load driver: one thread that keeps a window of calls in flight over pipes.
//!
//! It must not be the bottleneck, so it writes as many calls at once as answers came in at once,
//! and looks for nothing in an answer but its id and its length.

use std::{
    io::{BufRead as _, Write as _},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use memchr::memmem;

use crate::{
    numbers::Samples,
    process,
    server::{Era, STATELESS_REVISION, Server},
};

/// What a run with a full window came to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Throughput {
    /// Answered calls in a second, in the best burst of the run.
    pub(crate) calls_per_second: f64,
    /// CPU time of the server for each call.
    pub(crate) cpu_per_call: Option<Duration>,
    /// CPU time of this driver for each call.
    pub(crate) own_cpu_per_call: Option<Duration>,
}

/// Calls of one tool with one argument, differing in their ids.
#[derive(Debug)]
pub(crate) struct Calls {
    tail: String,
    text_bytes: usize,
    next_id: u64,
    /// One bit for each id that was answered.
    answered: Vec<u64>,
}

/// How a notification without parameters begins, and how long it may be.
const NOTICE: &[u8] = br#""method":"notifications/"#;
const NOTICE_BYTES: usize = 256;

const HEAD: &str = r#"{"jsonrpc":"2.0","id":"#;

/// The machine's moods change within a run, so its best stretch of this length counts.
const BURST: Duration = Duration::from_millis(100);

/// Ids have the same length throughout, so that every call has.
const FIRST_ID: u64 = 1_000_000_000;

impl Calls {
    /// Calls of `echo` with a text of so many bytes.
    pub(crate) fn echo(text_bytes: usize, era: Era) -> Self {
        let words = "the quick brown fox jumps over the lazy dog, again and ";
        let text: String = words.chars().cycle().take(text_bytes).collect();
        let meta = match era {
            Era::Session => String::new(),
            Era::Stateless => format!(
                r#""_meta":{{"io.modelcontextprotocol/protocolVersion":"{STATELESS_REVISION}","io.modelcontextprotocol/clientInfo":{{"name":"bench","version":"1.0.0"}},"io.modelcontextprotocol/clientCapabilities":{{}}}},"#
            ),
        };
        let tail = format!(
            r#","method":"tools/call","params":{{{meta}"name":"echo","arguments":{{"text":"{text}"}}}}}}"#
        );
        Self {
            tail: tail + "\n",
            text_bytes,
            next_id: FIRST_ID,
            answered: Vec::new(),
        }
    }

    fn append(&mut self, count: usize, batch: &mut Vec<u8>) {
        for _ in 0..count {
            batch.extend_from_slice(HEAD.as_bytes());
            batch.extend_from_slice(self.next_id.to_string().as_bytes());
            batch.extend_from_slice(self.tail.as_bytes());
            self.next_id += 1;
        }
    }

    /// Notes an answer, and says whether it is one and no notification; an answer that is wrong in
    /// any way seen here is an error.
    fn note(&mut self, line: &[u8]) -> Result<bool> {
        if line.len() <= self.text_bytes.max(NOTICE_BYTES) && memmem::find(line, NOTICE).is_some() {
            return Ok(false);
        }
        let shown = || String::from_utf8_lossy(&line[..line.len().min(300)]).into_owned();
        ensure!(line.len() > self.text_bytes, "no echo: {}", shown());
        let id = id_of(line).filter(|id| (FIRST_ID..self.next_id).contains(id));
        let index = id.with_context(|| format!("no call of ours: {}", shown()))? - FIRST_ID;
        let (word, bit) = (usize::try_from(index / 64)?, 1 << (index % 64));
        if self.answered.len() <= word {
            self.answered.resize(word + 1, 0);
        }
        ensure!(
            self.answered[word] & bit == 0,
            "answered twice: {}",
            shown()
        );
        self.answered[word] |= bit;
        Ok(true)
    }
}

fn id_of(line: &[u8]) -> Option<u64> {
    let start = memmem::find(line, br#""id":"#)? + 5;
    let digits = line[start..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit());
    let id = digits.fold(0, |id: u64, byte| {
        id.wrapping_mul(10) + u64::from(byte - b'0')
    });
    Some(id)
}

/// Keeps `window` calls in flight for `duration`, then waits for the rest.
///
/// # Errors
/// When an answer is wrong or the server has gone.
pub(crate) fn pipelined(
    server: &mut Server,
    calls: &mut Calls,
    window: usize,
    duration: Duration,
) -> Result<Throughput> {
    let own = std::process::id();
    let (cpu, own_cpu) = (process::cpu(server.pid()), process::cpu(own));
    let mut batch = Vec::new();
    let mut partial = Vec::new();
    let mut answered: u32 = 0;
    let mut in_flight = window;
    let mut room = window;
    let mut best = 0.0_f64;
    let mut burst = 0;
    let started = Instant::now();
    let mut burst_started = started;
    while in_flight > 0 {
        batch.clear();
        calls.append(room, &mut batch);
        server.input.write_all(&batch).context("writing calls")?;
        let count = answers(server, calls, &mut partial)?;
        answered += u32::try_from(count)?;
        burst += count;
        let now = Instant::now();
        if now - burst_started >= BURST {
            best = best.max(burst as f64 / (now - burst_started).as_secs_f64());
            (burst, burst_started) = (0, now);
        }
        if now - started < duration {
            room = count;
        } else {
            room = 0;
            in_flight -= count;
        }
    }
    let used = |before: Option<Duration>, pid| Some((process::cpu(pid)? - before?) / answered);
    Ok(Throughput {
        calls_per_second: best,
        cpu_per_call: used(cpu, server.pid()),
        own_cpu_per_call: used(own_cpu, own),
    })
}

/// Takes in what has arrived, at least one byte, and returns how many answers it completed.
fn answers(server: &mut Server, calls: &mut Calls, partial: &mut Vec<u8>) -> Result<usize> {
    let chunk = server.output.fill_buf().context("reading answers")?;
    ensure!(!chunk.is_empty(), "the server closed its output");
    let (mut count, mut start) = (0, 0);
    for end in memchr::memchr_iter(b'\n', chunk) {
        if partial.is_empty() {
            count += usize::from(calls.note(&chunk[start..end])?);
        } else {
            partial.extend_from_slice(&chunk[start..end]);
            count += usize::from(calls.note(partial)?);
            partial.clear();
        }
        start = end + 1;
    }
    partial.extend_from_slice(&chunk[start..]);
    let taken = chunk.len();
    server.output.consume(taken);
    Ok(count)
}

/// Makes one call after the other for `duration`, and times each.
///
/// # Errors
/// When an answer is wrong or the server has gone.
pub(crate) fn sequential(
    server: &mut Server,
    calls: &mut Calls,
    duration: Duration,
) -> Result<Samples> {
    let mut samples = Samples::default();
    let mut call = Vec::new();
    let mut partial = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < duration {
        call.clear();
        calls.append(1, &mut call);
        let started = Instant::now();
        server.input.write_all(&call).context("writing a call")?;
        while answers(server, calls, &mut partial)? == 0 {}
        samples.push(started.elapsed());
    }
    Ok(samples)
}
