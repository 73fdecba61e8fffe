//! A served router and clients of it, which hold every answer against the OpenAPI document.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::Router;
use orchestra_hub::{Hub, HubConfig, Provider};
use orchestra_mcp::{
    Server,
    http::{HttpOptions, Limits, serve},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    sync::watch,
    time::timeout,
};

use crate::toys::{Toys, toys};

/// Longer than anything here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    pub(crate) hub: Hub,
    pub(crate) server: Server,
    pub(crate) toys: Arc<Toys>,
    /// Tells the routes that the end has come; connections go on.
    pub(crate) stop: watch::Sender<bool>,
    _serving: watch::Sender<bool>,
}

/// One answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

/// A connection that is kept.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
    address: SocketAddr,
}

/// The events of a stream.
pub(crate) struct Events(Client);

impl Site {
    /// The toys, served.
    pub(crate) async fn new() -> Self {
        Self::with(HubConfig::default(), HttpOptions::default(), |app| app).await
    }

    /// The same below `wrap`.
    pub(crate) async fn with(
        config: HubConfig,
        mut options: HttpOptions,
        wrap: impl FnOnce(Router) -> Router,
    ) -> Self {
        let hub = Hub::new(config);
        let toys = toys();
        hub.register(Arc::clone(&toys) as Arc<dyn Provider>)
            .unwrap();
        let server = Server::builder(hub.clone(), "toys")
            .version("9.8.7")
            .build();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        options.stop = Some(stopped);
        let (serving, ends) = watch::channel(false);
        let app = wrap(orchestra_web::app(&server, options));
        tokio::spawn(serve(listener, app, ends, Limits::default()));
        Self {
            address,
            hub,
            server,
            toys,
            stop,
            _serving: serving,
        }
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.address).await
    }

    /// Sends one request: a method and a path.
    pub(crate) async fn send(&self, target: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        self.client().await.send(target, headers, body).await
    }

    /// Sends a request of JSON whose answer must be as the document says; its status and body.
    pub(crate) async fn rest(&self, target: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let headers = [("Content-Type", "application/json")];
        let answer = self.described(target, &headers, &body).await;
        (answer.status, answer.json())
    }

    /// Sends a request whose answer must be as the document says.
    pub(crate) async fn described(
        &self,
        target: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let answer = self.send(target, headers, body).await;
        let document = self.document().await;
        hold_against(&document, target, &answer);
        answer
    }

    pub(crate) async fn document(&self) -> Value {
        let answer = self.send("GET /api/openapi.json", &[], "").await;
        assert_eq!(answer.status, 200);
        answer.json()
    }

    /// What a stateless request of MCP answers.
    pub(crate) async fn mcp(&self, method: &str, params: Value) -> Value {
        let name = params["name"].as_str().unwrap_or_default().to_owned();
        let message = stateless(method, params);
        let headers = stateless_headers(method, &name);
        let answer = self.send("POST /mcp", &headers, &message).await;
        answer.json()
    }

    /// Opens a stream of events.
    pub(crate) async fn open(&self, target: &str, headers: &[(&str, &str)], body: &str) -> Events {
        let mut client = self.client().await;
        client.write(target, headers, body).await;
        let (status, head) = client.head().await;
        assert_eq!(status, 200, "{head}");
        assert!(head.contains("content-type: text/event-stream"), "{head}");
        Events(client)
    }

    /// Listens for changes of tools and prompts.
    pub(crate) async fn listen(&self) -> Events {
        let wanted = json!({"toolsListChanged": true, "promptsListChanged": true});
        let method = "subscriptions/listen";
        let message = stateless(method, json!({"notifications": wanted}));
        let headers = stateless_headers(method, "");
        let mut events = self.open("POST /mcp", &headers, &message).await;
        let first = events.message().await;
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
        events
    }
}

pub(crate) fn stateless(method: &str, mut params: Value) -> String {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string()
}

pub(crate) fn stateless_headers<'t>(method: &'t str, name: &'t str) -> Vec<(&'t str, &'t str)> {
    let mut headers = vec![
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", method),
    ];
    if !name.is_empty() {
        headers.push(("Mcp-Name", name));
    }
    headers
}

/// Fails unless the document knows the route, its status, and the shape of its answer.
fn hold_against(document: &Value, target: &str, answer: &Answer) {
    let (method, path) = target.split_once(' ').unwrap();
    let path = path.split('?').next().unwrap();
    let operation = &document["paths"][path][method.to_lowercase()];
    assert!(operation.is_object(), "{target} is not described");
    let response = &operation["responses"][answer.status.to_string()];
    assert!(
        response.is_object(),
        "{target} answers {}, which is not described",
        answer.status
    );
    let mut schema = response["content"]["application/json"]["schema"].clone();
    if schema.is_null() {
        assert!(answer.body.is_empty(), "{target}: {answer:?}");
        return;
    }
    schema["components"] = document["components"].clone();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let body = answer.json();
    if let Err(error) = validator.validate(&body) {
        panic!("{target}: {error} in {body}");
    }
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let stream = BufReader::new(stream);
        Self { stream, address }
    }

    pub(crate) async fn send(
        &mut self,
        target: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        self.write(target, headers, body).await;
        let (status, head) = self.head().await;
        let length = header(&head, "content-length").map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await.unwrap();
        Answer { status, head, body }
    }

    pub(crate) async fn write(&mut self, target: &str, headers: &[(&str, &str)], body: &str) {
        let mut head = format!("{target} HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| *name == "Host") {
            head.push_str(&format!("Host: {}\r\n", self.address));
        }
        if !body.is_empty() || target.starts_with("POST") {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let whole = format!("{head}\r\n{body}");
        // Who is refused early may find the connection closed.
        let _ = self.stream.write_all(whole.as_bytes()).await;
    }

    /// Sends bytes as they are, and reads the head of what is said then.
    pub(crate) async fn raw(&mut self, text: &str) -> Answer {
        self.stream.write_all(text.as_bytes()).await.unwrap();
        let (status, head) = self.head().await;
        let body = Vec::new();
        Answer { status, head, body }
    }

    pub(crate) async fn head(&mut self) -> (u16, String) {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let read = timeout(PATIENCE, self.stream.read_line(&mut head)).await;
            assert!(read.expect("answered").unwrap() > 0, "{head}");
        }
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head.to_ascii_lowercase())
    }
}

fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let mut lines = head.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }
}

impl Events {
    /// Those of a connection whose head was read.
    pub(crate) fn of(client: Client) -> Self {
        Self(client)
    }

    /// Waits until the stream ends, which its last chunk says (RFC 9112, section 7.1).
    pub(crate) async fn end(&mut self) {
        let mut line = String::new();
        while line != "0\r\n" {
            line.clear();
            let read = timeout(PATIENCE, self.0.stream.read_line(&mut line)).await;
            assert!(read.expect("an end").unwrap() > 0, "the connection broke");
        }
    }

    /// The data of the next event that has some.
    pub(crate) async fn data(&mut self) -> String {
        loop {
            let mut line = String::new();
            let read = timeout(PATIENCE, self.0.stream.read_line(&mut line)).await;
            assert!(read.expect("an event").unwrap() > 0, "the stream ended");
            if let Some(data) = line.strip_prefix("data: ")
                && !data.trim().is_empty()
            {
                return data.trim_end().to_owned();
            }
        }
    }

    pub(crate) async fn message(&mut self) -> Value {
        serde_json::from_str(&self.data().await).unwrap()
    }
}
