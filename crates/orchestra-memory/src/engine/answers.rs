//! How much an answer may hold: clients of gRPC refuse messages above 4 MiB unless they were told
//! otherwise.

use prost::Message;

/// Leaves room for what frames the items.
const MOST_BYTES: usize = 3_500_000;

/// The first of the items that fit into one answer; always the very first.
pub(crate) fn fitting<M: Message>(items: impl Iterator<Item = M>) -> Vec<M> {
    let mut bytes = 0_usize;
    let mut kept = Vec::new();
    for item in items {
        bytes = bytes.saturating_add(item.encoded_len());
        if bytes > MOST_BYTES && !kept.is_empty() {
            break;
        }
        kept.push(item);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_holds_what_fits_and_never_nothing() {
        let large = || "x".repeat(1_000_000);
        assert_eq!(fitting((0..10).map(|_| large())).len(), 3);
        assert_eq!(fitting(std::iter::once("x".repeat(9_000_000))).len(), 1);
        assert_eq!(fitting(std::iter::empty::<String>()).len(), 0);
    }
}
