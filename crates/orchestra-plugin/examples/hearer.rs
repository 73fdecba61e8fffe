//! A plugin that hears of events, of some of them slowly: each waits until the tool `release` lets
//! it go on. What it has heard when it ends it writes into a file.

use std::{
    process::ExitCode,
    sync::{Mutex, PoisonError},
};

use orchestra_plugin::kit::{Cx, Event, Plugin, ToolError, tool};
use tokio::sync::Semaphore;

/// What calls and events share.
struct Shared {
    heard: Mutex<Vec<String>>,
    permits: Semaphore,
}

impl Shared {
    fn hear(&self, event: &Event) {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.push(format!("{} {}", event.topic, event.payload["n"]));
    }

    fn lines(&self) -> String {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.join("\n")
    }
}

/// Lets so many slow events go on.
#[tool]
async fn release(count: usize, cx: Cx) -> Result<String, ToolError> {
    cx.state::<Shared>()?.permits.add_permits(count);
    Ok("released".to_owned())
}

/// Says which events it has heard.
#[tool]
async fn heard(cx: Cx) -> Result<String, ToolError> {
    Ok(cx.state::<Shared>()?.lines())
}

async fn slowly(event: Event, cx: Cx) {
    let Ok(shared) = cx.state::<Shared>() else {
        return;
    };
    let waited = tokio::select! {
        permit = shared.permits.acquire() => permit.map(|permit| permit.forget()).is_ok(),
        () = cx.cancelled() => false,
    };
    if waited {
        shared.hear(&event);
    }
}

fn main() -> ExitCode {
    let shared = Shared {
        heard: Mutex::default(),
        permits: Semaphore::new(0),
    };
    Plugin::new("tools.sample", env!("CARGO_PKG_VERSION"))
        .flag("end-file", "", "a file to write when the plugin ends")
        .state(shared)
        .tool(release::tool())
        .tool(heard::tool())
        .on_event("slow", slowly)
        .on_event("quick", |event, cx| async move {
            if let Ok(shared) = cx.state::<Shared>() {
                shared.hear(&event);
            }
        })
        .on_event("bad", |_event, _cx| async {
            panic!("it panicked, as it was told to")
        })
        .on_shutdown(|cx| async move {
            match cx.flag("end-file") {
                None | Some("") => Ok(()),
                Some(path) => Ok(std::fs::write(path, cx.state::<Shared>()?.lines())?),
            }
        })
        .run()
}
