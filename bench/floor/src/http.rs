//! The floor of the HTTP benchmark: an axum handler that parses a body and answers it.
//!
//! It knows just enough of MCP for a call of the echo tool and checks nothing else. The address is
//! told on standard error.

use std::{
    borrow::Cow,
    io::{self, Write as _},
};

use axum::{
    Router,
    body::Bytes,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::post,
    serve::ListenerExt as _,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::net::TcpListener;

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow)]
    params: Params<'a>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    arguments: Arguments<'a>,
}

#[derive(Deserialize)]
struct Arguments<'a> {
    #[serde(borrow)]
    text: Cow<'a, str>,
}

fn main() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_io()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let place = format!("http://{}/mcp\n", listener.local_addr()?);
        io::stderr().write_all(place.as_bytes())?;
        let listener = listener.tap_io(|stream| {
            let _ = stream.set_nodelay(true);
        });
        axum::serve(listener, Router::new().route("/mcp", post(answer))).await
    })
}

async fn answer(body: Bytes) -> Response {
    let Ok(message) = serde_json::from_slice::<Message<'_>>(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let mut reply = b"{\"jsonrpc\":\"2.0\",\"id\":".to_vec();
    reply.extend_from_slice(message.id.get().as_bytes());
    reply.extend_from_slice(b",\"result\":{\"content\":[{\"type\":\"text\",\"text\":");
    let written = serde_json::to_writer(&mut reply, &message.params.arguments.text);
    written.expect("a text can be written to memory");
    reply.extend_from_slice(b"}]}}");
    ([(header::CONTENT_TYPE, "application/json")], reply).into_response()
}
