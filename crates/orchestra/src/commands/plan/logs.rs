//! `orchestra plan logs`: what a job printed.

use anstream::adapter::strip_str;
use orchestra_plan::{ids::AttemptNumber, phase::Phase};
use orchestra_runner::logs::{Follower, Line, Page, Query};
use tokio::time::{Duration, timeout};

use super::{
    Lines, OfJob,
    desk::{Desk, failure},
};
use crate::{
    exit::{Exit, Failure},
    output::{self, Format},
};

/// How often it is looked whether a job that is followed has ended, where it prints nothing.
const LOOK: Duration = Duration::from_millis(500);

/// Prints lines of a log.
pub(super) async fn run(
    desk: &Desk,
    of: &OfJob,
    lines: Lines,
    format: Format,
) -> Result<Exit, Failure> {
    let plan = desk.plan(&of.plan).await?;
    let attempt = match lines.attempt {
        None => None,
        Some(number) => Some(
            AttemptNumber::new(number)
                .ok_or_else(|| Failure::usage_text("--attempt: attempts are counted from 1"))?,
        ),
    };
    if let Some(phase) = &lines.phase {
        let names = Phase::ALL.map(Phase::as_str);
        if !names.contains(&phase.as_str()) {
            let names = names.join(", ");
            let text = format!("--phase: one of {names}, not `{phase}`");
            return Err(Failure::usage_text(output::printable(&text).into_owned()));
        }
    }
    let query = Query {
        limit: lines.tail.and_then(|tail| usize::try_from(tail).ok()),
        tail: lines.tail.is_some(),
        phase: lines.phase,
        contains: lines.grep,
        ..Query::default()
    };
    if lines.follow {
        return follow(desk, of, attempt, query, format).await;
    }
    let log = desk
        .plans()
        .log_of(&plan, &of.job, attempt)
        .map_err(failure)?;
    let Some(log) = log else {
        output::complain("the job has not started; there is no log yet");
        return Ok(Exit::Ok);
    };
    let (mut query, mut before) = (query, None);
    loop {
        let page = desk.plans().read_log(&log, query.clone()).await;
        let page = page.map_err(failure)?;
        print(&page, &mut before, format)?;
        if !page.more || query.tail {
            return Ok(Exit::Ok);
        }
        query.after = Some(page.next);
    }
}

/// Prints lines as they come, of one attempt after the other, until the job has ended.
async fn follow(
    desk: &Desk,
    of: &OfJob,
    attempt: Option<AttemptNumber>,
    query: Query,
    format: Format,
) -> Result<Exit, Failure> {
    let (mut current, mut before) = (None, None);
    loop {
        let plan = desk.plan(&of.plan).await?;
        // Looked at before the log, so that what was printed last is still read.
        let job = plan
            .find(&of.job)
            .map_err(|error| Failure::refused(error.to_string()))?;
        let is_over = job.status().is_terminal() || plan.status().is_ended();
        let log = desk
            .plans()
            .log_of(&plan, &of.job, attempt)
            .map_err(failure)?;
        if let Some(log) = log {
            let is_new = current
                .as_ref()
                .is_none_or(|(number, _)| *number != log.attempt);
            if is_new {
                if let Some((_, mut follower)) = current.take() {
                    drain(&mut follower, &mut before, format)?;
                }
                let follower = desk.plans().follow_log(&log, query.clone());
                current = Some((log.attempt, follower));
            }
        }
        let Some((_, follower)) = &mut current else {
            if is_over {
                return Ok(Exit::Ok);
            }
            let last = desk.plans().last().await.map_err(failure)?;
            tokio::select! {
                () = desk.signals().first() => return Ok(Exit::Ok),
                changed = desk.plans().changes(last, LOOK) => { changed.map_err(failure)?; }
            }
            continue;
        };
        if is_over {
            drain(follower, &mut before, format)?;
            return Ok(Exit::Ok);
        }
        tokio::select! {
            () = desk.signals().first() => return Ok(Exit::Ok),
            page = timeout(LOOK, follower.next()) => {
                if let Ok(page) = page {
                    print(&page?, &mut before, format)?;
                }
            }
        }
    }
}

fn drain(
    follower: &mut Follower,
    before: &mut Option<Line>,
    format: Format,
) -> Result<(), Failure> {
    while let Some(page) = follower.now()? {
        print(&page, before, format)?;
    }
    Ok(())
}

/// Prints the lines of a page. `before` is the last line that was printed.
fn print(page: &Page, before: &mut Option<Line>, format: Format) -> Result<(), Failure> {
    if page.omitted > 0 && format == Format::Text {
        output::complain(&format!("… {} older lines were removed …", page.omitted));
    }
    for line in &page.lines {
        match format {
            Format::Json => output::json(line)?,
            Format::Text => output::raw(text(line, before.as_ref()).as_bytes())?,
        }
        *before = Some(line.clone());
    }
    Ok(())
}

/// A line as people read it, without colours. What it says came from anywhere.
fn text(line: &Line, before: Option<&Line>) -> String {
    let end = if line.more { "" } else { "\n" };
    let text = strip_str(&line.text).to_string();
    let (separator, prefix) = match line.separator(before) {
        Some(separator) => (separator, line.stream.prefix(&text, "[orchestra] ")),
        None => ("", ""),
    };
    format!("{separator}{prefix}{}{end}", output::printable(&text))
}

#[cfg(test)]
mod tests {
    use orchestra_runner::logs::Stream;

    use super::*;

    #[test]
    fn a_line_is_shown_without_what_moves_on_a_terminal() {
        let line = |text: &str| Line {
            ts: 1,
            seq: 1,
            attempt: 1,
            phase: "work".to_owned(),
            run: 1,
            stream: Stream::Out,
            text: text.to_owned(),
            more: false,
        };
        for (said, shown) in [
            ("\u{1b}[1;31mred\u{1b}[0m é 🦀\tend", "red é 🦀\tend\n"),
            ("\u{1b}[2J\u{1b}]0;title\u{7}gone", "gone\n"),
            ("turned \u{202e}back", "turned \\u{202e}back\n"),
            (
                "[orche\u{1b}[0mstra] work: done",
                "| [orchestra] work: done\n",
            ),
        ] {
            assert_eq!(text(&line(said), None), shown);
        }
        let begun = Line {
            more: true,
            ..line("begin")
        };
        let rest = line("[orchestra] end");
        assert_eq!(text(&rest, Some(&begun)), "[orchestra] end\n");
    }
}
