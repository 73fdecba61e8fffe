//! `orchestra memory reindex`.

use orchestra_memory::engine;
use orchestra_store::Reindexed;
use serde_json::json;

use super::{named, open};
use crate::{
    board,
    commands::progress,
    config::Config,
    exit::{Exit, Failure},
    output::Format,
    serving,
    workspace::run_directory,
};

/// Makes the index of all projects anew; one that is named must be there.
pub(super) fn run(config: &Config, project: Option<&str>, format: Format) -> Result<Exit, Failure> {
    let store = open(config)?;
    named(&store, project)?;
    let bar = progress::bar(0, "rebuilding the full-text index");
    let done = store.reindex_memory(|now| {
        bar.set_length(now.total);
        bar.set_position(now.rows);
    });
    bar.finish_and_clear();
    serving::close(&store);
    let Reindexed { rows, expired, .. } = done?;
    let vectors = rebuild(config)?;
    let answer = json!({"indexed": rows, "expired": expired, "vectors": vectors});
    format.print(&answer, |_| {
        let of_all = project.map_or("", |_| " of all projects, which have one index,");
        let more = match vectors {
            "now" => "; vectors are recomputed in the background",
            "later" => {
                "; no engine runs now: vectors are recomputed when a session or `orchestra memory search` next starts one"
            }
            _ => "",
        };
        format!(
            "{rows} memories and sessions{of_all} indexed, {expired} expired ones removed{more}\n"
        )
    })?;
    Ok(Exit::Ok)
}

/// Has the vectors made anew: by the engine that runs (`now`), or the next one (`later`), where there are
/// any.
fn rebuild(config: &Config) -> Result<&'static str, Failure> {
    let workspace = board::seat(config);
    let run = run_directory(config)?;
    let asked = serving::runtime()?.block_on(engine::rebuild(&workspace, &run));
    let vectors = board::database_directory(&workspace)?;
    Ok(match asked {
        Some(true) => "now",
        Some(false) => "none",
        None if engine::forget_vectors(&vectors, &run) && config.memory.model.is_wanted() => {
            "later"
        }
        None => "none",
    })
}
