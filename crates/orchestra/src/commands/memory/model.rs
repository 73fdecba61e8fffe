//! `orchestra memory model`: the models that find by meaning.

use std::{ffi::OsString, path::Path};

use clap::{Args, Subcommand};
use orchestra_memory::{
    engine::{Standing, standing as ask_standing},
    model::{Choice, Wish},
};
use serde_json::{Value, json};

use crate::{
    board,
    cli::examples,
    commands::{
        engine::{self, MODEL_CHECK, MODEL_INSTALL},
        table,
    },
    config::{self, Config, Origin},
    env::Variable,
    exit::{Exit, Failure},
    models::{self, Shelf, kind_name},
    output::{self, Format, in_a_line, size},
    serving,
    workspace::{self, run_directory},
};

/// Install and choose the model for search by meaning
///
/// Without a model, a search compares words. An installed model runs on this machine. `use ollama:NAME` and
/// `use openai:NAME` choose the model of a server instead.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Install a model from a directory, an archive or a hub
    ///
    /// A model consists of tokenizer.json and model.safetensors (a table in model2vec format) or model.onnx (a
    /// network). If two packages hold these files, name both.
    #[command(after_help = examples(&[
        "memory model install minishlab/potion-base-8M",
        "memory model install ./potion --name potion",
    ]))]
    Install {
        /// Directory, archive (.zip, .whl, .tar, .tar.gz) or name of a model on a hub, such as
        /// minishlab/potion-base-8M
        #[arg(required = true)]
        source: Vec<String>,
        /// Name of the installed model [default: name of its source]
        #[arg(long)]
        name: Option<String>,
    },
    /// List the installed models
    #[command(after_help = examples(&["memory model list"]))]
    List,
    /// Choose the model for search by meaning
    #[command(after_help = examples(&[
        "memory model use potion-base-8M",
        "memory model use ollama:nomic-embed-text",
        "memory model use none",
    ]))]
    Use {
        /// Name of an installed model, its directory, ollama:NAME or openai:NAME for a model on a server, or none
        /// to turn search by meaning off
        name: String,
        /// Whose configuration file to change [default: user, or workspace if its file already names a model]
        #[arg(long)]
        scope: Option<Scope>,
    },
    /// Remove an installed model
    #[command(after_help = examples(&["memory model remove potion"]))]
    Remove {
        /// Name of the model
        name: String,
    },
    /// Show which model is in use, and how much of the memory it has indexed
    #[command(after_help = examples(&["memory model show"]))]
    Show,
}

/// Owner of a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Scope {
    /// orchestra.toml in your configuration directory, for every workspace
    User,
    /// orchestra.toml of the workspace, for all its users
    Workspace,
}

/// Does what is asked.
///
/// # Errors
/// When that is refused.
pub(super) fn run(config: &Config, arguments: Arguments, format: Format) -> Result<Exit, Failure> {
    match arguments.command {
        Command::Install { source, name } => install(config, source, name, format),
        Command::List => list(config, format),
        Command::Use { name, scope } => choose(config, &name, scope, format),
        Command::Remove { name } => remove(config, &name, format),
        Command::Show => show(config, format),
    }
}

/// Has the engine install a model: only that program can open one.
fn install(
    config: &Config,
    sources: Vec<String>,
    name: Option<String>,
    format: Format,
) -> Result<Exit, Failure> {
    let mut words: Vec<OsString> = vec![MODEL_INSTALL.into()];
    if let Some(name) = name {
        words.extend(["--name".into(), name.into()]);
    }
    if format == Format::Json {
        words.push("--json".into());
    }
    words.push("--".into());
    words.extend(sources.into_iter().map(OsString::from));
    engine::become_it(&config.workspace, words)
}

fn list(config: &Config, format: Format) -> Result<Exit, Failure> {
    let used = used(config);
    let items: Vec<Value> = models::list()
        .into_iter()
        .map(|about| {
            let mut item = json!(about);
            item["in_use"] = (Some(&about.name) == used.as_ref()).into();
            item
        })
        .collect();
    let answer = json!({"total": items.len(), "items": items});
    format.print(&answer, |_| {
        if items.is_empty() {
            return "no model is installed; `orchestra memory model install minishlab/potion-base-8M` downloads a small one\n"
                .to_owned();
        }
        let text = |item: &Value, key: &str| item[key].as_str().unwrap_or_default().to_owned();
        let rows: Vec<Vec<String>> = items
            .iter()
            .map(|item| {
                vec![
                    text(item, "name"),
                    text(item, "kind"),
                    item["dimensions"].to_string(),
                    size(item["bytes"].as_u64().unwrap_or_default()),
                    text(item, "source"),
                    if item["in_use"] == true { "in use" } else { "" }.to_owned(),
                ]
            })
            .collect();
        table::lines(&["NAME", "KIND", "DIMENSIONS", "SIZE", "SOURCE", ""], &rows)
    })?;
    Ok(Exit::Ok)
}

/// The installed model that is in use.
fn used(config: &Config) -> Option<String> {
    match config.memory.model.wish() {
        Wish::Model(Choice::Directory { name, path }) => (Some(path.as_path())
            == models::directory().map(|all| all.join(name)).as_deref())
        .then(|| name.clone()),
        _ => None,
    }
}

fn choose(
    config: &Config,
    name: &str,
    scope: Option<Scope>,
    format: Format,
) -> Result<Exit, Failure> {
    let near = config.workspace.join(config::FILE);
    let is_near = *config.memory.model.origin() == Origin::File(near);
    let scope = scope.unwrap_or(if is_near {
        Scope::Workspace
    } else {
        Scope::User
    });
    let directory = match scope {
        Scope::Workspace if !is_near && !workspace::is_marked(&config.workspace) => {
            return Err(Failure::refused(format!(
                "{} is not a workspace: it has neither .projects nor .git; `orchestra init` creates one, --workspace names another directory",
                config.workspace.display()
            )));
        }
        Scope::Workspace => config.workspace.clone(),
        Scope::User => config::user_directory().ok_or_else(|| {
            Failure::usage_text(
                "set HOME or XDG_CONFIG_HOME, which determine the location of your orchestra.toml",
            )
        })?,
    };
    let name = placed(&config.workspace, name)?;
    if let Some(why) = Config::refused_model(&config.workspace, &directory, &name)? {
        return Err(Failure::refused(why));
    }
    let path = config::set_memory(&config.workspace, &directory, "model", &name)?;
    let answer = json!({"model": name, "file": path.to_string_lossy()});
    format.print(&answer, |_| {
        let (name, path) = (in_a_line(&name), path.display());
        match name.as_str() {
            config::NO_MODEL => format!("{path}: memories are found by their words alone\n"),
            name => format!("{path}: memories are found by {name} as well\n"),
        }
    })?;
    if let Some(set) = Variable::Model.read() {
        let set = set.to_string_lossy();
        output::complain(&format!(
            "{} is {}, which has precedence",
            Variable::Model,
            in_a_line(&set)
        ));
    } else if scope == Scope::User && is_near {
        output::complain(
            "orchestra.toml of the workspace names a model, which has precedence there",
        );
    }
    Ok(Exit::Ok)
}

/// The name as a file says it: a directory is told from where we stand.
fn placed(workspace: &Path, name: &str) -> Result<String, Failure> {
    let is_server = name.starts_with("ollama:") || name.starts_with("openai:");
    if is_server || !name.contains('/') {
        return Ok(name.to_owned());
    }
    let path = std::path::absolute(Path::new(name))?;
    if !path.is_dir() {
        return Err(Failure::refused(format!(
            "{}: there is no such directory; a model of a hub is installed first: `orchestra memory model \
             install {}`",
            path.display(),
            in_a_line(name)
        )));
    }
    // What cannot be opened would fail each time that it is wanted.
    engine::ask(workspace, &[MODEL_CHECK.as_ref(), path.as_os_str()])
        .map_err(|failure| failure.context(format!("{} is not used", path.display())))?;
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Failure::usage_text("the path of the model is not UTF-8 text"))
}

fn remove(config: &Config, name: &str, format: Format) -> Result<Exit, Failure> {
    if used(config).as_deref() == Some(name) {
        return Err(Failure::refused(format!(
            "{name} is in use; `orchestra memory model use none`, or another, comes first"
        )));
    }
    Shelf::open()?.remove(name)?;
    format.print(&json!({"removed": name}), |_| {
        format!("{name} is removed\n")
    })?;
    Ok(Exit::Ok)
}

fn show(config: &Config, format: Format) -> Result<Exit, Failure> {
    config.memory.overreach().for_each(output::complain);
    let answer = standing(config)?;
    format.print(&answer, shown)?;
    Ok(Exit::Ok)
}

/// What is configured, and how the engine is with it, if one runs.
pub(super) fn standing(config: &Config) -> Result<Value, Failure> {
    let run = run_directory(config)?;
    let model = &config.memory.model;
    let engine = serving::runtime()?.block_on(ask_standing(&board::seat(config), &run));
    let trouble = match model.wish() {
        Wish::Refused(why) | Wish::Unknown(why) => Some(why.clone()),
        Wish::Nothing | Wish::Model(_) => None,
    };
    // An engine that runs takes up another wish in its own time.
    let wanted = match model.wish() {
        Wish::Model(choice) => Some(choice.name()),
        Wish::Nothing => Some(String::new()),
        Wish::Refused(_) | Wish::Unknown(_) => None,
    };
    Ok(json!({
        "model": model.text(), "origin": model.origin().to_string(), "trouble": trouble,
        "engine": engine.map(|standing| of_engine(standing, wanted)),
    }))
}

/// How an engine is with its model; `awaits` is another one that is wanted and that it knows nothing of.
fn of_engine(standing: Standing, wanted: Option<String>) -> Value {
    let known = standing
        .next
        .as_ref()
        .map_or(&standing.model, |(next, _)| next);
    let awaits = wanted.filter(|wanted| wanted != known);
    let awaits = awaits.map(|name| match name.as_str() {
        "" => config::NO_MODEL.to_owned(),
        _ => name,
    });
    let next = standing
        .next
        .map(|(model, vectors)| json!({"model": model, "vectors": vectors}));
    json!({
        "model": standing.model, "kind": standing.kind.map(kind_name), "vectors": standing.vectors,
        "wanted": standing.wanted, "next": next, "phase": standing.phase, "trouble": standing.trouble,
        "awaits": awaits,
    })
}

/// The model for people.
pub(super) fn shown(answer: &Value) -> String {
    let text = |value: &Value| in_a_line(value.as_str().unwrap_or_default());
    let mut shown = format!(
        "model: {} ({})\n",
        text(&answer["model"]),
        text(&answer["origin"])
    );
    if answer["model"] == config::NO_MODEL && answer["trouble"].is_null() {
        shown.push_str(
            "memories are found by their words; `orchestra memory model list` shows the models that may \
             find them by their meaning as well\n",
        );
    }
    let engine = &answer["engine"];
    if engine.is_null() {
        shown.push_str("engine: none runs\n");
    } else if text(&engine["model"]).is_empty() {
        shown.push_str("engine: runs without a model\n");
    } else {
        let (vectors, wanted) = (&engine["vectors"], &engine["wanted"]);
        let name = text(&engine["model"]);
        shown.push_str(&format!(
            "engine: {}, {vectors} of {wanted} memories and sessions have a vector of {name}\n",
            text(&engine["phase"])
        ));
        if let Some(next) = engine["next"].as_object() {
            let (model, seen) = (text(&next["model"]), &next["vectors"]);
            shown.push_str(&format!("next: {model} has seen {seen} of {wanted}\n"));
        }
    }
    if let Some(awaited) = engine["awaits"].as_str() {
        shown.push_str(&format!(
            "next: {} is wanted; the engine takes it up within seconds, unless it was started with \
             --model\n",
            in_a_line(awaited)
        ));
    }
    for trouble in [&answer["trouble"], &engine["trouble"]] {
        if let Some(trouble) = trouble.as_str() {
            shown.push_str(&format!("trouble: {}\n", in_a_line(trouble)));
            break;
        }
    }
    shown
}
