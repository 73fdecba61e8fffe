//! Asking the engine of a workspace one thing, where one runs; none is started for it.

use std::path::Path;

use orchestra_place::{Leader, PlaceError, RunDirectory};

use super::{
    connection::Connection, endpoint::Token, generated::StatsResponse, meaning::Standing,
    place::Place, vector_files::remove_other_vectors,
};

/// How the model of the engine is that serves a workspace; `None` where none answers. It is found in the run
/// directory of the workspace.
pub async fn standing(workspace: &Path, run: &RunDirectory) -> Option<Standing> {
    let (_, stats) = reach(workspace, run).await?;
    Some(Standing::of_stats(stats))
}

/// Has the engine that serves a workspace make all vectors anew; whether it has a model to make them
/// with, and `None` where none answers.
pub async fn rebuild(workspace: &Path, run: &RunDirectory) -> Option<bool> {
    let (mut connection, _) = reach(workspace, run).await?;
    connection.rebuild().await.ok()
}

/// Removes the vectors in the directory of a board where no engine runs: the next one makes them anew. Whether none
/// runs.
#[must_use]
pub fn forget_vectors(directory: &Path, run: &RunDirectory) -> bool {
    if !matches!(Place::new(run.clone()).leader(), Ok(Leader::None)) {
        return false;
    }
    remove_other_vectors(directory, None);
    true
}

/// The token of the engine that serves a workspace; `None` where none runs, or it asks for none.
///
/// # Errors
/// When its files cannot be read, or are not of this user alone.
pub fn token(run: &RunDirectory) -> Result<Option<String>, PlaceError> {
    Ok(match Place::new(run.clone()).leader()? {
        Leader::Published(endpoint) => endpoint.token.map(Token::into_text),
        Leader::None | Leader::Silent => None,
    })
}

async fn reach(workspace: &Path, run: &RunDirectory) -> Option<(Connection, StatsResponse)> {
    // As engines tell it.
    let workspace = workspace.canonicalize().ok()?;
    let Ok(Leader::Published(endpoint)) = Place::new(run.clone()).leader() else {
        return None;
    };
    endpoint.check(&workspace).ok()?;
    Connection::open(&endpoint).await.ok()
}
