//! What a supervisor does while its command runs: it writes what it prints, and ends it at its limits.

use std::{fs::File, time::Duration};

use orchestra_process::{Child, Exit, Handle};
use tokio::{
    io::AsyncWriteExt,
    net::unix::pipe::Sender,
    time::{Instant, sleep_until},
};

use super::{
    Ending, How,
    job::Told,
    order::WireOrder,
    output::{Logs, Output},
    record::is_gone,
};
use crate::logs::{Stream, now};

/// How much is read at once.
const PIECE: usize = 64 * 1024;

/// How often memory is looked at that has a limit, and that has none; never for more than a tenth of the time.
const WEIGH_EVERY: Duration = Duration::from_millis(100);
const GLANCE_EVERY: Duration = Duration::from_secs(1);

/// How long what was printed last may take to come when nobody is left who could print. Only a process
/// that the system itself holds keeps a pipe for longer.
const REST: Duration = Duration::from_secs(2);

/// How often a guard is told to kill all before it is killed itself: it takes five seconds at most, unless
/// it is stuck or was stopped.
const KILLS: u32 = 4;

/// A command that runs.
pub(crate) struct Drive<'a> {
    order: WireOrder,
    /// The lock of the attempt, which is ours.
    lock: &'a File,
    handle: Handle,
    told: Told,
    logs: Logs,
    input: Option<Sender>,
    out: Output,
    err: Output,
    buffer: Vec<u8>,
    /// Why it is being ended, by us.
    reason: Option<(How, Option<String>)>,
    began: Instant,
    heard: Instant,
    weighed: Instant,
    weighing: Duration,
    kill_at: Option<Instant>,
    kills: u32,
    peak_memory: u64,
}

/// What happened next.
enum Event {
    Out,
    Err,
    Exited(Exit),
    Time,
    Terminate,
    Interrupt,
}

impl<'a> Drive<'a> {
    pub(crate) fn new(
        mut order: WireOrder,
        child: Child,
        logs: Logs,
        told: Told,
        lock: &'a File,
    ) -> Self {
        let now = Instant::now();
        order.secrets.clear();
        Self {
            handle: child.handle,
            told,
            input: Some(child.stdin),
            out: Output::new(Stream::Out, child.stdout, &logs.masker),
            err: Output::new(Stream::Err, child.stderr, &logs.masker),
            logs,
            order,
            lock,
            buffer: vec![0; PIECE],
            reason: None,
            began: now,
            heard: now,
            weighed: now,
            weighing: Duration::ZERO,
            kill_at: None,
            kills: 0,
            peak_memory: 0,
        }
    }

    /// Sees the command to its end, and what it printed into the logs.
    pub(crate) async fn run(mut self) -> Ending {
        let feeder = self.feed();
        let mut exited = Box::pin(self.handle.exited());
        let mut exit = None;
        while exit.is_none() || self.out.pipe.is_some() || self.err.pipe.is_some() {
            match self.next(&mut exited, exit.is_some()).await {
                Event::Out => self.pump(Stream::Out),
                Event::Err => self.pump(Stream::Err),
                Event::Exited(ended) => {
                    exit = Some(ended);
                    self.kill_at = Some(Instant::now() + REST);
                }
                Event::Time if exit.is_some() => break,
                Event::Time => self.look(),
                Event::Terminate => self.end(How::Stopped, None),
                Event::Interrupt => {
                    self.reason.get_or_insert((How::Stopped, None));
                    self.kill();
                }
            }
        }
        self.out.close(&mut self.logs);
        self.err.close(&mut self.logs);
        feeder.abort();
        self.ending(exit.unwrap_or_default())
    }

    /// Gives the command its input, beside all else.
    fn feed(&mut self) -> tokio::task::JoinHandle<()> {
        let input = self.order.input.take();
        let pipe = self.input.take();
        tokio::spawn(async move {
            if let (Some(input), Some(mut pipe)) = (input, pipe) {
                // Whoever does not want it does not read it.
                let _ = pipe.write_all(input.as_bytes()).await;
            }
        })
    }

    async fn next(
        &mut self,
        exited: &mut (impl Future<Output = Exit> + Unpin),
        has_exited: bool,
    ) -> Event {
        let next_look = self.next_look();
        tokio::select! {
            () = self.out.ready() => Event::Out,
            () = self.err.ready() => Event::Err,
            exit = exited, if !has_exited => Event::Exited(exit),
            () = sleep_until(next_look) => Event::Time,
            _ = self.told.terminate.recv() => Event::Terminate,
            _ = self.told.interrupt.recv() => Event::Interrupt,
        }
    }

    /// When something is due.
    fn next_look(&self) -> Instant {
        if let Some(at) = self.kill_at {
            return at;
        }
        let weigh = self.weighed + self.weigh_every();
        let late = self.order.timeout.map(|most| self.began + most);
        let silent = self.order.idle.map(|most| self.heard + most);
        [late, silent]
            .into_iter()
            .flatten()
            .fold(weigh, Instant::min)
    }

    fn weigh_every(&self) -> Duration {
        match self.order.memory_bytes {
            Some(_) => (self.weighing * 9).clamp(WEIGH_EVERY, GLANCE_EVERY),
            None => GLANCE_EVERY,
        }
    }

    fn pump(&mut self, stream: Stream) {
        let output = match stream {
            Stream::Err => &mut self.err,
            _ => &mut self.out,
        };
        let length = output.pump(&mut self.buffer, &mut self.logs);
        if length > 0 {
            self.heard = Instant::now();
        }
        if let Some(most) = self.order.output_bytes
            && self.out.bytes + self.err.bytes > most
            && self.reason.is_none()
        {
            self.end_now(How::Output, format!("more than {most} bytes"));
        }
        // A flood always has something to read; what is due is looked at all the same.
        if self.next_look() <= Instant::now() {
            self.look();
        }
    }

    /// Does what is due.
    fn look(&mut self) {
        let now = Instant::now();
        if let Some(at) = self.kill_at {
            if at <= now {
                self.kill();
            }
            return;
        }
        if now >= self.weighed + self.weigh_every() {
            self.weigh();
            self.weighed = now;
            if is_gone(&self.order.attempt, self.lock) {
                // Nobody can find it any more, nor what it comes to.
                self.end(How::Stopped, Some("its attempt was deleted".to_owned()));
                return;
            }
        }
        let over =
            |since: Instant, most: Option<Duration>| most.filter(|most| now >= since + *most);
        if let Some(most) = over(self.began, self.order.timeout) {
            self.end(How::Timeout, Some(format!("more than {most:?}")));
        } else if let Some(most) = over(self.heard, self.order.idle) {
            self.end(How::Idle, Some(format!("nothing for {most:?}")));
        }
    }

    /// Has all of it killed.
    fn kill(&mut self) {
        self.kills += 1;
        self.handle.kill();
        if self.kills > KILLS
            && let Some(guard) = self.handle.guard()
        {
            // What it leaves behind comes to us, and ends.
            guard.kill();
        }
        self.kill_at = Some(Instant::now() + REST);
    }

    fn weigh(&mut self) {
        let Some(guard) = self.handle.guard() else {
            return;
        };
        let begin = Instant::now();
        let memory = guard.usage_below().memory;
        self.weighing = begin.elapsed();
        self.peak_memory = self.peak_memory.max(memory);
        if let Some(most) = self.order.memory_bytes
            && memory > most
        {
            self.end_now(How::Memory, format!("{memory} bytes, of {most}"));
        }
    }

    /// Asks the command to end, and has it killed after its grace.
    fn end(&mut self, how: How, detail: Option<String>) {
        if self.reason.is_none() {
            self.reason = Some((how, detail));
            self.handle.terminate();
            self.kill_at = Some(Instant::now() + self.order.grace);
        }
    }

    /// Has it killed.
    fn end_now(&mut self, how: How, detail: String) {
        self.reason.get_or_insert((how, Some(detail)));
        self.kill();
    }

    fn ending(self, exit: Exit) -> Ending {
        let (how, detail) = match (self.reason, &exit.limit) {
            (Some(reason), _) => reason,
            (None, Some(hit)) => (How::Limit, Some(hit.to_string())),
            (None, None) if exit.code.is_some() => (How::Exited, None),
            (None, None) if exit.signal.is_some() => (How::Signaled, None),
            (None, None) => (How::Signaled, Some("with its guard".to_owned())),
        };
        let unwritten = || "not all that it printed could be written to its log".to_owned();
        let detail = detail.or_else(|| self.logs.broken.then(unwritten));
        Ending {
            how,
            code: exit.code,
            signal: exit.signal,
            detail,
            out_bytes: self.out.bytes,
            err_bytes: self.err.bytes,
            cpu_ms: exit
                .cpu
                .map_or(0, |cpu| u64::try_from(cpu.as_millis()).unwrap_or(u64::MAX)),
            peak_memory: self.peak_memory,
            ..Ending::lost(now())
        }
    }
}
