//! A server of embeddings over real sockets, which answers as it is told.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use serde_json::Value;

/// What came in.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) head: String,
    pub(crate) body: Value,
}

/// What goes out.
pub(crate) enum Reply {
    /// A status and a body.
    With(u16, String),
    /// Nothing, for as long as the client waits.
    Nothing,
}

pub(crate) struct Server {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Serves on a thread of its own until the test ends.
    pub(crate) fn start(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (answer, into) = (Arc::new(answer), Arc::clone(&seen));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (answer, into) = (Arc::clone(&answer), Arc::clone(&into));
                thread::spawn(move || serve(stream, answer.as_ref(), &into));
            }
        });
        Self { url, seen }
    }

    pub(crate) fn seen(&self) -> Vec<Request> {
        let seen = self.seen.lock();
        seen.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// One request for each connection.
fn serve(
    mut stream: TcpStream,
    answer: &dyn Fn(&Request) -> Reply,
    seen: &Mutex<Vec<Request>>,
) -> Option<()> {
    let mut bytes = Vec::new();
    let mut part = [0; 4_096];
    let (head, length, start) = loop {
        let read = stream.read(&mut part).ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&part[..read]);
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length
                .and_then(|text| text.trim().parse().ok())
                .unwrap_or(0);
            break (head, length, end + 4);
        }
    };
    while bytes.len() < start + length {
        let read = stream.read(&mut part).ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&part[..read]);
    }
    let body = serde_json::from_slice(&bytes[start..]).unwrap_or_default();
    let request = Request { head, body };
    seen.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(request.clone());
    match answer(&request) {
        Reply::With(status, body) => {
            let head = format!(
                "HTTP/1.1 {status} .\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            stream.write_all(head.as_bytes()).ok()?;
            stream.write_all(body.as_bytes()).ok()
        }
        // Until the other side closes.
        Reply::Nothing => stream.read_to_end(&mut bytes).ok().map(drop),
    }
}
