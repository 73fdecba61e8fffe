//! Ours: a call as the orchestrator makes it of a plugin.

use std::{
    net::SocketAddr,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Result;
use orchestra_plugin::{
    envelope::{Request, Response},
    generated::{ToolRequest, ToolResponse},
    ids::PluginId,
    quic::{CallerOptions, Connection, Endpoint, Pace, Target},
};

use crate::{
    certs::{caller, plugin},
    load::Caller,
};

/// No call takes as long.
const DEADLINE: Duration = Duration::from_secs(30);

/// The way to a plugin.
pub(crate) struct Way {
    endpoint: Endpoint,
    address: SocketAddr,
    id: PluginId,
}

impl Way {
    /// Reads the caller's certificate and binds a socket.
    ///
    /// # Errors
    /// When either fails.
    pub(crate) fn new(address: SocketAddr, directory: &Path) -> Result<Self> {
        let identity = caller(directory)?;
        Ok(Self {
            endpoint: Endpoint::outgoing(address, &identity, Pace::default())?,
            address,
            id: plugin()?,
        })
    }

    fn target(&self) -> Target {
        Target::named(self.address, self.id.server_name())
    }
}

impl crate::load::Way for Way {
    type Caller = Client;

    async fn open(&self) -> Result<Client> {
        let endpoint = self.endpoint.clone();
        let options = CallerOptions::default();
        let caller = orchestra_plugin::quic::Caller::start(endpoint, self.target(), options);
        Ok(Client(Arc::new(caller)))
    }

    async fn cold(&self, request: ToolRequest) -> Result<(Duration, ToolResponse)> {
        let target = self.target();
        let began = Instant::now();
        let connection = self.endpoint.connect(&target).await?;
        let response = over(&connection, request).await?;
        let time = began.elapsed();
        connection.close();
        Ok((time, response))
    }
}

async fn over(connection: &Connection, request: ToolRequest) -> Result<ToolResponse> {
    let request = Request::new("1", &request);
    let deadline = tokio::time::Instant::now() + DEADLINE;
    let answer = connection.call(&request, deadline).await?;
    Ok(Response::decode(&answer)?.message()?)
}

/// A connection that is kept up.
#[derive(Clone)]
pub(crate) struct Client(Arc<orchestra_plugin::quic::Caller>);

impl Caller for Client {
    async fn call(&self, request: ToolRequest) -> Result<ToolResponse> {
        let request = Request::new("1", &request);
        let deadline = tokio::time::Instant::now() + DEADLINE;
        let answer = self.0.call(&request, deadline).await?;
        Ok(Response::decode(&answer)?.message()?)
    }
}
