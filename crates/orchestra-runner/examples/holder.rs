//! A process of a workspace, for the tests: it holds or follows, adds events as fast as it can, and says
//! what was acknowledged. Its first argument says how it behaves, its second where the storage root is.

#![expect(clippy::print_stdout, reason = "what it prints is what tests read")]
#![expect(clippy::unwrap_used, reason = "a fixture fails by panicking")]

use std::{
    collections::HashMap,
    io::Read as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use orchestra_runner::{
    holder::{
        Call, CallError, HandOver, Refused, Role, Seat, Served, Service, Settings, Slots, Work,
    },
    journal::{Append, AppendError, Fresh, Journal, Once, OnceKey, Options, PlanKey},
};
use serde_json::{Value, json, value::to_raw_value};
use tokio::sync::watch;

/// Adds events to plans, and counts them for whoever asks.
struct Adder {
    journal: Journal,
    numbers: Mutex<HashMap<PlanKey, u64>>,
    live: watch::Sender<bool>,
}

impl Adder {
    async fn add(&self, call: Call) -> Result<Value, AppendError> {
        let plan = PlanKey::parse(call.params["plan"].as_str().unwrap()).unwrap();
        let body = json!({"said": call.params, "epoch": self.journal.epoch()});
        let once = call.once.map(|key| Once {
            key,
            answer: to_raw_value(&json!("before")).unwrap(),
        });
        loop {
            let expected = *self.numbers.lock().unwrap().get(&plan).unwrap_or(&0);
            let append = Append {
                plan: plan.clone(),
                expected,
                events: vec![Fresh::new(1, &body).unwrap()],
                once: once.clone(),
            };
            let number = match self.journal.append(append).await {
                Ok(receipt) => {
                    self.numbers
                        .lock()
                        .unwrap()
                        .insert(plan.clone(), receipt.number);
                    return Ok(json!(receipt.seq));
                }
                Err(AppendError::Conflict { found, .. }) => found,
                Err(error) => return Err(error),
            };
            self.numbers.lock().unwrap().insert(plan.clone(), number);
        }
    }
}

impl Service for Adder {
    fn call(&self, call: Call) -> Work<'_, Result<Value, Refused>> {
        Box::pin(async move {
            match call.method.as_str() {
                "add" => self.add(call).await.map_err(|error| Refused {
                    code: "fault".to_owned(),
                    message: error.to_string(),
                    data: None,
                }),
                "live" => Ok(json!(self.live.send_replace(call.params == true))),
                "pid" => Ok(json!(std::process::id())),
                "hang" => std::future::pending().await,
                "echo" => Ok(call.params),
                _ => Err(Refused {
                    code: "unknown".to_owned(),
                    message: "no such method".to_owned(),
                    data: None,
                }),
            }
        })
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.journal.committed()
    }

    fn is_live(&self) -> watch::Receiver<bool> {
        self.live.subscribe()
    }

    fn end(&self) -> Work<'_, ()> {
        Box::pin(self.journal.close())
    }
}

async fn serve(root: PathBuf) -> Result<Served, String> {
    let opened = tokio::task::spawn_blocking(move || Journal::open(&root, Options::default()));
    let journal = opened.await.unwrap().map_err(|fault| fault.to_string())?;
    println!("holds {}", journal.epoch());
    let service: Served = Arc::new(Adder {
        journal,
        numbers: Mutex::default(),
        live: watch::Sender::new(false),
    });
    Ok(service)
}

fn seat(root: &Path, name: &str) -> Seat {
    let theirs = root.to_owned();
    let start = Arc::new(move || -> Work<'static, _> { Box::pin(serve(theirs.clone())) });
    Seat::open(Settings::new(root, name, start)).unwrap()
}

/// Adds events one after the other, until told to end.
async fn load(seat: Arc<Seat>, who: String, with_keys: bool, ends: watch::Receiver<bool>) {
    for number in 0_u64.. {
        if *ends.borrow() {
            return;
        }
        let key = format!("{who}-{number:0>20}");
        let call = Call {
            method: "add".to_owned(),
            params: json!({"plan": "shared", "who": who, "n": number}),
            once: with_keys.then(|| OnceKey::parse(&key).unwrap()),
        };
        match seat.call(call).await {
            Ok(_) => println!("ack {who} {number}"),
            Err(CallError::MaybeDone) if !with_keys => println!("maybe {who} {number}"),
            Err(error) => {
                println!("error {who} {number} {error}");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
}

/// Waits for the end of the input.
async fn told_to_end() {
    let input = || std::io::stdin().read_to_end(&mut Vec::new());
    tokio::task::spawn_blocking(input).await.unwrap().unwrap();
}

#[tokio::main]
async fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let root = PathBuf::from(&words[1]);
    match words[0].as_str() {
        "load" => {
            let seat = Arc::new(seat(&root, &words[2]));
            let (end, ends) = watch::channel(false);
            let mut work = tokio::task::JoinSet::new();
            for with_keys in [true, false] {
                let who = format!("{}-{with_keys}", words[2]);
                work.spawn(load(Arc::clone(&seat), who, with_keys, ends.clone()));
            }
            told_to_end().await;
            end.send_replace(true);
            work.join_all().await;
            seat.end().await;
        }
        // Hands over when its input ends.
        "hand" => {
            let seat = seat(&root, "hand");
            seat.until(|role| matches!(role, Role::Holds(_) | Role::Follows(_)))
                .await;
            println!("ready");
            told_to_end().await;
            let to = HandOver {
                program: words
                    .get(2)
                    .map_or_else(|| std::env::current_exe().unwrap(), PathBuf::from),
                arguments: vec![
                    words.get(3).map_or("background", String::as_str).into(),
                    root.clone().into(),
                    "1000".into(),
                ],
                directory: "/".into(),
            };
            match seat.hand_over(to).await {
                Ok(is_handed) => println!("handed {is_handed}"),
                Err(error) => println!("error {error}"),
            }
            println!("role {:?}", seat.role());
            seat.end().await;
        }
        "background" => {
            orchestra_process::leave_session();
            let seat = seat(&root, "background");
            let quiet = Duration::from_millis(words[2].parse().unwrap());
            seat.end_when_idle(quiet).await;
        }
        // Follows, and cannot hold.
        "unable" => {
            orchestra_process::leave_session();
            let start = Arc::new(|| -> Work<'static, Result<Served, String>> {
                Box::pin(async { Err("it cannot begin".to_owned()) })
            });
            let seat = Seat::open(Settings::new(&root, "unable", start)).unwrap();
            seat.until(|role| matches!(role, Role::Failed(_))).await;
            seat.end().await;
        }
        "slot" => {
            let slots = Slots::new(&root, "shell", words[2].parse().unwrap()).unwrap();
            let slot = slots.acquire().await.unwrap();
            println!("slot {}", slot.number());
            if words.get(3).is_some_and(|word| word == "child") {
                let file = slot.file().try_clone().unwrap();
                #[expect(clippy::zombie_processes, reason = "a test ends it")]
                let child = std::process::Command::new(std::env::current_exe().unwrap())
                    .args(["wait", "."])
                    .stdout(file)
                    .spawn()
                    .unwrap();
                println!("child {}", child.id());
            }
            told_to_end().await;
        }
        "wait" => told_to_end().await,
        other => panic!("{other}?"),
    }
}
