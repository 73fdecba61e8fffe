//! Server-sent events as a client reads them (WHATWG HTML, event stream interpretation), within
//! bounds.

use std::time::Duration;

use bytes::{Bytes, BytesMut};

/// The longest id of an event that is kept; it is sent back in a header.
const MAX_ID_BYTES: usize = 1_024;

/// The longest wait that a stream may ask for before it is opened again.
const MAX_RETRY: Duration = Duration::from_secs(60);

/// One event.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Event {
    /// Its type; `None` for a plain message.
    pub(super) kind: Option<String>,
    /// Its data; lines joined by line breaks.
    pub(super) data: Bytes,
}

/// An event that is larger than permitted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLarge;

/// Cuts a stream of bytes into events.
#[derive(Debug)]
pub(super) struct Events {
    cap: usize,
    /// Bytes of a line that has not ended.
    buffer: BytesMut,
    /// Where to look for the end of the line.
    scanned: usize,
    /// The line before ended with a carriage return: a line feed that follows belongs to it.
    after_return: bool,
    /// Nothing was read yet: a byte order mark may stand here.
    at_start: bool,
    kind: Option<String>,
    data: Option<Data>,
    last_id: Option<String>,
    retry: Option<Duration>,
}

/// Data lines of an event that has not ended.
#[derive(Debug)]
enum Data {
    One(Bytes),
    More(BytesMut),
}

impl Data {
    fn len(&self) -> usize {
        match self {
            Self::One(line) => line.len(),
            Self::More(lines) => lines.len(),
        }
    }
}

impl Events {
    /// With the largest event that is permitted, in bytes.
    pub(super) fn new(cap: usize) -> Self {
        Self {
            cap,
            buffer: BytesMut::new(),
            scanned: 0,
            after_return: false,
            at_start: true,
            kind: None,
            data: None,
            last_id: None,
            retry: None,
        }
    }

    /// The id of the last event, to go on from.
    pub(super) fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// After which time the server wants the stream to be opened again.
    pub(super) fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// A connection broke: what had not ended is forgotten, ids and times are kept.
    pub(super) fn restart(&mut self) {
        self.buffer.clear();
        self.scanned = 0;
        self.after_return = false;
        self.at_start = true;
        self.kind = None;
        self.data = None;
    }

    /// Takes bytes; call [`next`](Self::next) until it has nothing more.
    pub(super) fn feed(&mut self, bytes: &Bytes) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole event.
    ///
    /// # Errors
    /// When a line or event is larger than permitted; the stream cannot be read any further.
    pub(super) fn next(&mut self) -> Result<Option<Event>, TooLarge> {
        loop {
            let Some(line) = self.line()? else {
                return Ok(None);
            };
            if line.is_empty() {
                let kind = self.kind.take();
                // An event without data is none, whatever its type.
                let Some(data) = self.data.take() else {
                    continue;
                };
                let data = match data {
                    Data::One(line) => line,
                    Data::More(lines) => lines.freeze(),
                };
                return Ok(Some(Event { kind, data }));
            }
            self.field(line)?;
        }
    }

    /// The next whole line, without its end.
    fn line(&mut self) -> Result<Option<Bytes>, TooLarge> {
        if self.at_start {
            const MARK: &[u8] = b"\xef\xbb\xbf";
            if self.buffer.len() < MARK.len() && MARK.starts_with(&self.buffer) {
                return Ok(None);
            }
            if self.buffer.starts_with(MARK) {
                let _ = self.buffer.split_to(MARK.len());
            }
            self.at_start = false;
        }
        if self.after_return && !self.buffer.is_empty() {
            if self.buffer[0] == b'\n' {
                let _ = self.buffer.split_to(1);
            }
            self.after_return = false;
        }
        match memchr::memchr2(b'\n', b'\r', &self.buffer[self.scanned..]) {
            Some(offset) => {
                let end = self.scanned + offset;
                self.after_return = self.buffer[end] == b'\r';
                let mut line = self.buffer.split_to(end + 1);
                line.truncate(end);
                self.scanned = 0;
                Ok(Some(line.freeze()))
            }
            None if self.buffer.len() > self.cap + "data: ".len() => Err(TooLarge),
            None => {
                self.scanned = self.buffer.len();
                Ok(None)
            }
        }
    }

    fn field(&mut self, line: Bytes) -> Result<(), TooLarge> {
        let (name, value) = match memchr::memchr(b':', &line) {
            Some(0) => return Ok(()),
            Some(colon) => {
                let space = usize::from(line.get(colon + 1) == Some(&b' '));
                (line.slice(..colon), line.slice(colon + 1 + space..))
            }
            None => (line, Bytes::new()),
        };
        match &*name {
            b"data" => return self.add_data(value),
            b"event" => {
                let kind = String::from_utf8_lossy(&value).into_owned();
                self.kind = Some(kind).filter(|kind| !kind.is_empty() && kind != "message");
            }
            b"id" if value.len() <= MAX_ID_BYTES && !value.contains(&0) => {
                self.last_id = std::str::from_utf8(&value)
                    .ok()
                    .filter(|id| !id.is_empty())
                    .map(str::to_owned);
            }
            b"retry" => {
                let text = std::str::from_utf8(&value).ok();
                let digits = text.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
                if let Some(milliseconds) = digits.and_then(|text| text.parse().ok()) {
                    self.retry = Some(Duration::from_millis(milliseconds).min(MAX_RETRY));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn add_data(&mut self, line: Bytes) -> Result<(), TooLarge> {
        let held = self.data.as_ref().map_or(0, Data::len);
        if held + line.len() > self.cap {
            return Err(TooLarge);
        }
        self.data = Some(match self.data.take() {
            None => Data::One(line),
            Some(Data::One(first)) => {
                let mut lines = BytesMut::with_capacity(first.len() + 1 + line.len());
                lines.extend_from_slice(&first);
                lines.extend_from_slice(b"\n");
                lines.extend_from_slice(&line);
                Data::More(lines)
            }
            Some(Data::More(mut lines)) => {
                lines.extend_from_slice(b"\n");
                lines.extend_from_slice(&line);
                Data::More(lines)
            }
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] = b"\xef\xbb\xbf: hello\r\nid: 1\nretry: 250\rdata: \n\n\
        event: endpoint\ndata: /post?x=1\r\n\r\ndata:{\"a\":1}\nid: 2\n\nevent: ping\n\n\
        data: one\ndata:  two\nunknown: x\n\ndata\n\nid: bad\0id\nretry: -1\ndata: last\n\n\
        data: never ended";

    fn read(cut: &[usize]) -> Vec<(Option<String>, String)> {
        let mut events = Events::new(1_000);
        let mut found = Vec::new();
        let mut at = 0;
        for end in cut.iter().copied().chain([STREAM.len()]) {
            events.feed(&Bytes::copy_from_slice(&STREAM[at..end]));
            at = end;
            while let Some(event) = events.next().unwrap() {
                let data = String::from_utf8(event.data.to_vec()).unwrap();
                found.push((event.kind, data));
            }
        }
        assert_eq!(events.last_id(), Some("2"));
        assert_eq!(events.retry(), Some(Duration::from_millis(250)));
        found
    }

    #[test]
    fn a_stream_reads_the_same_wherever_it_is_cut() {
        let whole = read(&[]);
        let expected = [
            (None, ""),
            (Some("endpoint"), "/post?x=1"),
            (None, "{\"a\":1}"),
            (None, "one\n two"),
            (None, ""),
            (None, "last"),
        ];
        let expected = expected.map(|(kind, data)| (kind.map(str::to_owned), data.to_owned()));
        assert_eq!(whole, expected);
        for first in 0..STREAM.len() {
            assert_eq!(read(&[first]), whole, "cut at {first}");
        }
        let every: Vec<usize> = (1..STREAM.len()).collect();
        assert_eq!(read(&every), whole);
    }

    #[test]
    fn what_is_too_large_is_not_held() {
        let mut events = Events::new(100);
        events.feed(&Bytes::from(vec![b'x'; 200]));
        assert_eq!(events.next(), Err(TooLarge));

        let mut events = Events::new(100);
        events.feed(&Bytes::from("data: 0123456789\n".repeat(11)));
        assert_eq!(events.next(), Err(TooLarge));
    }
}
