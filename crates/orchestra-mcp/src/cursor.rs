//! Cursors of lists: opaque to clients, checked when they come back.

use orchestra_hub::ListKind;
use orchestra_wire::RpcError;

/// Keeps cursors from being taken for plain numbers; no secret.
const SALT: u64 = 0x6f72_6368_6573_7472;

/// The cursor of the page of `kind` that starts at item `start`.
pub(crate) fn write(kind: ListKind, start: usize) -> String {
    let start = start as u64;
    format!("{:016x}{:016x}", start ^ SALT, check(kind, start))
}

/// Where the page starts that `cursor` stands for.
pub(crate) fn read(kind: ListKind, cursor: &str) -> Result<usize, RpcError> {
    let start = || {
        let (start, sum) = (cursor.len() == 32).then(|| cursor.split_at_checked(16))??;
        let start = u64::from_str_radix(start, 16).ok()? ^ SALT;
        let sum = u64::from_str_radix(sum, 16).ok()?;
        (sum == check(kind, start)).then_some(usize::try_from(start).ok()?)
    };
    start().ok_or_else(|| RpcError::invalid_params("invalid cursor: start from the first page"))
}

fn check(kind: ListKind, start: u64) -> u64 {
    (start.rotate_left(17) ^ (kind as u64 + 1)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_good_for_its_list_only() {
        for start in [1, 50, 100_000] {
            let cursor = write(ListKind::Tools, start);
            assert_eq!(read(ListKind::Tools, &cursor), Ok(start));
            assert!(read(ListKind::Prompts, &cursor).is_err());
        }
        for cursor in ["", "1", "é".repeat(16).as_str(), "f".repeat(32).as_str()] {
            assert_eq!(read(ListKind::Tools, cursor).unwrap_err().code.0, -32602);
        }
    }
}
