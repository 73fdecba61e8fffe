//! PEM, as the files have it: DER in lines of text. `rustls` reads it, so here it is only written.

use std::fmt::Write as _;

/// Bytes in a line.
const LINE_BYTES: usize = 48;

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The text of a block with this label.
pub(super) fn encode(label: &str, der: &[u8]) -> String {
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in der.chunks(LINE_BYTES) {
        for three in line.chunks(3) {
            let byte = |index: usize| three.get(index).copied().map_or(0, u32::from);
            let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
            for place in 0..4 {
                let digit = DIGITS[(bits >> (18 - 6 * place)) as usize & 63];
                let is_filled = place <= three.len();
                text.push(if is_filled { char::from(digit) } else { '=' });
            }
        }
        text.push('\n');
    }
    // A text can always be written to.
    let _ = writeln!(text, "-----END {label}-----");
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_what_others_write(der in proptest::collection::vec(any::<u8>(), 0..200)) {
            let config = ::pem::EncodeConfig::new().set_line_ending(::pem::LineEnding::LF);
            let theirs = ::pem::encode_config(&::pem::Pem::new("CERTIFICATE", der.clone()), config);
            prop_assert_eq!(encode("CERTIFICATE", &der), theirs);
        }
    }
}
