//! Writing TOON, as the library would, without a tree of values between: a file is written with
//! every change.

use std::fmt::{Display, Write as _};

use super::document::SCHEMA;

/// The text of one file in the making.
pub(crate) struct Writer {
    out: String,
}

impl Writer {
    /// Begins a file with its schema.
    pub(crate) fn new() -> Self {
        let mut out = String::with_capacity(512);
        out.push_str("schema: ");
        number(&mut out, SCHEMA);
        out.push('\n');
        Self { out }
    }

    /// Ends the file.
    pub(crate) fn finish(mut self) -> String {
        self.out.push_str("end: true\n");
        self.out
    }

    /// A text.
    pub(crate) fn text(&mut self, key: &str, value: &str) {
        self.key(key);
        text(&mut self.out, value);
        self.out.push('\n');
    }

    /// A text that is made of a value which shows itself.
    pub(crate) fn shown(&mut self, key: &str, value: &impl Display) {
        self.text(key, &value.to_string());
    }

    /// A text, unless it is not there.
    pub(crate) fn optional(&mut self, key: &str, value: Option<&impl Display>) {
        if let Some(value) = value {
            self.shown(key, value);
        }
    }

    /// A whole number.
    pub(crate) fn number(&mut self, key: &str, value: u64) {
        self.key(key);
        number(&mut self.out, value);
        self.out.push('\n');
    }

    /// A list of texts, unless it is empty.
    pub(crate) fn list<'a>(&mut self, key: &str, values: impl ExactSizeIterator<Item = &'a str>) {
        if values.len() == 0 {
            return;
        }
        self.out.push_str(key);
        self.out.push('[');
        number(&mut self.out, length(values.len()));
        self.out.push_str("]: ");
        for (index, value) in values.enumerate() {
            if index > 0 {
                self.out.push(',');
            }
            text(&mut self.out, value);
        }
        self.out.push('\n');
    }

    /// A group of numbers under one name, unless it is empty.
    pub(crate) fn numbers<'a>(
        &mut self,
        key: &str,
        values: impl IntoIterator<Item = (&'a str, u64)>,
    ) {
        let mut values = values.into_iter().peekable();
        if values.peek().is_none() {
            return;
        }
        self.out.push_str(key);
        self.out.push_str(":\n");
        for (name, value) in values {
            self.out.push_str("  ");
            self.key_of(name);
            number(&mut self.out, value);
            self.out.push('\n');
        }
    }

    /// A table of texts, unless it is empty.
    pub(crate) fn table<const N: usize>(
        &mut self,
        key: &str,
        columns: [&str; N],
        rows: &[[&str; N]],
    ) {
        if rows.is_empty() {
            return;
        }
        self.out.push_str(key);
        self.out.push('[');
        number(&mut self.out, length(rows.len()));
        self.out.push_str("]{");
        self.out.push_str(&columns.join(","));
        self.out.push_str("}:\n");
        for row in rows {
            self.out.push_str("  ");
            for (index, cell) in row.iter().enumerate() {
                if index > 0 {
                    self.out.push(',');
                }
                text(&mut self.out, cell);
            }
            self.out.push('\n');
        }
    }

    fn key(&mut self, key: &str) {
        self.key_of(key);
    }

    fn key_of(&mut self, key: &str) {
        let plain = key
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        if plain {
            self.out.push_str(key);
        } else {
            quoted(&mut self.out, key);
        }
        self.out.push_str(": ");
    }
}

fn length(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

fn number(out: &mut String, value: u64) {
    write!(out, "{value}").expect("writing to a string does not fail");
}

/// A text as a value: bare where that is read back as the same text, else quoted.
fn text(out: &mut String, value: &str) {
    if toon_format::needs_quoting(value, ',') {
        quoted(out, value);
    } else {
        out.push_str(value);
    }
}

fn quoted(out: &mut String, value: &str) {
    out.push('"');
    out.push_str(&toon_format::escape_string(value));
    out.push('"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::Writer;
    use crate::toon::Document;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn writes_what_the_library_writes(
            value in "[\\x00-\\x7f]{0,8}|\\PC{0,8}|true|null|-?[0-9.e]{1,5}",
            list in prop::collection::vec("[ -~]{0,5}", 1..4),
            count in any::<u32>(),
        ) {
            let mut writer = Writer::new();
            writer.text("value", &value);
            writer.list("list", list.iter().map(String::as_str));
            writer.numbers("counts", [("in-progress", u64::from(count))]);
            writer.table("rows", ["a", "b"], &[[&value, "x"], ["y", &value]]);
            let written = writer.finish();
            let same = json!({
                "schema": 1, "value": value, "list": list, "counts": {"in-progress": count},
                "rows": [{"a": value, "b": "x"}, {"a": "y", "b": value}], "end": true,
            });
            let library = toon_format::encode_default(&same).expect("encodes");
            prop_assert_eq!(written.trim_end_matches('\n'), library);
            let mut read = Document::parse("f", &written).expect("reads back");
            prop_assert_eq!(read.text("value").expect("text"), value);
        }
    }
}
