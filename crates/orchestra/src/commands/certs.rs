//! `orchestra certs`: the authority of the user's programs, and the certificates that it signs.
//!
//! Keys are made and kept by `orchestra_plugin::certs`; here is only said what is there and what
//! follows. No key is ever printed.

mod names;
mod shared;
mod shown;
mod unsigned;

use std::{
    path::{Path, PathBuf},
    time::SystemTime,
};

use clap::{Args, Subcommand};
use orchestra_plugin::{
    certs::{CertDir, CertError, Listed},
    ids::CertName,
};
use serde::Serialize;

use crate::{
    cli::{Common, examples},
    config::{Config, Overrides, QuicFlags},
    exit::{Exit, Failure},
    logging,
    output::{self, Format},
};
use names::{issuable, parse};
pub(in crate::commands) use shown::Row;
use shown::day;
use unsigned::{NO_KEY, unsigned};

/// Manage the TLS certificates of plugins, orchestrators and bridges
///
/// A private certificate authority of the user signs a certificate for each name. Orchestra creates the
/// certificates that it needs by itself. Use these commands to list certificates, to issue some for other machines,
/// and to replace them.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Certificate directory [default: certs_dir of your orchestra.toml, else ~/.orchestra/certs]
    #[arg(long, value_name = "DIR", global = true)]
    certs_dir: Option<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create the certificate authority, unless it exists
    #[command(after_help = examples(&["certs init"]))]
    Init {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Issue certificates for names, and replace existing ones
    ///
    /// A plugin has two certificates: one for its id, and one for its id with -client, with which it calls the
    /// orchestrator. The certificate of a bridge is transport.stdio-client.
    #[command(after_help = examples(&[
        "certs issue tools.hello tools.hello-client --out hello-certs",
    ]))]
    Issue {
        /// Names for which to issue certificates, of letters, digits, `.`, `_` and `-`
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
        /// Additional directory to write the certificates to, for a plugin in a sandbox or on another machine. The
        /// certificate of the authority is included, its private key is not
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the certificates with their issuers and expiry dates
    #[command(after_help = examples(&["certs show", "certs show tools.hello --json"]))]
    Show {
        /// Name of a certificate, to list only this one
        name: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Replace the certificate authority, and trust the old one until it expires
    #[command(after_help = examples(&["certs rotate", "certs rotate --now"]))]
    Rotate {
        /// Stop trusting the old authority at once, and also replace the authorities of plugins that sign their own
        /// certificates. Use this if a private key may have leaked
        #[arg(long)]
        now: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// What was done, or is there, as JSON.
#[derive(Serialize)]
struct Told<'a> {
    directory: &'a Path,
    /// What was done with the authority.
    #[serde(skip_serializing_if = "Option::is_none")]
    authority: Option<&'static str>,
    certificates: Vec<Row>,
    /// Where they were written as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    handed_out: Option<PathBuf>,
    /// What is to be known, or done next.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

/// Runs one of the commands.
///
/// # Errors
/// When it cannot do what it was asked.
pub(crate) fn run(common: &Common, arguments: Arguments) -> Result<Exit, Failure> {
    // Certificates are of no workspace, but what is logged may be set there.
    let quic = QuicFlags {
        certs_dir: arguments.certs_dir,
        ..QuicFlags::default()
    };
    let overrides = Overrides {
        quic,
        ..Overrides::default()
    };
    let config = Config::settle(common, overrides)?;
    logging::start(logging::of_a_report(&config.log))?;
    let path = config.quic.directory();
    let path = path.map_err(|why| Failure::usage_text(format!("{why} (--certs-dir)")))?;
    let now = SystemTime::now();
    match arguments.command {
        Command::Init { json } => init(&path, now, Format::of_flag(json)),
        Command::Issue { names, out, json } => {
            issue(&path, &names, out.as_deref(), now, Format::of_flag(json))
        }
        Command::Show { name, json } => show(&path, name.as_deref(), now, Format::of_flag(json)),
        Command::Rotate {
            now: is_at_once,
            json,
        } => rotate(&path, is_at_once, now, Format::of_flag(json)),
    }
    .map(|()| Exit::Ok)
}

/// What somebody has to do about the certificates of a directory; nothing where there are none. Those that their
/// programs renew are theirs.
pub(in crate::commands) fn findings(directory: &Path) -> Vec<String> {
    let mut rows = match existing(directory).map(|found| Row::all(&found, SystemTime::now())) {
        Ok(Ok(rows)) => rows,
        Ok(Err(error)) => return vec![error.to_string()],
        // Nobody has founded an authority.
        Err(_) => return Vec::new(),
    };
    let mut findings = shown::exposed(directory, &rows);
    rows.retain(Row::needs_somebody);
    findings.extend(shown::notes(&rows));
    findings
}

/// The certificates of a plugin: those by which it is called, and calls. None where none can be read.
pub(in crate::commands) fn of_plugin(directory: &Path, id: &str) -> Vec<Row> {
    let all = existing(directory)
        .ok()
        .map(|found| Row::all(&found, SystemTime::now()));
    let mut rows = all.and_then(Result::ok).unwrap_or_default();
    let client = format!("{id}-client");
    rows.retain(|row| row.name == id || row.name == client);
    rows
}

fn init(path: &Path, now: SystemTime, format: Format) -> Result<(), Failure> {
    let directory = CertDir::open(path).map_err(failed)?;
    let before = authority(&directory, now)?;
    directory.ensure_ca(now).map_err(failed)?;
    let rows = Row::all(&directory, now).map_err(failed)?;
    let after = authority(&directory, now)?;
    let done = match (&before, &after) {
        (None, _) => "founded",
        (Some(before), Some(after)) if before.fingerprint == after.fingerprint => "there already",
        (Some(_), _) => {
            "rotated, because it would have expired soon or an earlier rotation was interrupted"
        }
    };
    let mut notes = Vec::new();
    notes.extend(unsigned(&directory)?);
    notes.extend(shown::exposed(directory.path(), &rows));
    if before.is_none() {
        notes.push(
            "programs of this user create their certificates themselves; `orchestra certs issue NAME --out DIR` creates one for another user or machine"
                .to_owned(),
        );
    }
    let told = Told {
        directory: directory.path(),
        authority: Some(done),
        certificates: rows,
        handed_out: None,
        notes,
    };
    format.print(&told, |told| {
        format!(
            "{}: authority {done}\n{}{}",
            told.directory.display(),
            shown::table(&told.certificates),
            shown::lines(&told.notes)
        )
    })
}

fn issue(
    path: &Path,
    names: &[String],
    out: Option<&Path>,
    now: SystemTime,
    format: Format,
) -> Result<(), Failure> {
    let parsed = names.iter().map(|name| issuable(name));
    let names: Vec<CertName> = parsed.collect::<Result<_, _>>()?;
    let directory = existing(path)?;
    // Refused before anything is made, where it can be.
    let taker = out.map(CertDir::open).transpose().map_err(failed)?;
    match authority(&directory, now)? {
        None => return Err(unfounded(directory.path())),
        Some(ca) if !ca.has_key => {
            let path = directory.path().display();
            return Err(Failure::refused(format!("{path}: {NO_KEY}")));
        }
        Some(_) => {}
    }
    if let Some(taker) = &taker {
        directory.check_taker(taker).map_err(failed)?;
    }
    for name in &names {
        directory.issue(name, now).map_err(failed)?;
    }
    if let Some(taker) = &taker {
        directory.hand_out(&names, taker).map_err(failed)?;
    }
    let rows = Row::all(&directory, now).map_err(failed)?;
    let mut notes = shown::exposed(directory.path(), &rows);
    let rows = rows.into_iter();
    let is_new = |row: &Row| names.iter().any(|name| name.as_str() == row.name);
    if let Some(taker) = &taker {
        notes.push(format!(
            "{} contains the certificates, their keys, and the certificate of the authority without its key: \
             its owner can authenticate under these names and cannot issue other certificates",
            taker.path().display()
        ));
    }
    let told = Told {
        directory: directory.path(),
        authority: None,
        certificates: rows.filter(is_new).collect(),
        handed_out: taker.as_ref().map(|taker| taker.path().to_owned()),
        notes,
    };
    format.print(&told, |told| {
        let issued = told.certificates.iter().map(|row| {
            let ends = day(&row.not_after);
            format!("{}: issued, until {ends}\n", row.name)
        });
        issued.collect::<String>() + &shown::lines(&told.notes)
    })
}

fn show(path: &Path, name: Option<&str>, now: SystemTime, format: Format) -> Result<(), Failure> {
    let name = name.map(parse).transpose()?;
    let directory = existing(path)?;
    let mut rows = Row::all(&directory, now).map_err(failed)?;
    let mut notes = Vec::from_iter(unsigned(&directory)?);
    notes.extend(shown::exposed(directory.path(), &rows));
    let all: Vec<String> = rows.iter().map(|row| row.name.clone()).collect();
    if let Some(name) = &name {
        rows.retain(|row| row.name == name.as_str());
        if rows.is_empty() {
            let there = match all.is_empty() {
                true => "there are none".to_owned(),
                false => format!("there are {}", all.join(", ")),
            };
            let path = directory.path().display();
            let text = format!(
                "no certificate of {name} in {path}: {there}; `orchestra certs issue {name}` creates one"
            );
            return Err(Failure::usage_text(output::printable(&text)));
        }
    }
    notes.extend(shown::notes(&rows));
    let told = Told {
        directory: directory.path(),
        authority: None,
        notes,
        certificates: rows,
        handed_out: None,
    };
    format.print(&told, |told| {
        let rows = match &name {
            Some(_) => told.certificates.iter().map(Row::in_full).collect(),
            None => shown::table(&told.certificates),
        };
        rows + &shown::lines(&told.notes)
    })
}

fn rotate(path: &Path, is_at_once: bool, now: SystemTime, format: Format) -> Result<(), Failure> {
    let directory = existing(path)?;
    let before = authority(&directory, now)?.ok_or_else(|| unfounded(directory.path()))?;
    match is_at_once {
        true => directory.rotate_at_once(now),
        false => directory.rotate(now),
    }
    .map_err(failed)?;
    let rows = Row::all(&directory, now).map_err(failed)?;
    let mut notes = Vec::new();
    if is_at_once {
        notes.push(
            "earlier authorities are no longer trusted: running `orchestra up` and plugins apply this within \
             seconds, and close connections that were opened with an old certificate"
                .to_owned(),
        );
    } else if before.valid {
        let ends = shown::time(before.not_after);
        let ends = day(&ends);
        notes.push(format!(
            "the previous authority stays trusted until {ends}: running programs continue, and certificates \
             that it signed stay valid until then"
        ));
    }
    notes.push(
        match is_at_once {
            true => {
                "programs that can read ca.key renew their certificates themselves; certificates that were \
                 issued with --out are no longer valid: issue them again"
            }
            false => {
                "programs that can read ca.key renew their certificates when they start; issue certificates \
                 that were issued with --out again before the previous authority expires"
            }
        }
        .to_owned(),
    );
    let shared = shared::rotate(directory.path(), is_at_once, now);
    if let Ok(Some(note)) = &shared {
        notes.push(note.clone());
    }
    let told = Told {
        directory: directory.path(),
        authority: Some("rotated"),
        certificates: rows,
        handed_out: None,
        notes,
    };
    format.print(&told, |told| {
        format!(
            "{}: authority rotated\n{}{}",
            told.directory.display(),
            shown::table(&told.certificates),
            shown::lines(&told.notes)
        )
    })?;
    shared.map(drop)
}

/// A directory that is there: who only looks makes none.
fn existing(path: &Path) -> Result<CertDir, Failure> {
    match path.is_dir() {
        true => CertDir::open(path).map_err(failed),
        false => Err(unfounded(path)),
    }
}

fn unfounded(path: &Path) -> Failure {
    Failure::usage_text(format!(
        "there is no certificate authority in {}; `orchestra certs init` creates one, --certs-dir names another directory",
        path.display()
    ))
}

/// The authority that signs now.
fn authority(directory: &CertDir, now: SystemTime) -> Result<Option<Listed>, Failure> {
    let all = directory.list(now).map_err(failed)?;
    Ok(all.into_iter().find(|listed| listed.name == "ca"))
}

/// How certificates fail, as an exit code.
fn failed(error: CertError) -> Failure {
    match error {
        CertError::CannotSign { name, path, why } => {
            Failure::refused(format!("{name} is not issued in {}: {why}", path.display()))
        }
        error @ (CertError::Exposed { .. }
        | CertError::Large { .. }
        | CertError::Content { .. }
        | CertError::CannotRotate { .. }
        | CertError::Expired { .. }
        | CertError::NoAuthority { .. }
        | CertError::Taken { .. }) => Failure::Refused(error.into()),
        error => Failure::Failed(error.into()),
    }
}
