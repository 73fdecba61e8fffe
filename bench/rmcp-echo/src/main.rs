//! The peer of the echo benchmark written with the official Rust SDK.
//!
//! `--pipes` takes the SDK's transport for pipes, otherwise its default one.

use rmcp::{
    ServerHandler, ServiceExt as _,
    handler::server::{router::tool::ToolRouter, wrapper::Parameters},
    tool, tool_handler, tool_router,
    transport::{stdio, stdio_pipes},
};
use schemars::JsonSchema;
use serde::Deserialize;

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
    if std::env::args().any(|argument| argument == "--pipes") {
        echo.serve(stdio_pipes()).await?.waiting().await?;
    } else {
        echo.serve(stdio()).await?.waiting().await?;
    }
    Ok(())
}
