//! Asking the engine of a workspace one thing, where one runs; none is started for it.

use std::path::Path;

use super::{
    connection::Connection,
    generated::StatsResponse,
    meaning::Standing,
    place::{Look, Place},
    vector_files::{remove_other_vectors, vectors_directory},
};

/// How the model of the engine is that serves a workspace; `None` where none answers.
pub async fn standing(workspace: &Path) -> Option<Standing> {
    let (_, stats) = reach(workspace).await?;
    Some(Standing::of_stats(stats))
}

/// Has the engine that serves a workspace make all vectors anew; whether it has a model to make them
/// with, and `None` where none answers.
pub async fn rebuild(workspace: &Path) -> Option<bool> {
    let (mut connection, _) = reach(workspace).await?;
    connection.rebuild().await.ok()
}

/// Removes the vectors of a workspace where no engine runs: the next one makes them anew. Whether none
/// runs.
#[must_use]
pub fn forget_vectors(workspace: &Path) -> bool {
    if !matches!(Place::new(workspace).look(), Ok(Look::Free)) {
        return false;
    }
    remove_other_vectors(&vectors_directory(workspace), None);
    true
}

async fn reach(workspace: &Path) -> Option<(Connection, StatsResponse)> {
    // As engines tell it.
    let workspace = workspace.canonicalize().ok()?;
    let Ok(Look::Told(endpoint)) = Place::new(&workspace).look() else {
        return None;
    };
    endpoint.check(&workspace).ok()?;
    Connection::open(&endpoint).await.ok()
}
