//! One connection to an engine. It is never made anew: what listens at that address later may be
//! another program, and would be shown the token.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, time::timeout};
use tonic::{
    Code, Request, Status, Streaming,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::{Channel, Uri},
};
use tower_service::Service;

use super::{
    endpoint::{Endpoint, VERSION},
    generated::{
        AttendRequest, AttendResponse, NearRequest, NearResponse, RebuildRequest, StatsRequest,
        StatsResponse, memory_service_client::MemoryServiceClient,
    },
};

/// How long a connection may take on this machine, and a greeting after it. No call waits for it.
const GREETING: Duration = Duration::from_secs(2);

/// The longest answer that is read: rows and numbers.
const MESSAGE_BYTES: usize = 1024 * 1024;

/// Why an engine is not reached.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    /// Nothing listens there, it does not answer as an engine does, or we cannot connect to anything.
    #[error("cannot be reached")]
    Unreachable(#[source] io::Error),
    /// What listens there said nothing in time.
    #[error("does not answer")]
    Silent,
    /// The connection ended before an answer.
    #[error("cannot be reached: its connection broke")]
    Broke(#[source] Status),
    /// It refused.
    #[error("refuses: {}", .0.message())]
    Refused(Status),
    /// It answers, but is not the one that was told of.
    #[error("is not the engine that the endpoint file names")]
    Other,
}

impl ConnectionError {
    fn of(status: Status) -> Self {
        match is_an_answer(&status) {
            true => Self::Refused(status),
            false => Self::Broke(status),
        }
    }

    /// Whether the engine was asked and said nothing, which those do that hang. Of all others it is not
    /// known that anything is the matter with it.
    pub(crate) const fn is_silence(&self) -> bool {
        matches!(self, Self::Silent)
    }
}

/// Whether a status is what the engine said, and not that it said nothing.
pub(crate) fn is_an_answer(status: &Status) -> bool {
    !matches!(
        status.code(),
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Unknown
    )
}

/// A connection to an engine whose workspace and version were checked.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    client: MemoryServiceClient<InterceptedService<Channel, Shows>>,
}

/// Shows the token.
#[derive(Debug, Clone)]
struct Shows(Option<MetadataValue<Ascii>>);

impl Interceptor for Shows {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(value) = &self.0 {
            request
                .metadata_mut()
                .insert("authorization", value.clone());
        }
        Ok(request)
    }
}

impl Connection {
    /// Connects, and asks the engine who it is.
    pub(crate) async fn open(
        endpoint: &Endpoint,
    ) -> Result<(Self, StatsResponse), ConnectionError> {
        let greeting = timeout(GREETING, Self::greet(endpoint)).await;
        greeting.unwrap_or(Err(ConnectionError::Silent))
    }

    async fn greet(endpoint: &Endpoint) -> Result<(Self, StatsResponse), ConnectionError> {
        let unreachable = ConnectionError::Unreachable;
        let stream = TcpStream::connect(endpoint.address)
            .await
            .map_err(unreachable)?;
        // It only costs time where it is refused.
        let _ = stream.set_nodelay(true);
        let channel = Channel::from_static("http://localhost")
            .connect_with_connector(Once(Some(stream)))
            .await
            .map_err(|error| unreachable(io::Error::other(error)))?;
        let shown = endpoint.token.as_ref().map(|token| {
            let mut value: MetadataValue<Ascii> =
                token.shown().parse().map_err(io::Error::other)?;
            // So that no log of the library shows it.
            value.set_sensitive(true);
            Ok(value)
        });
        let shown = shown.transpose().map_err(unreachable)?;
        let client = MemoryServiceClient::with_interceptor(channel, Shows(shown))
            .max_decoding_message_size(MESSAGE_BYTES);
        let mut connection = Self { client };
        let stats = connection.stats().await.map_err(ConnectionError::of)?;
        let is_it = stats.workspace == endpoint.workspace.to_string_lossy()
            && stats.version == VERSION
            && stats.pid == endpoint.pid;
        match is_it {
            true => Ok((connection, stats)),
            false => Err(ConnectionError::Other),
        }
    }

    /// Asks who the engine is, which shows that it answers.
    pub(crate) async fn stats(&mut self) -> Result<StatsResponse, Status> {
        let asked = self.client.stats(StatsRequest::default()).await;
        asked.map(tonic::Response::into_inner)
    }

    /// Has this client counted, for as long as the stream is kept.
    pub(crate) async fn attend(
        &mut self,
        client: &str,
    ) -> Result<Streaming<AttendResponse>, ConnectionError> {
        let request = AttendRequest {
            client: client.to_owned(),
            pid: std::process::id(),
        };
        let attended = timeout(GREETING, self.client.attend(request)).await;
        let attended = attended.map_err(|_| ConnectionError::Silent)?;
        let attended = attended.map_err(ConnectionError::of)?;
        Ok(attended.into_inner())
    }

    /// Has all vectors made anew; whether there is a model to make them with.
    pub(crate) async fn rebuild(&mut self) -> Result<bool, Status> {
        let asked = timeout(GREETING, self.client.rebuild(RebuildRequest::default())).await;
        let asked = asked.map_err(|_| Status::deadline_exceeded("no answer"))?;
        asked.map(|answer| answer.into_inner().has_model)
    }

    /// Asks what is near.
    pub(crate) async fn near(
        &mut self,
        request: NearRequest,
        within: Duration,
    ) -> Result<NearResponse, Status> {
        let mut request = Request::new(request);
        // The engine then ceases to work for nobody.
        request.set_timeout(within);
        let answer = self.client.near(request).await;
        answer.map(tonic::Response::into_inner)
    }
}

/// Hands out one stream, once.
struct Once(Option<TcpStream>);

impl Service<Uri> for Once {
    type Response = TokioIo<TcpStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let stream = self.0.take().map(TokioIo::new);
        let gone = || io::Error::other("the connection to the engine is over");
        Box::pin(std::future::ready(stream.ok_or_else(gone)))
    }
}
