//! `orchestra memory model install`: takes the files of a model from a directory, an archive or a hub,
//! opens it, and puts it among the models of the user.

mod archive;
mod parts;
mod source;

use orchestra::engine::{
    About, Exit, Failure, Format, InstallModel, Shelf, in_a_line, is_name, kind_name, size, spinner,
};
use serde_json::json;

use parts::Parts;
use source::Source;

/// Installs a model.
///
/// # Errors
/// When a name is none, there is one of that name, or no model in the sources.
pub(crate) fn run(command: InstallModel) -> Result<Exit, Failure> {
    let sources: Vec<Source> = command
        .source
        .iter()
        .map(|text| Source::parse(text))
        .collect::<Result<_, _>>()?;
    let usual = || sources.first().and_then(Source::usual_name);
    let name = command
        .name
        .or_else(usual)
        .filter(|name| is_name(name))
        .ok_or_else(|| {
            Failure::usage_text(
                "a model's name has up to 64 letters, digits, dots, dashes and underscores, and begins with \
                 a letter or digit, and none stands for no model; give it one with --name",
            )
        })?;
    let shelf = Shelf::open()?;
    let bar = spinner("installing");
    let mut watch = |what: &str, bytes: u64, length: Option<u64>| {
        let of = length.map(|length| format!(" of {}", size(length)));
        let so_far = (bytes > 0).then(|| format!(" {}{}", size(bytes), of.unwrap_or_default()));
        let so_far = so_far.unwrap_or_default();
        bar.set_message(format!("{}{so_far}", in_a_line(what)));
    };
    let installed = shelf.install(&name, |staging, made| {
        let mut parts = Parts::new(staging);
        for source in &sources {
            source.take(&mut parts, &mut watch)?;
        }
        let shown: Vec<String> = sources.iter().map(Source::shown).collect();
        let sound = parts.assemble(made, &shown.join(" and "))?;
        Ok(About {
            kind: kind_name(sound.kind).to_owned(),
            dimensions: sound.dimensions,
            bytes: sound.bytes,
            source: shown.join(" "),
            ..About::default()
        })
    });
    bar.finish_and_clear();
    let about = installed?;
    Format::of_flag(command.json).print(&json!(about), |_| {
        let About { kind, dimensions, .. } = &about;
        format!(
            "{name} is installed: {kind}, {dimensions} dimensions, {}; `orchestra memory model use {name}` \
             finds by it\n",
            size(about.bytes)
        )
    })?;
    Ok(Exit::Ok)
}
