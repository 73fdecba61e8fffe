//! What a shell line or a program may reach where jobs are in a sandbox.

use std::{fs::DirBuilder, io, os::unix::fs::DirBuilderExt};

use orchestra_plan::{
    event::{Failure, FailureKind},
    work::WorkSpec,
};
use orchestra_process::Sandbox;

use super::Cx;
use crate::supervise::Order;

/// Its home and its temporary files, in the git directory of its worktree, with which they go.
const OWN: &str = "orchestra-home";

/// Variables that lead there, unless the plan says otherwise.
const HOMES: [&str; 2] = ["HOME", "TMPDIR"];

/// Puts a run into the sandbox, where there is one: it reads and writes its worktree and a directory of its
/// own, and reads the repository and what is linked from the user's checkout.
pub(super) async fn confine(
    cx: &Cx<'_>,
    spec: &WorkSpec,
    order: &mut Order,
) -> Result<(), Failure> {
    let Sandbox::Workspace {
        paths,
        read_only,
        protected,
    } = &cx.host.options.sandbox
    else {
        return Ok(());
    };
    let (mut paths, mut read_only) = (paths.clone(), read_only.clone());
    let (repository, worktree) = (cx.repository().await?, cx.worktree().await?);
    let own = worktree.directory().join(OWN);
    let mut directory = DirBuilder::new();
    if let Err(error) = directory.mode(0o700).create(&own)
        && error.kind() != io::ErrorKind::AlreadyExists
    {
        let words = format!("cannot make `{}`: {error}", own.display());
        return Err(Failure::new(FailureKind::Storage, words));
    }
    let (settings, job) = (&cx.assignment.settings, &cx.assignment.job);
    let envs = [&settings.env, &job.env, &spec.env];
    for name in HOMES {
        let is_said = envs
            .iter()
            .any(|env| env.iter().any(|(said, _)| said == name));
        if !is_said {
            order.environment.insert(name.into(), own.clone().into());
        }
    }
    paths.extend([worktree.path().to_owned(), own]);
    read_only.push(repository.common_directory().to_owned());
    let linked = settings.additional_symlink_dirs.iter();
    let linked = linked.map(|path| repository.toplevel().join(path.as_str()));
    read_only.extend(linked.filter(|path| path.is_dir()));
    order.sandbox = Sandbox::Workspace {
        paths,
        read_only,
        protected: protected.clone(),
    };
    Ok(())
}
