//! Hexadecimal digits.

/// Bytes as lower-case hexadecimal digits, two for each.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
