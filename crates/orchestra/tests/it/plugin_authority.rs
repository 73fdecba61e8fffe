//! Plugins that sign their certificates themselves, as those of the first orchestrators do: Go plugins make an
//! authority of their own where they cannot read the key of one.

use std::{fs, os::unix::fs::PermissionsExt as _, time::SystemTime};

use orchestra_plugin::certs::CertDir;

use crate::{
    plugins::{Up, approve, sample},
    support::{Workspace, get, until},
};

/// The beginning of each program: finds its directory of certificates.
const FIND: &str = "#!/bin/sh\n\
    for word; do case \"$word\" in --certs-dir=*) certs=${word#*=};; esac; done\n";

/// A line that makes an authority unless the directory has the key of one.
const SIGN: &str =
    "[ -e \"$certs/ca.key\" ] || cp \"$authority/ca.crt\" \"$authority/ca.key\" \"$certs\"\n";

/// A workspace with a program that is run as a plugin, and an authority that it can take for its own.
fn workspace(program: &str) -> Workspace {
    let workspace = Workspace::board();
    let authority = CertDir::open(workspace.home().join("authority")).unwrap();
    authority.ensure_ca(SystemTime::now()).unwrap();
    let text = format!(
        "{FIND}authority='{}'\nsample='{}'\n{program}\n",
        authority.path().display(),
        sample().display()
    );
    workspace.write("bin/plugin", &text);
    fs::set_permissions(
        workspace.join("bin/plugin"),
        fs::Permissions::from_mode(0o755),
    )
    .unwrap();
    configure(&workspace, "");
    workspace
}

/// Writes the configuration as the documentation shows it, with more lines, and approves it.
fn configure(workspace: &Workspace, more: &str) {
    let text = format!("[plugins.\"tools.sample\"]\nbinary = \"bin/plugin\"\n{more}");
    workspace.write("orchestra.toml", &text);
    approve(workspace, "tools.sample");
}

#[test]
fn plugin_that_signs_for_itself_is_reported_with_the_key_that_lets_it() {
    let serves = format!("{SIGN}exec \"$sample\" \"$@\"");
    let ends = format!("{SIGN}echo 'register: unknown authority' >&2\nexit 1");
    // Some need the key, and make none.
    let needs = "[ -e \"$certs/ca.key\" ] || { echo \"open $certs/ca.key: no such file\" >&2; exit 1; }\n\
                 exec \"$sample\" \"$@\"";
    for (program, works) in [(serves.as_str(), true), (&ends, false), (needs, true)] {
        let workspace = workspace(program);
        // The second start finds what the first has left.
        for _ in 0..2 {
            let tested = workspace.run(["mcp", "test", "tools.sample"]);
            assert_ne!(tested.code, Some(0), "{program}: {tested:?}");
            let told = tested.out + &tested.err;
            assert!(told.contains("certs = \"legacy\""), "{program}: {told}");
        }
        configure(&workspace, "certs = \"legacy\"\n");
        let called = workspace.run(["mcp", "call", "tools.sample", "echo", "text=hello"]);
        if works {
            assert_eq!(called.code, Some(0), "{program}: {called:?}");
            assert!(called.out.contains("hello"), "{program}: {called:?}");
        } else {
            assert!(called.err.contains("unknown authority"), "{called:?}");
            assert!(!called.err.contains("certs = \"legacy\""), "{called:?}");
        }
    }
}

#[test]
fn plugin_that_signs_for_itself_is_reported_by_up_and_works_after_the_change() {
    let workspace = workspace(&format!("{SIGN}exec \"$sample\" \"$@\""));
    let up = Up::start(&workspace);
    until(|| {
        let told = get(&up.address, "/api/mcp/servers").json().to_string();
        told.contains("certs = \\\"legacy\\\"").then_some(())
    });
    configure(&workspace, "certs = \"legacy\"\n");
    until(|| {
        let told = get(&up.address, "/api/mcp/tools").json().to_string();
        told.contains("\"echo\"").then_some(())
    });
    up.end();
}
