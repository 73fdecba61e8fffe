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
    let nodes = plan.jobs().iter().map(|job| Node {
        producer_id: job.producer().as_str(),
        name: job.name(),
        status: job.status().name(),
        group: job.group().map(|group| group.as_str()),
        dependencies: plan
            .dependencies(job)
            .map(|on| on.producer().as_str())
            .collect(),
    });
    print(&Graph::new(plan.name(), nodes.collect()), drawing, format)
}

/// Draws what a file says, and says what keeps it from being a plan.
pub(super) fn of_file(path: &Path, drawing: Drawing, format: Format) -> Result<Exit, Failure> {
    let plan = file::read_file(path, None)?;
    let nodes = plan.jobs.iter().map(|job| Node {
        producer_id: job.producer_id.as_str(),
        name: job
            .name
            .as_ref()
            .map_or_else(|| job.producer_id.as_str(), |name| name.as_str()),
        status: "pending",
        group: job.group.as_ref().map(|group| group.as_str()),
        dependencies: job.dependencies.iter().map(|on| on.as_str()).collect(),
    });
    let name = plan.settings.name.as_str();
    let drawn = print(&Graph::new(name, nodes.collect()), drawing, format)?;
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
