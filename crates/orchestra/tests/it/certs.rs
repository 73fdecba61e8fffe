//! `orchestra certs`: the authority and its certificates, through the program.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use insta::assert_snapshot;
use serde_json::Value;

use crate::support::{Said, Workspace};

fn json(said: &Said) -> Value {
    assert_eq!(said.code, Some(0), "{said:?}");
    serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {said:?}"))
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// A text without what differs from run to run.
fn settled(workspace: &Workspace, text: &str) -> String {
    let home = workspace.home().canonicalize().unwrap();
    let text = text.replace(&home.display().to_string(), "~");
    let day = |word: &str| word.len() == 10 && word.split('-').count() == 3;
    let sum = |word: &str| word.ends_with('…');
    let lines = text.lines().map(|line| {
        let words = line
            .split(' ')
            .map(|word| match word.trim_end_matches(':') {
                bare if day(bare) => match word.strip_prefix(bare) {
                    Some(":") => "DAY:",
                    _ => "DAY",
                },
                word if sum(word) => "SUM",
                _ => word,
            });
        words.collect::<Vec<_>>().join(" ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn an_authority_is_founded_once_and_says_what_is_there() {
    let workspace = Workspace::new();
    let first = workspace.run(["certs", "init"]);
    assert_eq!(first.code, Some(0), "{first:?}");
    assert_snapshot!(settled(&workspace, &first.out), @r"
    ~/.orchestra/certs: authority founded
    NAME  ROLE       ISSUER  UNTIL       STATE  SHA-256
    ca    authority  ca      DAY  valid  SUM
    programs of this user create their certificates themselves; `orchestra certs issue NAME --out DIR` creates one for another user or machine
    ");
    let directory = workspace.home().join(".orchestra/certs");
    assert_eq!(mode(&directory), 0o700);
    for file in ["ca.crt", "ca.key"] {
        assert_eq!(mode(&directory.join(file)), 0o600, "{file}");
    }
    let before = fs::read(directory.join("ca.crt")).unwrap();
    let again = json(&workspace.run(["certs", "init", "--json"]));
    assert_eq!(again["authority"], "there already");
    assert_eq!(fs::read(directory.join("ca.crt")).unwrap(), before);
}

#[test]
fn who_only_looks_makes_nothing_and_is_told_what_to_do() {
    let workspace = Workspace::new();
    for arguments in [
        &["certs", "show"][..],
        &["certs", "rotate"],
        &["certs", "issue", "tools.a"],
    ] {
        let said = workspace.run(arguments);
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(
            said.err.contains("`orchestra certs init` creates one"),
            "{said:?}"
        );
    }
    assert!(!workspace.home().join(".orchestra").exists());
    let homeless = {
        let mut command = workspace.command(["certs", "show"]);
        command.env_remove("HOME");
        crate::support::said(command, "")
    };
    assert_eq!(homeless.code, Some(2), "{homeless:?}");
    assert!(homeless.err.contains("--certs-dir"), "{homeless:?}");
}

#[test]
fn leaves_are_issued_shown_and_handed_out_without_the_key_of_the_authority() {
    let workspace = Workspace::new();
    let place = workspace.join("certs").display().to_string();
    let run = |arguments: &[&str]| {
        let flag = ["--certs-dir", place.as_str()];
        workspace.run(["certs"].iter().chain(arguments).chain(&flag))
    };
    assert_eq!(run(&["init"]).code, Some(0));
    let out = workspace.join("given").display().to_string();
    let issued = run(&["issue", "tools.a", "tools.a-client", "--out", &out]);
    assert_eq!(issued.code, Some(0), "{issued:?}");
    assert_eq!(issued.out.matches(": issued, until 2").count(), 2);
    let given = workspace.join("given");
    assert_eq!(mode(&given), 0o700);
    assert!(given.join("ca.crt").is_file() && !given.join("ca.key").exists());
    for file in ["tools.a.key", "tools.a.crt", "tools.a-client.key"] {
        assert_eq!(mode(&given.join(file)), 0o600, "{file}");
    }
    let listed = json(&run(&["show", "--json"]));
    let rows = listed["certificates"].as_array().unwrap();
    let names: Vec<_> = rows
        .iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["ca", "tools.a", "tools.a-client"]);
    for row in rows {
        assert_eq!(row["issuer"], "ca");
        assert_eq!(row["valid"], true);
        assert_eq!(row["renewal_due"], false);
        assert_eq!(row["fingerprint"].as_str().unwrap().len(), 95);
    }
    assert_eq!(rows[2]["role"], "tools.a towards the orchestrator");
    let one = run(&["show", "tools.a"]);
    assert!(
        one.out.contains("role         tools.a, as server"),
        "{one:?}"
    );
    for said in [&one, &run(&["show"]), &run(&["show", "--json"])] {
        assert!(!said.out.contains("PRIVATE") && !said.err.contains("PRIVATE"));
    }
    // What was given away signs nothing, and says where that is done.
    let given = given.display().to_string();
    let refused = workspace.run(["certs", "issue", "tools.b", "--certs-dir", &given]);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(
        refused
            .err
            .contains("certificates on the machine of the authority"),
        "{refused:?}"
    );
    let taken = run(&["issue", "tools.b", "--out", &place]);
    assert_eq!(taken.code, Some(3), "{taken:?}");
    assert!(taken.err.contains("name an empty directory"), "{taken:?}");
}

#[test]
fn names_that_are_none_are_refused_with_what_is_allowed() {
    let workspace = Workspace::new();
    assert_eq!(workspace.run(["certs", "init"]).code, Some(0));
    for (name, told) in [
        ("../x", "letters, digits, `.`, `_` and `-`"),
        (".x", "must not start with a dot"),
        ("", "1 to 80 characters"),
        ("a b", "letters, digits"),
    ] {
        let said = workspace.run(["certs", "issue", name]);
        assert_eq!(said.code, Some(2), "{name}: {said:?}");
        assert!(said.err.contains(told), "{name}: {said:?}");
    }
    // Nobody could show them: no plugin may have such an id.
    let long = "x".repeat(70);
    for (name, told) in [
        ("tools.2", "after the last dot is a number"),
        ("tools.2-client", "after the last dot is a number"),
        (long.as_str(), "1 to 64 characters"),
    ] {
        let said = workspace.run(["certs", "issue", "tools.a", name]);
        assert_eq!(said.code, Some(2), "{name}: {said:?}");
        assert!(said.err.contains(told), "{name}: {said:?}");
    }
    for name in [
        "orchestrator",
        "orchestrator-to-tools.c",
        "transport.stdio-client",
    ] {
        let said = workspace.run(["certs", "issue", name]);
        assert_eq!(said.code, Some(0), "{name}: {said:?}");
    }
    for name in ["ca", "CA", "Ca-Previous"] {
        let said = workspace.run(["certs", "issue", name]);
        assert_eq!(said.code, Some(3), "{said:?}");
        assert!(said.err.contains("the authority's files"), "{said:?}");
    }
    let said = workspace.run(["certs", "show", "tools.a"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.err.contains("there are ca"), "{said:?}");
}

#[test]
fn a_key_that_is_of_no_use_or_others_can_read_is_told_whoever_looks() {
    let workspace = Workspace::new();
    assert_eq!(workspace.run(["certs", "init"]).code, Some(0));
    let key = workspace.home().join(".orchestra/certs/ca.key");
    let told = |arguments: &[&str], expected: &str| {
        let said = workspace.run(arguments);
        assert!(said.out.contains(expected), "{arguments:?}: {said:?}");
    };
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    for arguments in [
        &["certs", "show"][..],
        &["certs", "show", "--json"],
        &["certs", "init"],
        &["certs", "issue", "tools.a"],
    ] {
        told(arguments, "ca.key: run `chmod 600` on it");
    }
    let listed = json(&workspace.run(["certs", "show", "--json"]));
    assert_eq!(listed["certificates"][0]["key_exposed"], true);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let said = workspace.run(["certs", "show"]);
    assert!(!said.out.contains("chmod"), "{said:?}");
    for (content, why) in [
        (Some("no key"), "ca.key is of no use"),
        (None, "there is no ca.key here"),
    ] {
        match content {
            Some(content) => fs::write(&key, content).unwrap(),
            None => fs::remove_file(&key).unwrap(),
        }
        for arguments in [&["certs", "show"][..], &["certs", "init"]] {
            told(arguments, "cannot sign certificates");
            told(arguments, why);
        }
    }
}

#[test]
fn a_rotation_overlaps_and_says_what_follows() {
    let workspace = Workspace::new();
    assert_eq!(workspace.run(["certs", "init"]).code, Some(0));
    assert_eq!(workspace.run(["certs", "issue", "tools.a"]).code, Some(0));
    let rotated = workspace.run(["certs", "rotate"]);
    assert_eq!(rotated.code, Some(0), "{rotated:?}");
    assert_snapshot!(settled(&workspace, &rotated.out), @r"
    ~/.orchestra/certs: authority rotated
    NAME         ROLE                                 ISSUER       UNTIL       STATE        SHA-256
    ca           authority                            ca           DAY  valid        SUM
    ca-cross     authority, signed by the one before  ca-previous  DAY  valid        SUM
    ca-previous  authority before, still trusted      ca-previous  DAY  valid        SUM
    tools.a      tools.a, as server                   ca-previous  DAY  renewal due  SUM
    the previous authority stays trusted until DAY: running programs continue, and certificates that it signed stay valid until then
    programs that can read ca.key renew their certificates when they start; issue certificates that were issued with --out again before the previous authority expires
    ");
    let listed = json(&workspace.run(["certs", "show", "--json"]));
    let rows = listed["certificates"].as_array().unwrap();
    let of = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap();
    assert_eq!(of("tools.a")["issuer"], "ca-previous");
    assert_eq!(of("tools.a")["renewal_due"], true);
    assert_eq!(of("ca-cross")["issuer"], "ca-previous");
    let notes = listed["notes"][0].as_str().unwrap();
    assert!(notes.contains("orchestra certs issue tools.a"), "{notes}");
    assert_eq!(workspace.run(["certs", "issue", "tools.a"]).code, Some(0));
    let listed = json(&workspace.run(["certs", "show", "tools.a", "--json"]));
    assert_eq!(listed["certificates"][0]["issuer"], "ca");
}

#[test]
fn a_rotation_at_once_trusts_nothing_that_was() {
    let workspace = Workspace::new();
    assert_eq!(workspace.run(["certs", "init"]).code, Some(0));
    let given = workspace.join("given").display().to_string();
    let issue = || workspace.run(["certs", "issue", "tools.a", "--out", &given]);
    assert_eq!(issue().code, Some(0));
    assert_eq!(workspace.run(["certs", "rotate"]).code, Some(0));
    let rotated = json(&workspace.run(["certs", "rotate", "--now", "--json"]));
    let rows = rotated["certificates"].as_array().unwrap();
    let names: Vec<_> = rows.iter().map(|row| row["name"].as_str()).collect();
    assert_eq!(names, [Some("ca"), Some("tools.a")]);
    assert_eq!(rows[1].get("issuer"), None);
    assert_eq!(rows[1]["renewal_due"], true);
    // Nobody believes it, however long it would last.
    assert_eq!(rows[1]["valid"], false);
    assert_eq!(rows[1]["trusted"], false);
    let shown = workspace.run(["certs", "show"]);
    assert!(shown.out.contains("not trusted"), "{shown:?}");
    let told = "no authority of this directory signed the certificate of tools.a";
    assert!(shown.out.contains(told), "{shown:?}");
    assert!(shown.out.contains("with --out DIR"), "{shown:?}");
    let notes = rotated["notes"].to_string();
    assert!(notes.contains("apply this within seconds"), "{notes}");
    assert!(notes.contains("close connections"), "{notes}");
    assert!(
        notes.contains("are no longer valid: issue them again"),
        "{notes}"
    );
    // What was given to somebody else is theirs: it is not known again as ours, and nothing is made
    // for it.
    let leaf = || fs::read(workspace.home().join(".orchestra/certs/tools.a.crt")).unwrap();
    let before = leaf();
    let taken = issue();
    assert_eq!(taken.code, Some(3), "{taken:?}");
    assert!(taken.err.contains("name an empty directory"), "{taken:?}");
    assert_eq!(leaf(), before);
}

/// Each plugin of the past reads the key of theirs.
#[test]
fn a_rotation_at_once_spares_no_authority() {
    let workspace = Workspace::new();
    assert_eq!(workspace.run(["certs", "init"]).code, Some(0));
    let shared = workspace.home().join(".orchestra/certs/legacy");
    let place = shared.display().to_string();
    let init = workspace.run(["certs", "init", "--certs-dir", &place]);
    assert_eq!(init.code, Some(0), "{init:?}");
    let authority = || fs::read(shared.join("ca.crt")).unwrap();
    let before = authority();
    let told = json(&workspace.run(["certs", "rotate", "--json"]));
    let notes = told["notes"].to_string();
    assert!(notes.contains("legacy, which plugins"), "{notes}");
    assert!(notes.contains("stays as it is"), "{notes}");
    assert_eq!(authority(), before);
    let told = json(&workspace.run(["certs", "rotate", "--now", "--json"]));
    let notes = told["notes"].to_string();
    assert!(notes.contains("was rotated as well"), "{notes}");
    assert_ne!(authority(), before);
    // What cannot be done there is told, and done here.
    fs::remove_file(shared.join("ca.key")).unwrap();
    let main = || fs::read(shared.with_file_name("ca.crt")).unwrap();
    let before = main();
    let said = workspace.run(["certs", "rotate", "--now"]);
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(said.err.contains("legacy cannot be rotated"), "{said:?}");
    assert_ne!(main(), before);
}

#[test]
fn a_directory_that_others_may_write_to_is_refused() {
    let workspace = Workspace::new();
    let place = workspace.join("open");
    fs::create_dir(&place).unwrap();
    fs::set_permissions(&place, fs::Permissions::from_mode(0o777)).unwrap();
    let place = place.display().to_string();
    let said = workspace.run(["certs", "init", "--certs-dir", &place]);
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(said.err.contains("chmod 700"), "{said:?}");
}
