//! The `orchestra up` of a workspace, as it is asked over HTTP.

use std::{future::poll_fn, net::SocketAddr, pin::Pin, time::Duration};

use anyhow::Context as _;
use hyper::{
    Request, Response,
    body::{Body as _, Bytes, Incoming},
    client::conn::http1,
    header,
};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, task::AbortHandle, time::timeout};

use crate::{
    commands::{
        mcp::{ASKS_TOKEN, reach},
        up::endpoint::Place,
    },
    config::Config,
    output,
};

/// How long a connection and the head of an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a whole answer may take: the largest board there can be, on a slow machine.
const WHOLE: Duration = Duration::from_secs(60);

/// The longest answer: a board with as many cards as are shown.
const MOST: usize = 128 * 1024 * 1024;

/// How much of a refusal is said.
const SAID: usize = 300;

/// Where the workspace is served, and what is shown there.
#[derive(Debug, Clone)]
pub(super) struct Source {
    address: SocketAddr,
    token: Option<String>,
}

/// Why nobody can be asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotReached {
    /// No `up` runs in the workspace.
    #[error("no `orchestra up` runs in the workspace")]
    Nobody,
    /// One does, and cannot be asked.
    #[error("cannot reach the `orchestra up` of the workspace")]
    Other(#[source] anyhow::Error),
}

/// The body of an answer, whose connection ends with it.
#[derive(Debug)]
pub(super) struct Answer {
    body: Incoming,
    connection: AbortHandle,
}

/// It was understood and refused: to ask again brings nothing else.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Refused(pub(super) String);

impl Source {
    /// Looks who serves the workspace now.
    pub(super) fn reach(config: &Config) -> Result<Self, NotReached> {
        let place = Place::find(config).map_err(NotReached::Other)?;
        let endpoint = place.published().map_err(NotReached::Other)?;
        let endpoint = endpoint.ok_or(NotReached::Nobody)?;
        if !endpoint.http.starts_with("http://") {
            let text = format!(
                "`orchestra top` does not connect over TLS; open {} in a browser",
                endpoint.http
            );
            return Err(NotReached::Other(anyhow::Error::msg(text)));
        }
        let (address, token) = reach(config, &endpoint).map_err(NotReached::Other)?;
        Ok(Self { address, token })
    }

    /// Asks for something that ends.
    ///
    /// # Errors
    /// When it is refused, with [`Refused`] as the cause, or does not come.
    pub(super) async fn get(&self, path: &str) -> anyhow::Result<String> {
        let whole = async {
            let mut answer = self.open(path, None).await?;
            let mut bytes = Vec::new();
            while let Some(more) = answer.more().await? {
                bytes.extend_from_slice(&more);
                anyhow::ensure!(bytes.len() <= MOST, "the response is too long");
            }
            String::from_utf8(bytes).context("the response is not text")
        };
        let whole = timeout(WHOLE, whole).await;
        whole.context("no response arrived in time")?
    }

    /// Opens a stream of events, from behind the event that was seen last.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub(super) async fn open(&self, path: &str, seen: Option<&str>) -> anyhow::Result<Answer> {
        let opened = timeout(PATIENCE, self.send(path, seen)).await;
        let opened = opened.context("no answer comes").and_then(|opened| opened);
        let (response, connection) = opened.with_context(|| format!("ask {}", self.address))?;
        let status = response.status().as_u16();
        let mut answer = Answer {
            body: response.into_body(),
            connection,
        };
        match status {
            200 => Ok(answer),
            401 => Err(Refused(ASKS_TOKEN.to_owned()).into()),
            status => {
                let said = timeout(PATIENCE, answer.more()).await;
                let said = said.ok().and_then(Result::ok).flatten().unwrap_or_default();
                let said = why(&said);
                let text = format!("{path} returned status {status}{said}");
                match status {
                    // It may be another a moment later.
                    429 | 500.. => Err(anyhow::Error::msg(text)),
                    _ => Err(Refused(text).into()),
                }
            }
        }
    }

    async fn send(
        &self,
        path: &str,
        seen: Option<&str>,
    ) -> anyhow::Result<(Response<Incoming>, AbortHandle)> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // It ends with the connection, which ends with the answer.
        let connection = tokio::spawn(async move { drop(connection.await) }).abort_handle();
        let mut request = Request::get(path)
            .header(header::HOST, self.address.to_string())
            .header(header::ACCEPT, "application/json, text/event-stream");
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        if let Some(seen) = seen {
            request = request.header("last-event-id", seen);
        }
        let sent = sender.send_request(request.body(String::new())?).await;
        if sent.is_err() {
            connection.abort();
        }
        Ok((sent?, connection))
    }
}

impl Answer {
    /// What comes next; `None` at the end.
    pub(super) async fn more(&mut self) -> anyhow::Result<Option<Bytes>> {
        loop {
            let frame = poll_fn(|context| Pin::new(&mut self.body).poll_frame(context)).await;
            let Some(frame) = frame else { return Ok(None) };
            // What is no data is a trailer.
            if let Ok(bytes) = frame?.into_data() {
                return Ok(Some(bytes));
            }
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

/// What a refusal says, if it says anything.
fn why(body: &[u8]) -> String {
    let json: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let said = [&json["error"]["message"], &json["error"], &json["message"]];
    let said = said.into_iter().find_map(serde_json::Value::as_str);
    said.map_or_else(String::new, |said| {
        let said: String = said.chars().take(SAID).collect();
        format!(": {}", output::in_a_line(&said))
    })
}
