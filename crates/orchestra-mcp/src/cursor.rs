//! Cursors of lists: opaque to clients, checked when they come back.

use orchestra_hub::ListKind;
use orchestra_wire::RpcError;

/// Keeps cursors from being taken for plain numbers; no secret.
const SALT: u64 = 0x6f72_6368_6573_7472;

/// A list that is told in pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paged {
    /// A list of the catalog.
    Catalog(ListKind),
    /// `skills/list`.
    Skills,
    /// `resources/directory/read`.
    Directory,
}

/// The cursor of the page of `list` that starts at item `start`.
pub(crate) fn write(list: Paged, start: usize) -> String {
    let start = start as u64;
    format!("{:016x}{:016x}", start ^ SALT, check(list, start))
}

/// Where the page starts that `cursor` stands for.
pub(crate) fn read(list: Paged, cursor: &str) -> Result<usize, RpcError> {
    let start = || {
        let (start, sum) = (cursor.len() == 32).then(|| cursor.split_at_checked(16))??;
        let start = u64::from_str_radix(start, 16).ok()? ^ SALT;
        let sum = u64::from_str_radix(sum, 16).ok()?;
        (sum == check(list, start)).then_some(usize::try_from(start).ok()?)
    };
    start().ok_or_else(|| RpcError::invalid_params("invalid cursor: start from the first page"))
}

fn check(list: Paged, start: u64) -> u64 {
    let number = match list {
        Paged::Catalog(kind) => kind as u64 + 1,
        Paged::Skills => 101,
        Paged::Directory => 102,
    };
    (start.rotate_left(17) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_good_for_its_list_only() {
        for start in [1, 50, 100_000] {
            let tools = Paged::Catalog(ListKind::Tools);
            let cursor = write(tools, start);
            assert_eq!(read(tools, &cursor), Ok(start));
            assert!(read(Paged::Catalog(ListKind::Prompts), &cursor).is_err());
            assert!(read(Paged::Skills, &cursor).is_err());
        }
        for cursor in ["", "1", "é".repeat(16).as_str(), "f".repeat(32).as_str()] {
            assert_eq!(read(Paged::Directory, cursor).unwrap_err().code.0, -32602);
        }
    }
}
