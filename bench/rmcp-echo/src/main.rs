//! The peer of the echo benchmarks written with the official Rust SDK.
//!
//! `--pipes` takes the SDK's transport for pipes, `--http` Streamable HTTP as it is by default and
//! `--http-json` without sessions and answered in JSON, otherwise its default transport for pipes.

use std::{io::Write as _, sync::Arc};

use axum::{Router, serve::ListenerExt as _};
use rmcp::{
    ServerHandler, ServiceExt as _,
    handler::server::{router::tool::ToolRouter, wrapper::Parameters},
    tool, tool_handler, tool_router,
    transport::{
        stdio, stdio_pipes,
        streamable_http_server::{
            StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
        },
    },
};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::net::TcpListener;

#[derive(Deserialize, JsonSchema)]
struct EchoArguments {
    text: String,
}

#[derive(Clone)]
struct Echo {
    tool_router: ToolRouter<Self>,
}

#[tool_router]
impl Echo {
    #[tool(description = "Returns the text")]
    async fn echo(&self, Parameters(arguments): Parameters<EchoArguments>) -> String {
        arguments.text
    }
}

#[tool_handler(router = self.tool_router)]
impl ServerHandler for Echo {}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let echo = Echo {
        tool_router: Echo::tool_router(),
    };
    match std::env::args().nth(1).as_deref() {
        Some("--pipes") => drop(echo.serve(stdio_pipes()).await?.waiting().await?),
        Some("--http") => http(echo, StreamableHttpServerConfig::default()).await?,
        Some("--http-json") => {
            let config = StreamableHttpServerConfig::default()
                .with_legacy_session_mode(false)
                .with_json_response(true)
                .with_sse_keep_alive(None);
            http(echo, config).await?;
        }
        _ => drop(echo.serve(stdio()).await?.waiting().await?),
    }
    Ok(())
}

/// Serves over HTTP, with TCP_NODELAY; the address is told on standard error.
async fn http(echo: Echo, config: StreamableHttpServerConfig) -> anyhow::Result<()> {
    let service: StreamableHttpService<Echo, LocalSessionManager> =
        StreamableHttpService::new(move || Ok(echo.clone()), Arc::default(), config);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let place = format!("http://{}/mcp\n", listener.local_addr()?);
    std::io::stderr().write_all(place.as_bytes())?;
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    Ok(axum::serve(listener, Router::new().nest_service("/mcp", service)).await?)
}
