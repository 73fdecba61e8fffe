//! Load by wrk, a public tool: one request again and again on so many kept connections.

use std::{fmt::Write as _, fs, process::Command, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};

use super::peer::{Listening, Prepared};
use crate::seed;

/// What wrk measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) requests: f64,
    pub(crate) requests_per_second: f64,
    pub(crate) p50_micros: f64,
    pub(crate) p99_micros: f64,
}

/// Loads a server for some time.
///
/// # Errors
/// When wrk is missing, or any request failed.
pub(crate) fn load(
    server: &Listening,
    call: &Prepared,
    connections: usize,
    time: Duration,
) -> Result<Load> {
    let directory = seed::directory()?;
    let script = directory.path().join("request.lua");
    fs::write(&script, lua(call)).context("writing the request")?;
    let mut wrk = Command::new("wrk");
    wrk.args(["--threads", "1", "--latency", "--timeout", "10s"])
        .args(["--connections", &connections.to_string()])
        .args(["--duration", &format!("{}s", time.as_secs())])
        .arg("--script")
        .arg(&script)
        .arg(server.url());
    let output = wrk.output().context("starting wrk")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "wrk failed: {text}");
    read(&text).with_context(|| format!("wrk said {text}"))
}

fn lua(call: &Prepared) -> String {
    // Each request has an id of its own: those of one session may run at once.
    let (head, tail) = call.body.split_once("\"id\":2").unwrap_or((&call.body, ""));
    let id = "\"id\":";
    let mut text = format!(
        "wrk.method = \"POST\"\nlocal id = 1\nfunction request()\n  id = id + 1\n  \
         return wrk.format(nil, nil, nil, [==[{head}{id}]==] .. id .. [==[{tail}]==])\nend\n"
    );
    for (name, value) in &call.headers {
        writeln!(text, "wrk.headers[\"{name}\"] = \"{value}\"")
            .expect("writing to a string does not fail");
    }
    text
}

fn read(text: &str) -> Result<Load> {
    for fault in ["Non-2xx", "Socket errors"] {
        if let Some(line) = text.lines().find(|line| line.contains(fault)) {
            bail!("{}", line.trim());
        }
    }
    let after = |label: &str| {
        text.lines()
            .find_map(|line| line.trim().strip_prefix(label))
            .map(str::trim)
    };
    let rate = after("Requests/sec:").context("no requests a second")?;
    let p50 = after("50%").context("no latency")?;
    let p99 = after("99%").context("no latency")?;
    let requests = text
        .lines()
        .find_map(|line| line.trim().split_once(" requests in "))
        .context("no number of requests")?;
    Ok(Load {
        requests: requests.0.parse()?,
        requests_per_second: rate.parse()?,
        p50_micros: micros(p50)?,
        p99_micros: micros(p99)?,
    })
}

/// A time as wrk writes it, in µs.
fn micros(text: &str) -> Result<f64> {
    let units = [("us", 1.0), ("ms", 1e3), ("s", 1e6), ("m", 6e7)];
    let (number, unit) = units
        .into_iter()
        .find_map(|(unit, micros)| Some((text.strip_suffix(unit)?, micros)))
        .with_context(|| format!("{text} is no time"))?;
    Ok(number.parse::<f64>()? * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "Running 1s test @ http://127.0.0.1:1/mcp
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.02ms  200.00us   5.00ms   90.00%
    Req/Sec    60.00k     1.00k   61.00k    70.00%
  Latency Distribution
     50%    1.00ms
     99%    2.50ms
  60000 requests in 1.00s, 9.00MB read
Requests/sec:  59900.50
Transfer/sec:      9.00MB
";

    #[test]
    fn figures_are_read() {
        let load = read(SAID).unwrap();
        let figures = (load.requests, load.requests_per_second, load.p99_micros);
        assert_eq!(figures, (60_000.0, 59_900.5, 2_500.0));
        assert_eq!(load.p50_micros, 1_000.0);
    }

    #[test]
    fn refused_requests_are_no_figures() {
        let said = format!("{SAID}  Non-2xx or 3xx responses: 3\n");
        assert!(read(&said).is_err());
    }
}
