//! A byte stream whose peer must go on reading.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// What is shorter costs less as one piece than as several.
const JOINED_BYTES: usize = 1024;

/// Fails what is written when nothing of it was taken for some time. Reading is not timed here.
pub(super) struct Paced<S> {
    stream: S,
    patience: Duration,
    /// Runs while the peer takes nothing.
    waits: Option<Pin<Box<Sleep>>>,
}

impl<S> Paced<S> {
    pub(super) const fn new(stream: S, patience: Duration) -> Self {
        Self {
            stream,
            patience,
            waits: None,
        }
    }

    fn timed(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.waits = None;
            return written;
        }
        let waits = self
            .waits
            .get_or_insert_with(|| Box::pin(sleep(self.patience)));
        ready!(waits.as_mut().poll(cx));
        let text = "the peer does not read what is sent to it";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, text)))
    }
}

/// Joins the pieces if they are short.
fn join(pieces: &[IoSlice<'_>], joined: &mut [u8]) -> Option<usize> {
    let mut length = 0;
    for piece in pieces {
        let end = length + piece.len();
        joined.get_mut(length..end)?.copy_from_slice(piece);
        length = end;
    }
    Some(length)
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.timed(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut joined = [0; JOINED_BYTES];
        if let Some(length) = join(pieces, &mut joined) {
            return self.poll_write(cx, &joined[..length]);
        }
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.timed(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    #[test]
    fn only_short_pieces_are_joined() {
        let mut joined = [0; 4];
        let pieces = |texts: [&'static str; 3]| texts.map(|text| IoSlice::new(text.as_bytes()));
        assert_eq!(join(&pieces(["ab", "", "cd"]), &mut joined), Some(4));
        assert_eq!(&joined, b"abcd");
        assert_eq!(join(&pieces(["ab", "cd", "e"]), &mut joined), None);
        assert_eq!(join(&[], &mut joined), Some(0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_nothing_is_given_up_and_one_that_is_slow_is_not() {
        let (ours, mut theirs) = duplex(4);
        let mut paced = Paced::new(ours, PATIENCE);
        let writing = tokio::spawn(async move { (paced.write_all(&[7; 12]).await, paced) });
        for _ in 0..8 {
            tokio::time::sleep(PATIENCE - Duration::from_secs(1)).await;
            theirs.read_u8().await.unwrap();
        }
        let (written, mut paced) = writing.await.unwrap();
        written.unwrap();
        let start = tokio::time::Instant::now();
        let error = paced.write_all(&[7; 12]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(start.elapsed().as_secs(), PATIENCE.as_secs());
    }
}
