//! Server-sent events (HTML, section 9.2), taken out of bytes as they come. Pure.

/// The longest event: a report of many servers, or some hundred cards.
const MOST: usize = 16 * 1024 * 1024;

/// An event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) id: Option<String>,
    pub(super) kind: String,
    pub(super) data: String,
}

/// An event that is longer than any should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event of the server is longer than allowed")]
pub(super) struct TooLong;

/// What has come and is no whole event yet.
#[derive(Debug, Default)]
pub(super) struct Frames {
    bytes: Vec<u8>,
    /// So many of them are of a line whose end has not come.
    seen: usize,
    event: Event,
    has_data: bool,
}

impl Frames {
    /// Takes in what came, and gives the events that are whole now.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Vec<Event>, TooLong> {
        self.bytes.extend_from_slice(bytes);
        let mut events = Vec::new();
        let (mut begin, mut from) = (0, self.seen);
        while let Some(more) = self.bytes[from..].iter().position(|&byte| byte == b'\n') {
            let line = String::from_utf8_lossy(&self.bytes[begin..from + more]).into_owned();
            begin = from + more + 1;
            from = begin;
            events.extend(self.line(line.strip_suffix('\r').unwrap_or(&line)));
        }
        self.bytes.drain(..begin);
        self.seen = self.bytes.len();
        match self.bytes.len().saturating_add(self.event.data.len()) > MOST {
            true => Err(TooLong),
            false => Ok(events),
        }
    }

    /// Takes a line; an event where it ends one.
    fn line(&mut self, line: &str) -> Option<Event> {
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            return std::mem::take(&mut self.has_data).then_some(event);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.event.id = Some(value.to_owned()),
            "event" => value.clone_into(&mut self.event.kind),
            "data" => {
                if self.has_data {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
                self.has_data = true;
            }
            // A comment, or what is of no use here.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_the_same_however_their_bytes_come() {
        let text = ":\n\nretry: 1000\nid: a-1\nevent: hello\ndata: {\"é\":1}\n\n\
                    event: cards\r\ndata:a\r\ndata: b\r\n\r\nid: x\n\n";
        let expected = [
            Event {
                id: Some("a-1".to_owned()),
                kind: "hello".to_owned(),
                data: "{\"é\":1}".to_owned(),
            },
            Event {
                id: None,
                kind: "cards".to_owned(),
                data: "a\nb".to_owned(),
            },
        ];
        for size in [1, 2, 7, text.len()] {
            let mut frames = Frames::default();
            let mut events = Vec::new();
            for bytes in text.as_bytes().chunks(size) {
                events.extend(frames.take(bytes).unwrap());
            }
            assert_eq!(events, expected, "{size}");
        }
    }

    #[test]
    fn an_event_without_end_is_not_kept() {
        let mut frames = Frames::default();
        let part = vec![b'x'; MOST / 4];
        let refused = (0..6).find_map(|_| frames.take(&part).err());
        assert_eq!(refused, Some(TooLong));
    }
}
