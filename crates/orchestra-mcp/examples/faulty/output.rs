//! What the server prints, whoever prints it and however broken it is to be.

use std::{
    io::{self, Write},
    sync::{Mutex, PoisonError},
};

use serde_json::{Value, json};

pub(crate) struct Output {
    /// How many bytes may leave before the end.
    left: Mutex<Option<u64>>,
    logs: bool,
}

impl Output {
    pub(crate) fn new(crash_at: Option<u64>, logs: bool) -> Self {
        Self {
            left: Mutex::new(crash_at),
            logs,
        }
    }

    pub(crate) fn result(&self, id: &Value, result: &Value) {
        self.message(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    pub(crate) fn error(&self, id: &Value, code: i64, message: &str) {
        let error = json!({"code": code, "message": message});
        self.message(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
    }

    /// The result of a tool.
    pub(crate) fn text(&self, id: &Value, text: &str) {
        self.result(id, &json!({"content": [{"type": "text", "text": text}]}));
    }

    /// A tool that failed.
    pub(crate) fn failed(&self, id: &Value, text: &str) {
        let content = json!([{"type": "text", "text": text}]);
        self.result(id, &json!({"content": content, "isError": true}));
    }

    pub(crate) fn notify(&self, method: &str, params: &Value) {
        self.message(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    pub(crate) fn message(&self, message: &Value) {
        if self.logs {
            self.bytes(b"INFO about to answer\n");
        }
        self.bytes(format!("{message}\n").as_bytes());
    }

    /// Anything at all.
    pub(crate) fn bytes(&self, bytes: &[u8]) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let length = bytes.len() as u64;
        let mut output = io::stdout().lock();
        let (now, ends) = match *left {
            Some(left) if left < length => (usize::try_from(left).unwrap_or(0), true),
            _ => (bytes.len(), false),
        };
        let done = output
            .write_all(&bytes[..now])
            .and_then(|()| output.flush());
        if done.is_err() || ends {
            std::process::exit(70);
        }
        *left = left.map(|left| left - length);
    }
}
