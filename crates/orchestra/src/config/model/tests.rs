//! Who may say what of models.

use orchestra_memory::model::{Api, Choice};

use super::{
    super::file,
    details::{OLLAMA, OPENAI},
    named::{Named, named},
    *,
};

const NEAR: &str = "/w/orchestra.toml";
const OWN: &str = "/home/me/.config/orchestra/orchestra.toml";

/// What two files, of the workspace and the user's own, come to.
fn wish(near: &str, own: &str) -> Wish {
    let file = |path: &str, text: &str| {
        let mut file = file::parse(&format!("[memory]\n{text}")).unwrap();
        file.memory.resolve(Path::new(path).parent().unwrap());
        (PathBuf::from(path), file)
    };
    let files = [file(NEAR, near), file(OWN, own)];
    // Without the environment, which a test shares with others.
    ModelSettings::of_files(Path::new(NEAR), &files).wish
}

fn server(wish: &Wish) -> (&str, Option<&str>) {
    match wish {
        Wish::Model(Choice::Server(options)) => (&options.url, options.key.as_deref()),
        other => panic!("{other:?}"),
    }
}

fn refused(wish: &Wish) -> &str {
    match wish {
        Wish::Refused(why) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_workspace_sends_what_is_remembered_nowhere() {
    for hostile in [
        "model = \"openai:x\"",
        "model = \"openai:x\"\nmodel_url = \"https://example.org/v1\"",
        "model = \"ollama:x\"\nmodel_url = \"http://10.0.0.1:11434\"",
        "model = \"ollama:x\"\nmodel_url = \"http://localhost.example.org\"",
        "model = \"ollama:x\"\nmodel_url = \"no address\"",
    ] {
        let found = wish(hostile, "");
        let why = refused(&found);
        assert!(why.contains("ignored, because other people"), "{why}");
        assert!(
            why.contains(NEAR) && why.contains("ORCHESTRA_MODEL"),
            "{why}"
        );
        // What the user says of their own goes on.
        let own = wish(
            hostile,
            "model = \"ollama:mine\"\nmodel_url = \"https://mine.example\"",
        );
        assert_eq!(server(&own), ("https://mine.example", None));
    }
    let here = wish("model = \"ollama:x\"", "model = \"openai:mine\"");
    assert_eq!(server(&here), (OLLAMA, None));
    let here = wish(
        "model = \"openai:x\"\nmodel_url = \"http://[::1]:8080/v1\"",
        "",
    );
    assert_eq!(server(&here), ("http://[::1]:8080/v1", None));
}

#[test]
fn a_workspace_gets_no_key() {
    let own = "model = \"openai:mine\"\nmodel_key_env = \"PATH\"";
    assert_eq!(
        server(&wish("", own)).1,
        std::env::var("PATH").ok().as_deref()
    );
    // Neither its own nor the user's.
    let near = "model = \"openai:x\"\nmodel_url = \"http://127.0.0.1:1\"";
    assert_eq!(server(&wish(near, own)), ("http://127.0.0.1:1", None));
    let found = wish(&format!("{near}\nmodel_key_env = \"PATH\""), "");
    assert!(refused(&found).contains("the environment variable"));
    // Without a model of its own it changes nothing.
    let near = "model_key_env = \"HOME\"\nmodel_url = \"https://example.org\"";
    assert_eq!(server(&wish(near, own)).0, OPENAI);
    let unset = "model = \"openai:x\"\nmodel_key_env = \"ORCHESTRA_TEST_UNSET\"";
    assert!(refused(&wish("", unset)).contains("ORCHESTRA_TEST_UNSET is not set"));
}

#[test]
fn a_key_is_never_written_down() {
    let found = file::parse("[memory]\nmodel_key_env = \"sk-secret\"").unwrap_err();
    let text = found.to_string();
    assert!(
        text.contains("memory.model_key_env") && !text.contains("secret"),
        "{text}"
    );
    for url in [
        "https://me:secret@example.org",
        "https://example.org/v1?key=secret",
    ] {
        let found = file::parse(&format!("[memory]\nmodel_url = {url:?}")).unwrap_err();
        let text = found.to_string();
        assert!(
            text.contains("memory.model_url") && !text.contains("secret"),
            "{text}"
        );
    }
    let own = wish("", "model = \"openai:x\"\nmodel_key_env = \"PATH\"");
    let path = std::env::var("PATH").unwrap();
    assert!(!format!("{own:?}").contains(&path));
}

#[test]
fn a_model_is_named_or_lies_somewhere() {
    for (text, expected) in [
        ("none", Some(Named::Nothing)),
        ("potion", Some(Named::Installed("potion".to_owned()))),
        ("./m", Some(Named::At("./m".into()))),
        (
            "ollama:a/b:c",
            Some(Named::Server(Api::Ollama, "a/b:c".to_owned())),
        ),
        ("openai:", None),
        ("..", None),
        ("a b", None),
        ("a\0", None),
    ] {
        assert_eq!(named(text), expected, "{text}");
    }
    let Wish::Model(Choice::Directory { path, .. }) = wish("model = \"./m\"", "") else {
        panic!("no directory");
    };
    assert_eq!(path, Path::new("/w/./m"));
    let missing = wish("model = \"no-such-model-here\"", "");
    let Wish::Unknown(why) = missing else {
        panic!("{missing:?}");
    };
    assert!(why.contains("memory model install"), "{why}");
    assert_eq!(
        wish("model = \"none\"", "model = \"ollama:x\""),
        Wish::Nothing
    );
}
