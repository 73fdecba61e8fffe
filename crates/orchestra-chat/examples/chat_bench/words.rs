//! How soon a word is shown that has come: a server of this machine says words one after the other and notes when.
//! Beside it, the same bytes read by nothing but the client of HTTP.

use std::{
    future::ready,
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    pin::Pin,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use orchestra_chat::{
    Chat, Described, Due, Face, Manner, Nature, Ollama, Outcome, Parts, Piece, Settings, Stopper,
    Toolbox, Tools, Verdict, turn,
};
use serde_json::json;

use crate::bars::{Bars, percentile};

const WORDS: usize = 200;
const PAUSE: Duration = Duration::from_millis(5);

type Times = Arc<Mutex<Vec<Instant>>>;

/// A server that says words, and notes when each was sent.
fn server(sent: Times) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream);
            let mut line = String::new();
            let mut length = 0;
            while reader.read_line(&mut line).unwrap() > 2 {
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            std::io::copy(
                &mut std::io::Read::take(&mut reader, length),
                &mut std::io::sink(),
            )
            .unwrap();
            let stream = reader.get_mut();
            stream.set_nodelay(true).unwrap();
            stream
                .write_all(
                    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n",
                )
                .unwrap();
            for word in 0..WORDS {
                thread::sleep(PAUSE);
                let line = json!({"message": {"role": "assistant", "content": format!("word{word} ")}, "done": false});
                sent.lock().unwrap().push(Instant::now());
                chunk(stream, &format!("{line}\n"));
            }
            chunk(
                stream,
                &format!(
                    "{}\n",
                    json!({"done": true, "prompt_eval_count": 1, "eval_count": 1})
                ),
            );
            stream.write_all(b"0\r\n\r\n").unwrap();
        }
    });
    address
}

fn chunk(stream: &mut std::net::TcpStream, text: &str) {
    stream
        .write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes())
        .unwrap();
}

struct Watcher(Times);

impl Face for Watcher {
    fn says(&mut self, piece: &Piece) {
        if let Piece::Text(text) = piece {
            let words = text.matches("word").count();
            let now = Instant::now();
            self.0
                .lock()
                .unwrap()
                .extend(std::iter::repeat_n(now, words));
        }
    }

    fn decides<'f>(
        &'f mut self,
        _due: &'f Due,
    ) -> Pin<Box<dyn Future<Output = Verdict> + Send + 'f>> {
        Box::pin(ready(Verdict::No))
    }
}

struct NoTools;

impl Toolbox for NoTools {
    fn call(&self, _due: Due) -> orchestra_chat::BoxFuture<Outcome> {
        Box::pin(ready(Outcome::Broken("there are none".to_owned())))
    }
}

fn late(sent: &Times, shown: &Times) -> Vec<f64> {
    let (sent, shown) = (sent.lock().unwrap(), shown.lock().unwrap());
    assert_eq!((sent.len(), shown.len()), (WORDS, WORDS));
    let both = sent.iter().zip(shown.iter());
    both.map(|(sent, shown)| shown.saturating_duration_since(*sent).as_secs_f64() * 1e3)
        .collect()
}

pub(crate) async fn measure(bars: &mut Bars) {
    // With tools: what may become a call is looked for in every word.
    let described = (0..64).map(|at| Described {
        name: format!("tool_number_{at}"),
        description: "Does it.".to_owned(),
        schema: json!({"type": "object", "properties": {"a": {"type": "string"}}}),
        lean: None,
        server: None,
        nature: Nature::Reads,
    });
    let (sent, shown) = (Times::default(), Times::default());
    let backend = Ollama::new(&server(Arc::clone(&sent)), None, "m", Manner::default()).unwrap();
    let mut chat = Chat::new(Settings::default(), Tools::new(described));
    let (mut face, stopper) = (Watcher(Arc::clone(&shown)), Stopper::default());
    let mut record: Option<orchestra_chat::session::Recorder> = None;
    let mut parts = Parts {
        backend: &backend,
        toolbox: &NoTools,
        face: &mut face,
        record: &mut record,
        began: Instant::now(),
    };
    turn(&mut chat, "Talk.".to_owned(), &mut parts, stopper.next()).await;
    let mut ours = late(&sent, &shown);
    // The peer: the same bytes, read and thrown away.
    let (sent, read) = (Times::default(), Times::default());
    let endpoint = orchestra_remote::Endpoint::new(&server(Arc::clone(&sent)), None).unwrap();
    let minute = Duration::from_secs(60);
    let limits = orchestra_remote::Limits {
        first: minute,
        next: minute,
    };
    let mut answer = endpoint
        .ask(&["api", "chat"], Some(b"{}".to_vec()), limits)
        .await
        .unwrap();
    while let Some(bytes) = answer.chunk().await.unwrap() {
        let now = Instant::now();
        let words = String::from_utf8_lossy(&bytes).matches("word").count();
        read.lock().unwrap().extend(std::iter::repeat_n(now, words));
    }
    let mut peer = late(&sent, &read);
    let first = ours[0];
    let figures =
        |values: &mut Vec<f64>| (percentile(&mut values.clone(), 50), percentile(values, 95));
    let ((median, tail), (bare, bare_tail)) = (figures(&mut ours), figures(&mut peer));
    println!(
        "a word is shown after it was sent: first {first:.3} ms, median {median:.3} ms, p95 {tail:.3} ms; read by the \
         client of HTTP alone: median {bare:.3} ms, p95 {bare_tail:.3} ms"
    );
    bars.at_most(
        "the first word is shown after it has come",
        10.0,
        "ms",
        first,
    );
    bars.at_most("any word is shown after it has come, p95", 10.0, "ms", tail);
}
