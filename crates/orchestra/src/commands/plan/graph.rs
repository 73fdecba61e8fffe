//! Drawings of plans.

use std::{io::IsTerminal as _, path::Path};

use orchestra_plan::draw::{Graph, Node, Paint, dot, mermaid, svg, terminal};
use serde::Serialize;

use super::{Drawing, desk::Desk, file, run};
use crate::{
    exit::{Exit, Failure},
    output::{self, Format},
};

/// How wide a drawing may be where no terminal says so.
const COLUMNS: usize = 100;

#[derive(Serialize)]
struct Drawn {
    format: String,
    drawing: String,
}

/// Draws a plan as it stands.
pub(super) async fn of_plan(
    desk: &Desk,
    asked: &str,
    drawing: Drawing,
    format: Format,
) -> Result<Exit, Failure> {
    let plan = desk.plan(asked).await?;
    let labels = plan.jobs().iter().map(|job| {
        let group = job.group().map(|group| output::in_a_line(group.as_str()));
        (output::in_a_line(job.name()), group)
    });
    let labels: Vec<(String, Option<String>)> = labels.collect();
    let nodes = plan.jobs().iter().zip(&labels);
    let nodes = nodes.map(|(job, (name, group))| Node {
        producer_id: job.producer().as_str(),
        name,
        status: job.status().name(),
        group: group.as_deref(),
        dependencies: plan
            .dependencies(job)
            .map(|on| on.producer().as_str())
            .collect(),
    });
    let title = output::in_a_line(plan.name());
    print(&Graph::new(&title, nodes.collect()), drawing, format)
}

/// Draws what a file says, and says what keeps it from being a plan.
pub(super) fn of_file(path: &Path, drawing: Drawing, format: Format) -> Result<Exit, Failure> {
    let plan = file::read_file(path, None)?;
    let labels = plan.jobs.iter().map(|job| {
        let name = job.name.as_ref().map(|name| name.as_str());
        let name = name.unwrap_or_else(|| job.producer_id.as_str());
        let group = job.group.as_ref();
        let group = group.map(|group| output::in_a_line(group.as_str()));
        (output::in_a_line(name), group)
    });
    let labels: Vec<(String, Option<String>)> = labels.collect();
    let nodes = plan.jobs.iter().zip(&labels);
    let nodes = nodes.map(|(job, (name, group))| Node {
        producer_id: job.producer_id.as_str(),
        name,
        status: "pending",
        group: group.as_deref(),
        dependencies: job.dependencies.iter().map(|on| on.as_str()).collect(),
    });
    let title = output::in_a_line(plan.settings.name.as_str());
    let drawn = print(&Graph::new(&title, nodes.collect()), drawing, format)?;
    match run::definition(&plan) {
        Ok(_) => Ok(drawn),
        Err(error) => {
            let text = format!("{}: {error}", path.display());
            Err(Failure::usage_text(output::printable(&text).into_owned()))
        }
    }
}

fn print(graph: &Graph<'_>, drawing: Drawing, format: Format) -> Result<Exit, Failure> {
    let (name, text) = match drawing {
        Drawing::Terminal => {
            let is_terminal = std::io::stdout().is_terminal() && format == Format::Text;
            let paint = match is_terminal {
                true => output::paint(),
                false => Paint::Plain,
            };
            ("terminal", terminal(graph, columns(), paint))
        }
        Drawing::Mermaid => ("mermaid", mermaid(graph)),
        Drawing::Dot => ("dot", dot(graph)),
        Drawing::Svg => ("svg", svg(graph)),
    };
    let drawn = Drawn {
        format: name.to_owned(),
        drawing: text,
    };
    match format {
        Format::Json => output::json(&drawn)?,
        Format::Text => output::lines(&drawn.drawing)?,
    }
    Ok(Exit::Ok)
}

/// How wide the terminal is.
fn columns() -> usize {
    #[cfg(unix)]
    if let Ok(size) = rustix::termios::tcgetwinsize(std::io::stdout())
        && size.ws_col > 0
    {
        return usize::from(size.ws_col);
    }
    COLUMNS
}
