//! Graphs at random, of jobs that misbehave, and what they come to when they run one after the other.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Command, Stdio},
};

use orchestra_plan::spec::JobSpec;

use super::rig::{Rig, job};

/// How long a job may take that hangs.
const HANGS_MS: u64 = 2_500;

/// Numbers that are the same for the same seed (Marsaglia's xorshift).
pub(super) struct Numbers(u64);

impl Numbers {
    pub(super) fn new(seed: u64) -> Self {
        let mut numbers = Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        for _ in 0..8 {
            numbers.below(1);
        }
        numbers
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end.max(1)
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// How a job misbehaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    None,
    /// The first time it fails, after it has left something behind.
    FailsOnce,
    /// The first time it hangs.
    HangsOnce,
    /// It fails until the user puts something right.
    Fails,
    /// It leaves processes behind, some in sessions of their own.
    Forks,
    /// It prints more than is kept.
    Floods,
    /// It takes a while.
    Slow,
    /// Its check fails the first time.
    CheckedTwice,
}

/// A job of a graph.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) dependencies: Vec<usize>,
    /// All that it comes after.
    pub(super) before: BTreeSet<usize>,
    pub(super) trouble: Trouble,
    /// What it does to files, in a shell.
    effect: String,
    pub(super) commits: bool,
    pub(super) is_empty: bool,
    wait: u64,
}

/// A graph whose jobs can run in any order that keeps the edges, without a conflict.
///
/// A job that `may_redo` comes to the same when it is done again in what it left.
pub(super) fn graph(numbers: &mut Numbers, most: u64, may_redo: bool) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    // Who has last written to the file that is handed on from job to job.
    let mut last: Option<usize> = None;
    for at in 0..3 + numbers.below(most.saturating_sub(2)) as usize {
        let mut dependencies = BTreeSet::new();
        for _ in 0..numbers.below(4).min(at as u64) {
            dependencies.insert(numbers.below(at as u64) as usize);
        }
        let mut before = dependencies.clone();
        for dependency in &dependencies {
            before.extend(&nodes[*dependency].before);
        }
        let is_empty = numbers.percent(10);
        let mut effect = String::new();
        if !is_empty {
            let name = format!("job-{at:02}");
            let add = if may_redo { ">" } else { ">>" };
            effect.push_str(&format!("mkdir -p out; echo {name} {add} out/{name}"));
            for dependency in &dependencies {
                let other = format!("out/{}", nodes[*dependency].name);
                effect.push_str(&format!(
                    "; test ! -e {other} || git hash-object {other} >> out/{name}"
                ));
            }
            if last.is_none_or(|last| before.contains(&last)) {
                last = Some(at);
                let unless = if may_redo {
                    format!("grep -qx {name} handed-on 2>/dev/null || ")
                } else {
                    String::new()
                };
                effect.push_str(&format!("; {unless}echo {name} >> handed-on"));
            }
            match numbers.below(6) {
                0 => effect.push_str(&format!("; rm -f 'old ones/{at}'")),
                1 => effect.push_str(&format!("; printf '\\000\\377{at}' > out/{name}.bin")),
                2 => effect.push_str(&format!("; ln -sf ../{name} out/{name}.link")),
                3 => effect.push_str(&format!("; : > out/{name}.sh; chmod +x out/{name}.sh")),
                _ => {}
            }
        }
        let trouble = match numbers.below(12) {
            0 => Trouble::FailsOnce,
            1 => Trouble::HangsOnce,
            2 => Trouble::Fails,
            3 | 4 => Trouble::Forks,
            5 => Trouble::Floods,
            6 | 7 => Trouble::Slow,
            8 => Trouble::CheckedTwice,
            _ => Trouble::None,
        };
        nodes.push(Node {
            name: format!("job-{at:02}"),
            dependencies: dependencies.into_iter().collect(),
            before,
            trouble,
            effect,
            commits: !is_empty && numbers.percent(20),
            is_empty,
            wait: numbers.below(6),
        });
    }
    nodes
}

/// What the user has before it all: every job finds a file that it may delete.
pub(super) fn prepare(rig: &Rig, nodes: &[Node]) {
    fs::create_dir(rig.root.join("old ones")).unwrap();
    for at in 0..nodes.len() {
        fs::write(rig.root.join(format!("old ones/{at}")), "old\n").unwrap();
    }
    rig.git(&["add", "-A"]);
    rig.git(&["commit", "-q", "-m", "second"]);
}

/// The file that says that a trouble is over.
pub(super) fn flag(rig: &Rig, node: &Node) -> String {
    rig.home()
        .join(format!("{}.flag", node.name))
        .display()
        .to_string()
}

/// The jobs of a plan.
pub(super) fn jobs(rig: &Rig, nodes: &[Node]) -> Vec<JobSpec> {
    let one = |node: &Node| {
        let flag = flag(rig, node);
        let once = |what: &str| format!("if test ! -e '{flag}'; then : > '{flag}'; {what}; fi\n");
        let mut line = String::from("set -e\n");
        // It has what came before it, and nothing else.
        let mut there: Vec<&str> = node
            .before
            .iter()
            .filter(|other| !nodes[**other].is_empty)
            .map(|other| nodes[*other].name.as_str())
            .collect();
        there.push(&node.name);
        line.push_str(&format!(
            "for file in out/job-??; do test -e $file || continue; case \" {} \" in *\" ${{file#out/}} \"*) ;; \
             *) exit 91;; esac; done\n",
            there.join(" ")
        ));
        for other in &there[..there.len() - 1] {
            line.push_str(&format!("test -e out/{other} || exit 92\n"));
        }
        line.push_str(&match node.trouble {
            Trouble::FailsOnce => once("exit 7"),
            Trouble::HangsOnce => once("sleep 1000"),
            Trouble::Fails => format!("test -e '{flag}' || exit 9\n"),
            Trouble::Forks => {
                "(sleep 1000 & setsid sleep 1000 & nohup setsid sh -c 'sleep 1000 & sleep 1000' &) \
                 >/dev/null 2>&1 </dev/null\n"
                    .to_owned()
            }
            Trouble::Floods => {
                "head -c 3000000 /dev/zero | tr '\\0' 'x'; yes | head -n 50000 >&2\n".to_owned()
            }
            Trouble::Slow => format!("sleep 0.{}\n", node.wait),
            Trouble::None | Trouble::CheckedTwice => String::new(),
        });
        line.push_str(&node.effect);
        if node.commits {
            line.push_str(
                "\ngit add -A; git diff --cached --quiet || git -c user.name=J -c user.email=j@example.org commit -q -m 'by the job'",
            );
        }
        let mut work = serde_json::json!({"type": "shell", "command": line, "onFailure": {"resumeFromPhase": "work"}});
        if node.trouble == Trouble::HangsOnce {
            work["timeoutMs"] = HANGS_MS.into();
        }
        if node.trouble == Trouble::Fails {
            work["onFailure"] = serde_json::json!({"noAutoHeal": true});
        }
        let names: Vec<&str> = node
            .dependencies
            .iter()
            .map(|other| nodes[*other].name.as_str())
            .collect();
        let mut spec = JobSpec {
            work: serde_json::from_value(work).unwrap(),
            expects_no_changes: node.is_empty,
            ..job(&node.name, &names, "true")
        };
        if node.trouble == Trouble::CheckedTwice {
            let check = serde_json::json!({
                "type": "shell", "command": once("exit 3"), "onFailure": {"resumeFromPhase": "postchecks"}
            });
            spec.postchecks = Some(serde_json::from_value(check).unwrap());
        }
        spec
    };
    nodes.iter().map(one).collect()
}

/// The tree that the jobs come to one after the other in a clone of the user's, by a shell and git alone.
pub(super) fn serially(rig: &Rig, nodes: &[Node]) -> String {
    let place = rig.home().join("serial");
    let to = place.to_str().unwrap();
    rig.git(&["clone", "-q", "--no-hardlinks", "-b", "main", ".", to]);
    for node in nodes {
        shell(&place, &format!("set -e\n{}", node.effect));
    }
    rig.git(&["-C", to, "add", "-A"]);
    let tree = rig.git(&["-C", to, "write-tree"]);
    fs::remove_dir_all(place).unwrap();
    tree
}

fn shell(place: &Path, line: &str) {
    let mut shell = Command::new("sh");
    let run = shell
        .args(["-c", line])
        .current_dir(place)
        .stdin(Stdio::null())
        .output();
    let run = run.unwrap();
    assert!(
        run.status.success(),
        "{line}: {}",
        String::from_utf8_lossy(&run.stderr)
    );
}
