//! JSON files of others, with comments: edited in place so that everything else stays as it was,
//! or refused with the reason.

use jsonc_parser::{
    ParseOptions,
    cst::{CstArray, CstInputValue, CstObject, CstObjectProp, CstRootNode},
};
use serde_json::Value;

/// Why a file was left alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Refusal(pub(crate) String);

/// A JSON file with comments, whose top is an object.
pub(crate) struct Document {
    root: CstRootNode,
    /// The byte order mark, if there was one.
    mark: &'static str,
}

/// What JSON with comments may have beyond JSON: comments, and commas after the last item.
const DIALECT: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// The byte order mark that some editors put first.
const BYTE_ORDER_MARK: &str = "\u{feff}";

impl Document {
    /// Understands `text`; a file that is empty, or not there, is an empty object.
    ///
    /// # Errors
    /// When it is not JSON with comments, or its top is not an object.
    pub(crate) fn parse(text: Option<&str>) -> Result<Self, Refusal> {
        let text = text.unwrap_or("{}\n");
        let (mark, text) = match text.strip_prefix(BYTE_ORDER_MARK) {
            Some(rest) => (BYTE_ORDER_MARK, rest),
            None => ("", text),
        };
        let root = CstRootNode::parse(text, &DIALECT)
            .map_err(|error| Refusal(format!("not valid JSON: {error}")))?;
        match root.object_value_or_create() {
            Some(_) => Ok(Self { root, mark }),
            None => Err(Refusal("the file does not hold a JSON object".into())),
        }
    }

    /// The object at the top.
    pub(crate) fn top(&self) -> Object {
        let object = self.root.object_value_or_set();
        Object {
            object,
            path: String::new(),
        }
    }

    /// The text, with every change.
    ///
    /// # Errors
    /// When the changed text would not be understood again, which would be a fault of ours; the
    /// file is left alone then.
    pub(crate) fn text(&self) -> Result<String, Refusal> {
        let text = self.root.to_string();
        let again = CstRootNode::parse(&text, &DIALECT).ok();
        if again.and_then(|root| root.to_serde_value()) != self.root.to_serde_value() {
            return Err(Refusal(
                "the file cannot be changed without breaking it; edit it by hand".into(),
            ));
        }
        Ok(format!("{}{text}", self.mark))
    }
}

/// An object inside of a document, with the path that leads to it.
pub(crate) struct Object {
    object: CstObject,
    path: String,
}

impl Object {
    /// The value of `key`, if there is one.
    ///
    /// # Errors
    /// When the key stands there more than once.
    pub(crate) fn value(&self, key: &str) -> Result<Option<Value>, Refusal> {
        Ok(self
            .property(key)?
            .and_then(|property| property.to_serde_value()))
    }

    /// The object at `key`; `None` when there is no such key.
    ///
    /// # Errors
    /// When something else is there.
    pub(crate) fn object(&self, key: &str) -> Result<Option<Self>, Refusal> {
        let path = self.path_of(key);
        match self.property(key)? {
            None => Ok(None),
            Some(property) => match property.object_value() {
                Some(object) => Ok(Some(Self { object, path })),
                None => Err(Refusal(format!("`{path}` is not an object"))),
            },
        }
    }

    /// The object at `key`, made when there is no such key.
    ///
    /// # Errors
    /// When something else is there.
    pub(crate) fn object_or_new(&self, key: &str) -> Result<Self, Refusal> {
        if self.property(key)?.is_none() {
            self.object.append(key, CstInputValue::Object(Vec::new()));
        }
        let path = self.path_of(key);
        self.object(key)?
            .ok_or_else(|| Refusal(format!("`{path}` cannot be made")))
    }

    /// The array at `key`; `None` when there is no such key.
    ///
    /// # Errors
    /// When something else is there.
    pub(crate) fn array(&self, key: &str) -> Result<Option<CstArray>, Refusal> {
        let path = self.path_of(key);
        match self.property(key)? {
            None => Ok(None),
            Some(property) => match property.array_value() {
                Some(array) => Ok(Some(array)),
                None => Err(Refusal(format!("`{path}` is not an array"))),
            },
        }
    }

    /// Sets `key`; an existing one keeps its place.
    ///
    /// # Errors
    /// When the key stands there more than once.
    pub(crate) fn set(&self, key: &str, value: &Value) -> Result<(), Refusal> {
        match self.property(key)? {
            Some(property) => property.set_value(input(value)),
            None => {
                self.object.append(key, input(value));
            }
        }
        Ok(())
    }

    /// Puts `key` with `value` in the place of `earlier`.
    ///
    /// # Errors
    /// When the earlier key stands there more than once.
    pub(crate) fn replace(&self, earlier: &str, key: &str, value: &Value) -> Result<(), Refusal> {
        match self.property(earlier)? {
            Some(property) => {
                property.replace_with(key, input(value));
                Ok(())
            }
            None => self.set(key, value),
        }
    }

    /// Removes `key`, if it is there.
    ///
    /// # Errors
    /// When it stands there more than once.
    pub(crate) fn remove(&self, key: &str) -> Result<(), Refusal> {
        if let Some(property) = self.property(key)? {
            property.remove();
        }
        Ok(())
    }

    /// The keys, in their order.
    pub(crate) fn names(&self) -> Vec<String> {
        let properties = self.object.properties().into_iter();
        properties
            .filter_map(|property| property.decoded_name())
            .collect()
    }

    /// Whether nothing is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.object.properties().is_empty()
    }

    /// The property `key`, which must not stand there twice: programs differ in which one counts.
    fn property(&self, key: &str) -> Result<Option<CstObjectProp>, Refusal> {
        let properties = self.object.properties().into_iter();
        let mut found =
            properties.filter(|property| property.decoded_name().as_deref() == Some(key));
        match (found.next(), found.next()) {
            (_, Some(_)) => Err(Refusal(format!(
                "`{}` occurs more than once",
                self.path_of(key)
            ))),
            (first, None) => Ok(first),
        }
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }
}

/// The order in which the clients' own examples write the members of what we add.
const MEMBERS: [&str; 7] = [
    "type", "matcher", "command", "args", "env", "hooks", "async",
];

/// A value as the editor takes it.
pub(crate) fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(members) => {
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            let place = |key: &str| MEMBERS.iter().position(|member| *member == key);
            orchestra_sort::sort_by_key(&mut members, |(key, _)| {
                (place(key).unwrap_or(MEMBERS.len()), *key)
            });
            let members = members
                .into_iter()
                .map(|(key, value)| (key.clone(), input(value)));
            CstInputValue::Object(members.collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn everything_else_stays_as_it_was() {
        let text =
            "\u{feff}// mine\n{\n  \"a\": 1, // one\n  /* two */ \"b\": { \"c\": [1,2] },\n}\n";
        let document = Document::parse(Some(text)).unwrap();
        let servers = document.top().object_or_new("b").unwrap();
        servers.set("d", &json!({"x": [true]})).unwrap();
        let changed = document.text().unwrap();
        assert!(
            changed.starts_with("\u{feff}// mine\n{\n  \"a\": 1, // one\n  /* two */ \"b\": {")
        );
        servers.remove("d").unwrap();
        assert!(document.text().unwrap().contains("[1,2]"));
    }

    #[test]
    fn what_is_not_understood_is_refused_with_the_reason() {
        for (text, reason) in [
            ("{", "not valid JSON"),
            ("{'a': 1}", "not valid JSON"),
            ("{\"a\": 1 \"b\": 2}", "not valid JSON"),
            ("null", "does not hold a JSON object"),
            ("[]", "does not hold a JSON object"),
            ("3", "does not hold a JSON object"),
        ] {
            let error = Document::parse(Some(text)).err().unwrap();
            assert!(error.0.contains(reason), "{text}: {error}");
        }
        let deep = "[".repeat(100_000);
        assert!(Document::parse(Some(&deep)).is_err());
    }

    #[test]
    fn wrong_types_and_doubled_keys_are_refused() {
        let document = Document::parse(Some("{\"a\": null, \"b\": {}, \"b\": {}}")).unwrap();
        let refusal = |result: Result<Object, Refusal>| result.err().unwrap().0;
        assert_eq!(
            refusal(document.top().object_or_new("a")),
            "`a` is not an object"
        );
        assert_eq!(
            refusal(document.top().object_or_new("b")),
            "`b` occurs more than once"
        );
        assert!(document.top().array("a").is_err());
    }

    #[test]
    fn an_empty_or_missing_file_is_an_empty_object() {
        for text in [None, Some(""), Some("\n"), Some("// only a comment\n")] {
            let document = Document::parse(text).unwrap();
            document.top().set("k", &json!("v")).unwrap();
            let changed = document.text().unwrap();
            assert!(changed.contains("\"k\": \"v\""), "{changed}");
        }
    }
}
