//! A server over HTTP that does right until its test wants otherwise, and a way to it that breaks.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use axum::response::Response;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use crate::scripted::{Scripted, Seen, empty, json_of, with};

/// Which eras a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Eras {
    Session,
    Stateless,
}

pub(super) const BOTH: [Eras; 2] = [Eras::Session, Eras::Stateless];

/// What becomes of the next calls of tools.
type Fault = Box<dyn Fn(&Seen) -> Response + Send + Sync>;

/// A server whose calls go wrong as long as its test wants.
pub(super) struct Site {
    pub(super) server: Scripted,
    pub(super) play: Arc<Play>,
}

pub(super) struct Play {
    eras: Eras,
    /// The number of the session of now.
    pub(super) session: AtomicUsize,
    /// So many calls go wrong, and how.
    fault: Mutex<Option<(usize, Fault)>>,
}

impl Site {
    pub(super) async fn new(eras: Eras) -> Self {
        let play = Arc::new(Play {
            eras,
            session: AtomicUsize::new(0),
            fault: Mutex::new(None),
        });
        let playing = Arc::clone(&play);
        let server = Scripted::new(move |seen| std::future::ready(playing.answer(&seen))).await;
        Self { server, play }
    }

    /// The next calls go wrong.
    pub(super) fn fails(
        &self,
        calls: usize,
        fault: impl Fn(&Seen) -> Response + Send + Sync + 'static,
    ) {
        *self.play.fault.lock().unwrap() = Some((calls, Box::new(fault)));
    }

    pub(super) fn recovers(&self) {
        *self.play.fault.lock().unwrap() = None;
    }

    /// How often something was asked.
    pub(super) fn asked(&self, method: &str) -> usize {
        let seen = self.server.seen();
        seen.iter().filter(|seen| seen.rpc() == method).count()
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/mcp", self.server.address)
    }
}

impl Play {
    pub(super) fn answer(&self, seen: &Seen) -> Response {
        if seen.path != "/mcp" || seen.method == "GET" {
            return empty(if seen.path == "/mcp" { 405 } else { 404 });
        }
        let current = format!("s-{}", self.session.load(Ordering::SeqCst));
        let has_session = seen.header("mcp-session-id") == Some(&current);
        match seen.rpc() {
            "server/discover" if self.eras == Eras::Stateless => {
                let capabilities = json!({"tools": {}});
                let told = json!({
                    "supportedVersions": ["2026-07-28"], "capabilities": capabilities,
                    "resultType": "complete",
                });
                json_of(200, &seen.result(&told))
            }
            "initialize" if self.eras == Eras::Session => {
                let number = self.session.fetch_add(1, Ordering::SeqCst) + 1;
                let told = json!({
                    "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "bad", "version": "1"},
                });
                let headers = [
                    ("content-type", "application/json"),
                    ("mcp-session-id", &*format!("s-{number}")),
                ];
                with(200, &headers, &seen.result(&told).to_string())
            }
            "server/discover" => with(400, &[], "no session"),
            "initialize" => {
                let error = json!({
                    "code": -32022, "message": "unsupported protocol version",
                    "data": {"supported": ["2026-07-28"]},
                });
                let id = &seen.body["id"];
                json_of(400, &json!({"jsonrpc": "2.0", "id": id, "error": error}))
            }
            _ if self.eras == Eras::Session && !has_session => empty(404),
            "tools/list" => json_of(200, &seen.result(&tools())),
            "tools/call" => self.call(seen),
            _ if seen.body["id"].is_null() => empty(202),
            _ => json_of(200, &seen.result(&json!({}))),
        }
    }

    fn call(&self, seen: &Seen) -> Response {
        if let Some((left, fault)) = &mut *self.fault.lock().unwrap()
            && *left > 0
        {
            *left -= 1;
            return fault(seen);
        }
        let text = seen.body["params"]["arguments"]["text"].clone();
        let result = json!({"content": [{"type": "text", "text": text}], "resultType": "complete"});
        json_of(200, &seen.result(&result))
    }
}

fn tools() -> Value {
    let tool = |name: &str, reads: bool| {
        json!({
            "name": name, "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": reads},
        })
    };
    json!({"tools": [tool("echo", true), tool("write", false)], "resultType": "complete"})
}

/// Passes bytes on, or ends connections by a reset.
pub(super) async fn forward(to: SocketAddr, resets: Arc<AtomicBool>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let resets = Arc::clone(&resets);
            tokio::spawn(async move {
                let mut server = TcpStream::connect(to).await.unwrap();
                let (mut out, mut back) = ([0; 8192], [0; 8192]);
                loop {
                    tokio::select! {
                        read = client.read(&mut out) => match read {
                            Ok(_) if resets.load(Ordering::SeqCst) => {
                                return client.set_zero_linger().unwrap();
                            }
                            Ok(length) if length > 0 => {
                                server.write_all(&out[..length]).await.unwrap();
                            }
                            _ => return,
                        },
                        read = server.read(&mut back) => match read {
                            Ok(length) if length > 0 => {
                                if client.write_all(&back[..length]).await.is_err() {
                                    return;
                                }
                            }
                            _ => return,
                        },
                    }
                }
            });
        }
    });
    address
}
