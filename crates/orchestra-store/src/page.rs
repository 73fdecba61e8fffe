//! Pages of lists: how many, from where, and how to go on.

use std::fmt;
use std::ops::ControlFlow;

use orchestra_board::IssueId;

/// Text that is not a cursor of this list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the cursor is not from this list; omit it to start at the first item")]
pub struct CursorError;

/// Where a list goes on: opaque to callers, a key of the last item shown to the store, so that
/// what is added or removed meanwhile neither repeats nor skips anything else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor(String);

/// A part of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// How many items the whole list has.
    pub total: u64,
    /// Where to go on; `None` at the end.
    pub next_cursor: Option<String>,
}

/// Which part of a list is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    /// How many items at most; taken as 1 to [`PageRequest::MAX_LIMIT`].
    pub limit: u32,
    /// Where to go on; `None` for the front.
    pub cursor: Option<Cursor>,
}

impl Default for PageRequest {
    fn default() -> Self {
        Self {
            limit: Self::DEFAULT_LIMIT,
            cursor: None,
        }
    }
}

impl PageRequest {
    /// How many items a page holds unless told otherwise.
    pub const DEFAULT_LIMIT: u32 = 50;
    /// The most items a page can hold, so that an answer stays bounded.
    pub const MAX_LIMIT: u32 = 500;

    /// The first page with at most `limit` items.
    #[must_use]
    pub const fn first(limit: u32) -> Self {
        Self {
            limit,
            cursor: None,
        }
    }

    /// The key of the item that the page follows; `None` for the front.
    pub(crate) fn after<'a, K>(
        &'a self,
        key: impl FnOnce(&'a Cursor) -> Result<K, CursorError>,
    ) -> Result<Option<K>, CursorError> {
        let cursor = self.cursor.as_ref().filter(|cursor| !cursor.0.is_empty());
        cursor.map(key).transpose()
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit.clamp(1, Self::MAX_LIMIT) as usize
    }
}

impl<T> Page<T> {
    /// The same page with other items.
    pub fn map<U>(self, change: impl FnMut(T) -> U) -> Page<U> {
        Page {
            items: self.items.into_iter().map(change).collect(),
            total: self.total,
            next_cursor: self.next_cursor,
        }
    }
}

/// A page while it is filled, up to its limit or to [`MAX_PAGE_BYTES`].
#[derive(Debug)]
pub(crate) struct Filling<T> {
    items: Vec<T>,
    limit: usize,
    bytes: usize,
}

/// About how many bytes of text a page holds at most; one item it always holds.
const MAX_PAGE_BYTES: usize = 8 * 1024 * 1024;

impl<T> Filling<T> {
    pub(crate) fn new(request: &PageRequest) -> Self {
        Self {
            items: Vec::new(),
            limit: request.limit(),
            bytes: 0,
        }
    }

    /// How many items to fetch: one more than fits tells that there are more.
    pub(crate) const fn wanted(&self) -> usize {
        self.limit + 1
    }

    /// Adds an item with about so many bytes of text; breaks when no more are wanted.
    pub(crate) fn push(&mut self, item: T, bytes: usize) -> ControlFlow<()> {
        self.bytes += bytes;
        self.items.push(item);
        if self.bytes > MAX_PAGE_BYTES && self.items.len() > 1 {
            // What was too much is the sign that there are more.
            self.limit = self.items.len() - 1;
        }
        if self.items.len() > self.limit {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    /// The page, of a list of `total` items.
    pub(crate) fn finish(mut self, total: u64, key: impl Fn(&T) -> Cursor) -> Page<T> {
        let more = self.items.len() > self.limit;
        self.items.truncate(self.limit);
        let next_cursor = self
            .items
            .last()
            .filter(|_| more)
            .map(|last| key(last).to_string());
        Page {
            items: self.items,
            total,
            next_cursor,
        }
    }
}

impl Cursor {
    const MAX_BYTES: usize = 256;

    /// Takes the text of a cursor as a caller hands it back. An empty one means the front. Whether it belongs to the list is seen
    /// when the list is read.
    ///
    /// # Errors
    /// When no list gives such a cursor.
    pub fn parse(text: &str) -> Result<Self, CursorError> {
        let legal = text.len() <= Self::MAX_BYTES
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b'~'));
        legal.then(|| Self(text.to_owned())).ok_or(CursorError)
    }

    pub(crate) fn of_issue(id: &IssueId) -> Self {
        Self(format!("i~{id}"))
    }

    pub(crate) fn issue(&self) -> Result<IssueId, CursorError> {
        self.0
            .strip_prefix("i~")
            .and_then(|id| IssueId::parse(id).ok())
            .ok_or(CursorError)
    }

    pub(crate) fn of_number(number: u64) -> Self {
        Self(format!("n~{number}"))
    }

    pub(crate) fn number(&self) -> Result<u64, CursorError> {
        let number = self
            .0
            .strip_prefix("n~")
            .and_then(|number| number.parse::<u64>().ok());
        number
            .filter(|number| i64::try_from(*number).is_ok())
            .ok_or(CursorError)
    }

    pub(crate) fn of_name(name: &str) -> Self {
        Self(format!("t~{name}"))
    }

    pub(crate) fn name(&self) -> Result<&str, CursorError> {
        self.0.strip_prefix("t~").ok_or(CursorError)
    }

    pub(crate) fn of_numbered_name(number: i64, name: &str) -> Self {
        Self(format!("m~{number}~{name}"))
    }

    pub(crate) fn numbered_name(&self) -> Result<(i64, &str), CursorError> {
        let (number, name) = self
            .0
            .strip_prefix("m~")
            .and_then(|rest| rest.split_once('~'))
            .ok_or(CursorError)?;
        Ok((number.parse().map_err(|_| CursorError)?, name))
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use orchestra_board::IssueId;

    use super::{Cursor, CursorError, Filling, MAX_PAGE_BYTES, PageRequest};

    #[test]
    fn cursors_come_back_as_they_went() {
        let id = IssueId::parse("MA-12").expect("an id");
        let back = |cursor: Cursor| Cursor::parse(&cursor.to_string()).expect("a cursor");
        assert_eq!(back(Cursor::of_issue(&id)).issue(), Ok(id));
        assert_eq!(back(Cursor::of_number(7)).number(), Ok(7));
        assert_eq!(back(Cursor::of_name("my-app")).name(), Ok("my-app"));
        assert_eq!(
            back(Cursor::of_numbered_name(-3, "a.b_c-d")).numbered_name(),
            Ok((-3, "a.b_c-d"))
        );
    }

    #[test]
    fn hostile_cursors_are_refused() {
        for text in [
            "",
            "\0",
            "i~../..",
            "n~-1",
            "n~99999999999999999999",
            "m~x~y",
            "é",
            "i~MA-1' OR 1=1",
        ] {
            let refused = Cursor::parse(text).map_or(true, |cursor| {
                cursor.issue().is_err()
                    && cursor.number().is_err()
                    && cursor.numbered_name().is_err()
            });
            assert!(refused, "{text}");
        }
        assert_eq!(Cursor::parse(&"x".repeat(1_000_000)), Err(CursorError));
    }

    #[test]
    fn a_page_points_on_only_when_there_is_more() {
        let fill = |limit: u32, sizes: &[usize]| {
            let mut page = Filling::new(&PageRequest::first(limit));
            for (number, bytes) in (1_u64..).zip(sizes) {
                if page.push(number, *bytes).is_break() {
                    break;
                }
            }
            let page = page.finish(9, |number| Cursor::of_number(*number));
            (page.items.len(), page.next_cursor)
        };
        let next = |number: u64| Some(Cursor::of_number(number).to_string());
        assert_eq!(fill(2, &[1, 1, 1]), (2, next(2)));
        assert_eq!(fill(2, &[1, 1]), (2, None));
        assert_eq!(fill(9, &[MAX_PAGE_BYTES / 2; 9]), (2, next(2)));
        assert_eq!(fill(9, &[MAX_PAGE_BYTES * 2; 9]), (1, next(1)));
        assert_eq!(fill(9, &[MAX_PAGE_BYTES * 2]), (1, None));
    }
}
