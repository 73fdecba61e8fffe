//! The peer: the same call as a unary call of gRPC over HTTP/2 and mutual TLS, by tonic.
//!
//! What a code generator would write stands here by hand. Windows are as wide as ours, for with its
//! own defaults large calls are slower.

use std::{
    convert::Infallible,
    future::{Future, Ready, ready},
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use http::uri::PathAndQuery;
use orchestra_plugin::generated::{ToolRequest, ToolResponse};
use tonic::{
    Request, Response, Status,
    body::Body,
    client::Grpc,
    server::UnaryService,
    transport::{
        Certificate, Channel, ClientTlsConfig, Endpoint, Identity, Server, ServerTlsConfig,
        server::TcpIncoming,
    },
};
use tonic_prost::ProstCodec;
use tower_service::Service;

use crate::{
    certs::{Pem, plugin},
    echo,
    load::Caller,
};

const METHOD: &str = "/orchestra.bench.v1.Tools/Call";

const STREAM_WINDOW: u32 = 6 * 1024 * 1024;
const CONNECTION_WINDOW: u32 = 15 * 1024 * 1024;

/// More than the largest call.
const MESSAGE_BYTES: usize = 16 * 1024 * 1024;

/// Serves until the standard input ends.
///
/// # Errors
/// When it cannot listen.
pub(crate) async fn serve(directory: &Path) -> Result<()> {
    let pem = Pem::of(directory, &plugin()?.server_name())?;
    let tls = ServerTlsConfig::new()
        .identity(Identity::from_pem(pem.certificate, pem.key))
        .client_ca_root(Certificate::from_pem(pem.authority));
    let incoming = TcpIncoming::bind((Ipv4Addr::LOCALHOST, 0).into())?.with_nodelay(Some(true));
    let address = incoming.local_addr()?;
    std::thread::spawn(|| {
        drop(std::io::stdin().lock().read_to_end(&mut Vec::new()));
        std::process::exit(0);
    });
    writeln!(std::io::stderr(), "READY {address}")?;
    Server::builder()
        .tls_config(tls)?
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .serve_with_incoming(Tools, incoming)
        .await
        .context("serving")
}

#[derive(Clone)]
struct Tools;

impl Service<http::Request<Body>> for Tools {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(async move {
            if request.uri().path() != METHOD {
                return Ok(Status::unimplemented("no such method").into_http());
            }
            let codec = ProstCodec::<ToolResponse, ToolRequest>::default();
            let mut grpc = tonic::server::Grpc::new(codec)
                .max_decoding_message_size(MESSAGE_BYTES)
                .max_encoding_message_size(MESSAGE_BYTES);
            Ok(grpc.unary(Echo, request).await)
        })
    }
}

struct Echo;

impl UnaryService<ToolRequest> for Echo {
    type Response = ToolResponse;
    type Future = Ready<Result<Response<ToolResponse>, Status>>;

    fn call(&mut self, request: Request<ToolRequest>) -> Self::Future {
        let answer = echo::answer(request.get_ref());
        let invalid = |error: anyhow::Error| Status::invalid_argument(error.to_string());
        ready(answer.map(Response::new).map_err(invalid))
    }
}

/// The way to whoever serves gRPC.
pub(crate) struct Way {
    address: SocketAddr,
    pem: Pem,
}

impl Way {
    /// Reads the caller's certificate.
    ///
    /// # Errors
    /// When it is not there.
    pub(crate) fn new(address: SocketAddr, directory: &Path) -> Result<Self> {
        let pem = Pem::of(directory, &plugin()?.orchestrator_name())?;
        Ok(Self { address, pem })
    }

    /// A configuration that has not met the server before.
    fn endpoint(&self) -> Result<Endpoint> {
        let Pem {
            authority,
            certificate,
            key,
        } = &self.pem;
        let tls = ClientTlsConfig::new()
            .identity(Identity::from_pem(certificate, key))
            .ca_certificate(Certificate::from_pem(authority))
            .domain_name("localhost");
        let endpoint = Endpoint::from_shared(format!("https://{}", self.address))?
            .tls_config(tls)?
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW);
        Ok(endpoint)
    }
}

impl crate::load::Way for Way {
    type Caller = Client;

    async fn open(&self) -> Result<Client> {
        Ok(Client::of(self.endpoint()?.connect().await?))
    }

    async fn cold(&self, request: ToolRequest) -> Result<(Duration, ToolResponse)> {
        let endpoint = self.endpoint()?;
        let began = Instant::now();
        let client = Client::of(endpoint.connect().await?);
        let response = client.call(request).await?;
        Ok((began.elapsed(), response))
    }
}

/// A connection.
#[derive(Clone)]
pub(crate) struct Client {
    grpc: Grpc<Channel>,
}

impl Client {
    fn of(channel: Channel) -> Self {
        let grpc = Grpc::new(channel)
            .max_decoding_message_size(MESSAGE_BYTES)
            .max_encoding_message_size(MESSAGE_BYTES);
        Self { grpc }
    }
}

impl Caller for Client {
    async fn call(&self, request: ToolRequest) -> Result<ToolResponse> {
        let mut grpc = self.grpc.clone();
        grpc.ready().await?;
        let codec = ProstCodec::<ToolRequest, ToolResponse>::default();
        let path = PathAndQuery::from_static(METHOD);
        let response = grpc.unary(Request::new(request), path, codec).await?;
        Ok(response.into_inner())
    }
}
