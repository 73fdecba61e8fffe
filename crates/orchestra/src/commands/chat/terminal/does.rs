//! What the commands within a conversation do.

use std::{fs, path::Path};

use orchestra_chat::{Message, Nature, session::Session};
use orchestra_fs::Access;

use super::{
    super::{
        export::markdown,
        files::{self, Keep},
        model::Source,
        remember,
        talk::Conversation,
    },
    Opening,
    commands::{self, Command},
};

/// Letters of what was said that are shown of each message.
const SAID_CHARS: usize = 400;

/// Conversations that are listed.
const LISTED: usize = 20;

/// Does what a command wants; what is told of it.
///
/// # Errors
/// Why it cannot be done.
pub(super) async fn what(
    conversation: &mut Conversation<'_>,
    opening: &mut Option<Opening>,
    command: Command,
) -> Result<String, String> {
    match command {
        Command::Help => Ok(commands::help()),
        Command::Tools(words) => Ok(tools(conversation, words.as_deref())),
        Command::Servers => Ok(servers(conversation)),
        Command::Enable(name) => switch(conversation, &name, true),
        Command::Disable(name) => switch(conversation, &name, false),
        Command::Model(None) => models(&conversation.source, conversation).await,
        Command::Model(Some(name)) => {
            let source = conversation.source.with(&name);
            let model = source.open().await.map_err(|no_model| no_model.words())?;
            *opening = None;
            conversation.source = source;
            conversation.take(model);
            Ok(format!("using model {name} from now on"))
        }
        Command::System(None) => Ok(conversation.chat.settings().system.clone()),
        Command::System(Some(text)) => {
            conversation.tell(&text);
            Ok(String::new())
        }
        Command::History => Ok(history(conversation)),
        Command::Save(None) => conversation.path().map_or_else(
            || Err("this conversation is not stored yet".to_owned()),
            |path| Ok(path.display().to_string()),
        ),
        Command::Save(Some(file)) => save(conversation, Path::new(&file)),
        Command::Load(None) => loadable(conversation),
        Command::Load(Some(name)) => load(conversation, &name),
        Command::Branch(turns) => branch(conversation, turns),
        Command::Export(file) => export(conversation, file.as_deref()),
        Command::Remember { project, text } => {
            remember::turn(conversation, &project, text.as_deref()).await?;
            Ok(format!("remembered in {project}"))
        }
        Command::Trace => Ok(match conversation.room.trace() {
            true => "the messages of servers are shown".to_owned(),
            false => "the messages of servers are hidden".to_owned(),
        }),
        Command::Clear => {
            conversation.clear();
            Ok("another conversation begins".to_owned())
        }
        Command::Quit => Ok(String::new()),
    }
}

fn tools(conversation: &Conversation<'_>, words: Option<&str>) -> String {
    let tools = conversation.room.now();
    let found: Vec<_> = match words {
        Some(words) => tools.ranked(words).into_iter().take(20).cloned().collect(),
        None => tools.all().to_vec(),
    };
    let mut text = String::new();
    for tool in &found {
        let reads = match tool.nature() {
            Nature::Reads => "",
            Nature::Changes => " (asks)",
        };
        text.push_str(&format!("{}{reads}: {}\n", tool.name(), tool.description()));
    }
    let off = conversation.room.off();
    if !off.is_empty() {
        text.push_str(&format!("switched off: {}\n", off.join(", ")));
    }
    match found.len() {
        0 if words.is_some() => "no tool matches\n".to_owned() + &text,
        many => format!("{text}{many} of {} tools\n", tools.all().len()),
    }
}

fn servers(conversation: &Conversation<'_>) -> String {
    let peers = conversation.room.peers();
    if peers.is_empty() {
        return "there are no servers; `orchestra mcp add` adds one".to_owned();
    }
    let lines = peers.into_iter().map(|(name, peer)| {
        let why = peer
            .reason
            .map(|why| format!(": {why}"))
            .unwrap_or_default();
        let calls = peer.calls.answered + peer.calls.refused + peer.calls.failed;
        let calls = match calls {
            0 => String::new(),
            calls => format!(
                ", {calls} calls, {:.1} ms each",
                peer.latency.mean.as_secs_f64() * 1e3
            ),
        };
        format!("{name}: {}{calls}{why}\n", peer.status.as_str())
    });
    lines.collect()
}

fn switch(conversation: &Conversation<'_>, name: &str, is_on: bool) -> Result<String, String> {
    let word = if is_on { "on" } else { "off" };
    match conversation.room.switch(name, is_on) {
        None => Err(format!(
            "there is no server or tool `{name}`; /servers and /tools list them"
        )),
        Some(true) => Ok(format!("{name} is switched {word}")),
        Some(false) => Ok(format!("{name} was {word} already")),
    }
}

async fn models(source: &Source, conversation: &Conversation<'_>) -> Result<String, String> {
    let models = source.models().await.map_err(|no_model| no_model.words())?;
    let own = conversation
        .model
        .as_ref()
        .map(|model| model.backend.model().to_owned());
    let own = own.or_else(|| source.named().map(str::to_owned));
    let lines = models.iter().map(|model| {
        let mark = if own.as_ref() == Some(model) {
            "* "
        } else {
            "  "
        };
        format!("{mark}{model}\n")
    });
    Ok(lines.collect())
}

fn history(conversation: &Conversation<'_>) -> String {
    let mut text = String::new();
    for message in conversation.chat.messages() {
        let said = orchestra_chat::capped(message.text(), SAID_CHARS);
        match message {
            Message::System(_) => {}
            Message::User(_) => text.push_str(&format!("you: {said}\n")),
            Message::Assistant { calls, .. } => {
                if !said.trim().is_empty() {
                    text.push_str(&format!("model: {said}\n"));
                }
                for call in calls {
                    let arguments = serde_json::to_string(&call.arguments).unwrap_or_default();
                    text.push_str(&format!("call: {} {arguments}\n", call.tool));
                }
            }
            Message::Tool(answer) => text.push_str(&format!("{}: {said}\n", answer.tool)),
        }
    }
    if text.is_empty() {
        return "the conversation is empty".to_owned();
    }
    text
}

fn save(conversation: &Conversation<'_>, file: &Path) -> Result<String, String> {
    let path = match (conversation.path(), conversation.directory()) {
        (Some(path), _) => path,
        (None, Some(_)) => return Err("there is nothing to save yet".to_owned()),
        (None, None) => {
            return Err(
                "this conversation is not stored; `/export FILE` writes it as Markdown".to_owned(),
            );
        }
    };
    let text = fs::read(path).map_err(|error| error.to_string())?;
    write_new(file, &text)?;
    Ok(format!("written to {}", file.display()))
}

fn loadable(conversation: &Conversation<'_>) -> Result<String, String> {
    let directory = conversation.directory().ok_or_else(nothing_kept)?;
    let all = files::all(directory);
    let lines = all.iter().take(LISTED).filter_map(|path| {
        let session = Session::read(path).ok()?;
        let title = session.title();
        let title = title.lines().next().unwrap_or_default();
        let turns = files::turns(session.turns());
        Some(format!("{}  {turns}  {title}\n", files::name(path)))
    });
    let lines: String = lines.collect();
    Ok(match all.len() {
        0 => "no conversation is stored here yet".to_owned(),
        many if many > LISTED => format!("{lines}the last {LISTED} of {many}"),
        _ => lines,
    })
}

fn nothing_kept() -> String {
    "conversations are not stored here".to_owned()
}

fn load(conversation: &mut Conversation<'_>, name: &str) -> Result<String, String> {
    let directory = conversation
        .directory()
        .ok_or_else(nothing_kept)?
        .to_owned();
    let path = files::find(&directory, name).map_err(|failure| failure.text())?;
    let keep = Keep::old(&path, directory).map_err(|failure| failure.text())?;
    conversation.go_on(keep);
    Ok(format!(
        "continuing {}, after {}",
        path.display(),
        files::turns(conversation.turns())
    ))
}

fn branch(conversation: &mut Conversation<'_>, turns: Option<usize>) -> Result<String, String> {
    let path = conversation
        .path()
        .ok_or_else(|| "there is nothing to branch from yet".to_owned())?;
    let session = Session::read(path).map_err(|error| error.to_string())?;
    let turns = turns.unwrap_or_else(|| session.turns());
    if turns > session.turns() {
        return Err(format!("it has {}", files::turns(session.turns())));
    }
    conversation.branch(&session, turns)?;
    Ok(format!(
        "another conversation begins with {} of this one",
        files::turns(turns)
    ))
}

fn export(conversation: &Conversation<'_>, file: Option<&str>) -> Result<String, String> {
    let path = conversation
        .path()
        .ok_or_else(|| "there is nothing to export yet".to_owned())?;
    let session = Session::read(path).map_err(|error| error.to_string())?;
    let text = markdown(&session);
    let Some(file) = file else {
        return Ok(text);
    };
    write_new(Path::new(file), text.as_bytes())?;
    Ok(format!("written to {file}"))
}

/// Writes a file that is not there yet, which is its user's alone as the conversation is.
fn write_new(file: &Path, text: &[u8]) -> Result<(), String> {
    let written = orchestra_fs::create_new(file, Access::Private)
        .map_err(orchestra_fs::Error::into_cause)
        .and_then(|mut file| std::io::Write::write_all(&mut file, text));
    written.map_err(|error| format!("{} cannot be written: {error}", file.display()))
}
