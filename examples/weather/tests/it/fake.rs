//! A National Weather Service on this machine, which answers as it is told and notes who asked.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode},
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use orchestra_mcp::{Direct, DirectCaller, DirectError, Server};
use orchestra_wire::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use weather::{DEFAULT_PATIENCE, Upstream};

/// Answers by path and query.
#[derive(Default)]
struct Answers {
    answers: HashMap<String, Answer>,
    asked: Vec<(String, HeaderMap)>,
}

#[derive(Clone)]
struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    /// None is never answered.
    body: Option<String>,
}

/// The fake and where it listens.
pub(crate) struct Fake {
    pub(crate) base: String,
    answers: Arc<Mutex<Answers>>,
}

impl Fake {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let answers = Arc::<Mutex<Answers>>::default();
        let app = Router::new()
            .fallback(answer)
            .with_state(Arc::clone(&answers));
        tokio::spawn(async { axum::serve(listener, app).await });
        Self { base, answers }
    }

    /// Answers a path with a status, headers and a body, which says `BASE` for where this is.
    pub(crate) fn answer(
        &self,
        path: &str,
        status: u16,
        headers: &[(&'static str, &str)],
        body: &str,
    ) {
        let headers = headers
            .iter()
            .map(|(name, value)| (*name, value.replace("BASE", &self.base)));
        let answer = Answer {
            status,
            headers: headers.collect(),
            body: Some(body.replace("BASE", &self.base)),
        };
        self.answers
            .lock()
            .unwrap()
            .answers
            .insert(path.to_owned(), answer);
    }

    /// Answers a path with a recorded body.
    pub(crate) fn record(&self, path: &str, name: &str) {
        self.answer(path, 200, &[], &recorded(name));
    }

    /// Never answers a path.
    pub(crate) fn hang(&self, path: &str) {
        let answer = Answer {
            status: 0,
            headers: Vec::new(),
            body: None,
        };
        self.answers
            .lock()
            .unwrap()
            .answers
            .insert(path.to_owned(), answer);
    }

    /// The paths that were asked for, in order.
    pub(crate) fn asked(&self) -> Vec<String> {
        let answers = self.answers.lock().unwrap();
        answers.asked.iter().map(|(path, _)| path.clone()).collect()
    }

    /// What the first question said of itself.
    pub(crate) fn first_headers(&self) -> HeaderMap {
        self.answers.lock().unwrap().asked[0].1.clone()
    }

    /// The weather server over this.
    pub(crate) fn weather(&self) -> Weather {
        self.patient(DEFAULT_PATIENCE)
    }

    /// The weather server over this, which waits for so long.
    pub(crate) fn patient(&self, patience: Duration) -> Weather {
        Weather::over(&self.base, patience)
    }
}

async fn answer(State(answers): State<Arc<Mutex<Answers>>>, request: Request) -> Response {
    let path = request.uri().to_string();
    let answer = {
        let mut answers = answers.lock().unwrap();
        answers
            .asked
            .push((path.clone(), request.headers().clone()));
        answers.answers.get(&path).cloned()
    };
    let Some(answer) = answer else {
        return (StatusCode::NOT_FOUND, format!("{path} is not recorded")).into_response();
    };
    let Some(body) = answer.body else {
        return std::future::pending().await;
    };
    let headers = answer.headers.into_iter().map(|(name, value)| {
        (
            HeaderName::from_static(name),
            HeaderValue::try_from(value).unwrap(),
        )
    });
    let status = StatusCode::from_u16(answer.status).unwrap();
    (status, HeaderMap::from_iter(headers), body).into_response()
}

pub(crate) fn recorded(name: &str) -> String {
    read(&format!("recorded/{name}.json"))
}

pub(crate) fn golden(name: &str) -> String {
    read(&format!("golden/{name}.txt"))
        .trim_end_matches('\n')
        .to_owned()
}

fn read(path: &str) -> String {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    std::fs::read_to_string(tests.join(path)).unwrap()
}

/// The weather server in this process.
pub(crate) struct Weather(Server, Direct);

impl Weather {
    pub(crate) fn over(base: &str, patience: Duration) -> Self {
        let upstream = Upstream::new(base, patience).unwrap();
        let server = weather::server(upstream).unwrap();
        let direct = Direct::new(&server, "test");
        Self(server, direct)
    }

    /// The result of a call.
    pub(crate) async fn call(&self, name: &str, arguments: Value) -> Result<Value, DirectError> {
        let params = json!({"name": name, "arguments": arguments}).to_string();
        let params = Bytes::from(params);
        let called = self
            .1
            .call(Method::ToolsCall, &params, DirectCaller::default());
        called
            .await
            .map(|result| serde_json::from_slice(&result).unwrap())
    }

    /// The text and the data of a call that is well; the data fit the schema of the tool.
    pub(crate) async fn ask(&self, name: &str, arguments: Value) -> (String, Value) {
        let result = self.call(name, arguments).await.unwrap();
        assert_ne!(result["isError"], true, "{result}");
        let tools = self.0.hub().tools(&orchestra_hub::Toolset::All);
        let tool = tools.into_iter().find(|tool| tool.name == name).unwrap();
        let schema: Value = tool.output_schema.unwrap().parse().unwrap();
        let data = result["structuredContent"].clone();
        jsonschema::validate(&schema, &data).unwrap();
        (text(&result), data)
    }

    /// The text of a call that failed at its work.
    pub(crate) async fn fail(&self, name: &str, arguments: Value) -> String {
        let result = self.call(name, arguments).await.unwrap();
        assert_eq!(result["isError"], true, "{result}");
        assert!(result.get("structuredContent").is_none());
        text(&result)
    }
}

fn text(result: &Value) -> String {
    let content = result["content"].as_array().unwrap();
    assert_eq!(content.len(), 1);
    content[0]["text"].as_str().unwrap().to_owned()
}
