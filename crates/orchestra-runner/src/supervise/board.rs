//! The board for a job in a sandbox: each connection of the job gets a process of its own that serves it.
//!
//! The job inherits a descriptor over which its processes connect ([`orchestra_process::Connections`]). Nothing else
//! can connect, and with the job its connections end. What is served is up to the program.

use std::{ffi::OsString, io, path::PathBuf, sync::Arc, time::Duration};

use orchestra_process::{Child, Command, Connections, Environment};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
    sync::Semaphore,
    task::{JoinHandle, JoinSet},
    time::timeout,
};

use super::job::complain;
use crate::cause::chain;

/// Environment variable of a job that names the descriptor over which it reaches the board.
pub const SOCKET_VARIABLE: &str = "ORCHESTRA_SOCKET";

/// Maximum number of connections of a job at once; more wait. Each is a process.
const MAX_CONNECTIONS: usize = 4;

/// Time that a server may take to write what is to be written when its connection has ended.
const CLOSING: Duration = Duration::from_secs(35);

/// Maximum length of the error output of a server that is logged.
const MAX_ERROR_BYTES: u64 = 4 * 1024;

/// Program that serves the board to a job over its standard input and output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoardServer {
    /// Its file, which jobs may read and run: it is also the client.
    pub program: PathBuf,
    /// Its arguments; the last one is the name of the job.
    pub arguments: Vec<OsString>,
    /// Its whole environment.
    pub environment: Vec<(OsString, OsString)>,
}

/// The server of a job's connections.
pub(crate) struct Board(JoinHandle<()>);

impl Board {
    /// Serves connections until the job has ended.
    pub(crate) fn start(server: BoardServer, connections: Connections) -> Self {
        Self(tokio::spawn(serve(server, connections)))
    }

    /// Waits, within a bound, until what the job has changed is written. The job must have ended.
    pub(crate) async fn finish(mut self) {
        if timeout(CLOSING, &mut self.0).await.is_err() {
            // Its servers end with it.
            self.0.abort();
            complain(&"the board took too long to end");
        }
    }
}

async fn serve(server: BoardServer, connections: Connections) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let server = Arc::new(server);
    let mut served = JoinSet::new();
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            break;
        };
        while served.try_join_next().is_some() {}
        match connections.accept().await {
            Ok(Some(stream)) => {
                let server = Arc::clone(&server);
                served.spawn(async move {
                    let _place = place;
                    if let Err(error) = relay(&server, stream).await {
                        complain(&format!("a connection to the board failed: {error}"));
                    }
                });
            }
            Ok(None) => break,
            Err(error) => {
                complain(&format!("no more connections to the board: {error}"));
                break;
            }
        }
    }
    while served.join_next().await.is_some() {}
}

/// Connects a stream with a process that serves it.
async fn relay(server: &BoardServer, stream: UnixStream) -> io::Result<()> {
    // direct: it is started by its guard.
    let command = Command::new(server.program.clone())
        .name("board")
        .args(server.arguments.clone())
        .environment(Environment::None)
        .variables(server.environment.clone())
        .without_stage();
    let child = command.spawn().await;
    let child = child.map_err(|error| io::Error::other(chain(&error)))?;
    let Child {
        mut stdin,
        mut stdout,
        stderr,
        handle,
    } = child;
    let (mut reader, mut writer) = stream.into_split();
    let input = async move {
        // When one side is gone, the other sees the end.
        let _ = tokio::io::copy(&mut reader, &mut stdin).await;
        drop(stdin);
    };
    let output = async move {
        let _ = tokio::io::copy(&mut stdout, &mut writer).await;
        let _ = writer.shutdown().await;
    };
    let errors = async move {
        let mut text = Vec::new();
        let mut stderr = stderr.take(MAX_ERROR_BYTES);
        let _ = stderr.read_to_end(&mut text).await;
        let mut rest = stderr.into_inner();
        let _ = tokio::io::copy(&mut rest, &mut tokio::io::sink()).await;
        String::from_utf8_lossy(&text).trim().to_owned()
    };
    let errors = tokio::spawn(errors);
    let input = tokio::spawn(input);
    output.await;
    input.abort();
    let ended = timeout(CLOSING, handle.exited()).await;
    // What does not end in time is killed with its handle.
    drop(handle);
    if let Ok(text) = errors.await
        && !text.is_empty()
    {
        complain(&format!("the server of the board: {text}"));
    }
    ended
        .map(drop)
        .map_err(|_| io::Error::other("its server did not end"))
}
