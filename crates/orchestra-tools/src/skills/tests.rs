//! Skills of a workspace on a real file system.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use tempfile::TempDir;

#[cfg(target_os = "linux")]
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use super::*;

const BUNDLED: BundledSkill = BundledSkill {
    name: "bundled",
    text: "---\nname: bundled\ndescription: Comes along.\n---\nText.\n",
};

struct Place {
    directory: TempDir,
    skills: Skills,
}

impl Place {
    fn new(files: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for (path, text) in files {
            write(directory.path(), path, text);
        }
        let skills = Skills::new(directory.path(), &[BUNDLED]);
        // The first look ends after a while, also when the machine is busy.
        skills.look();
        Self { directory, skills }
    }

    fn write(&self, path: &str, text: &str) {
        write(self.directory.path(), path, text);
    }

    fn uris(&self) -> Vec<String> {
        let skills = self.skills.descriptors();
        skills.iter().map(|skill| skill.uri().to_owned()).collect()
    }

    fn files(&self, uri: &str) -> Vec<String> {
        let skills = self.skills.descriptors();
        let skill = skills.iter().find(|skill| skill.uri() == uri).unwrap();
        let files = skill.files().iter();
        files.map(|file| file.uri.clone()).collect()
    }

    fn read(&self, uri: &str) -> Option<String> {
        let mut read = self.skills.read(uri).ok()?;
        Some(read.contents.remove(0).data)
    }
}

fn write(workspace: &Path, path: &str, text: &str) {
    let path = workspace.join(".claude/skills").join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn skill(name: &str) -> String {
    format!("---\nname: {name}\ndescription: Does {name}.\n---\nText.\n")
}

const BUNDLED_URI: &str = "skill://bundled/SKILL.md";

#[test]
fn bundled_skills_are_served_unless_the_workspace_has_its_own() {
    let place = Place::new(&[]);
    assert_eq!(place.uris(), [BUNDLED_URI]);
    assert_eq!(place.read(BUNDLED_URI).unwrap(), BUNDLED.text);
    let own = BUNDLED.text.replace("along", "changed");
    place.write("bundled/SKILL.md", &own);
    place.skills.look();
    assert_eq!(place.uris(), [BUNDLED_URI]);
    assert_eq!(place.read(BUNDLED_URI).unwrap(), own);
    let description = place.skills.descriptors()[0].description().to_owned();
    assert_eq!(description, "Comes changed.");
}

#[test]
fn every_file_is_listed_and_read_with_the_digest_it_has() {
    let place = Place::new(&[
        ("whole/SKILL.md", &skill("whole")),
        ("whole/a b#?%.md", "odd name"),
        ("whole/deep/er/x.sh", "echo"),
        ("whole/.env", "SECRET=1"),
        ("whole/.git/config", "x"),
        ("whole/inner/SKILL.md", &skill("inner")),
        ("whole/inner/more.txt", "more"),
        ("no-skill/README.md", "nothing"),
    ]);
    let uri = "skill://whole/SKILL.md";
    assert_eq!(
        place.uris(),
        [BUNDLED_URI, uri, "skill://whole/inner/SKILL.md"]
    );
    let files = place.files(uri);
    assert_eq!(
        files,
        [
            uri,
            "skill://whole/a%20b%23%3F%25.md",
            "skill://whole/deep/er/x.sh",
            "skill://whole/inner/SKILL.md",
            "skill://whole/inner/more.txt",
        ]
    );
    for skill in place.skills.descriptors() {
        for file in skill.files() {
            let text = place.read(&file.uri).unwrap();
            let again = SkillFile::of(file.uri.clone(), file.mime_type.clone(), text.as_bytes());
            assert_eq!(*file, again);
        }
    }
    for other in [
        "skill://whole/.env",
        "skill://whole/../whole/SKILL.md",
        "skill://whole",
        "skill://no-skill/README.md",
        "skill://whole/a b#?%.md",
    ] {
        assert!(place.read(other).is_none(), "{other}");
    }
}

#[test]
fn bytes_that_are_no_text_come_as_base64() {
    let place = Place::new(&[("a/SKILL.md", &skill("a"))]);
    let path = place.directory.path().join(".claude/skills/a/x.png");
    fs::write(path, [0xff, 0xfe, 0x00]).unwrap();
    place.skills.look();
    let read = place
        .skills
        .read("skill://a/x.png")
        .unwrap()
        .contents
        .remove(0);
    assert_eq!((read.data.as_str(), read.binary), ("//4A", true));
    assert_eq!(read.mime_type.as_deref(), Some("image/png"));
}

#[test]
fn a_broken_skill_is_left_out_and_told_once() {
    let place = Place::new(&[
        ("good/SKILL.md", &skill("good")),
        ("other-name/SKILL.md", &skill("another")),
        ("no-front/SKILL.md", "# Title\n"),
        ("No_Name/SKILL.md", &skill("No_Name")),
        ("undescribed/SKILL.md", "---\nname: undescribed\n---\n"),
        ("good/inner/SKILL.md", "no front matter either"),
    ]);
    assert_eq!(place.uris(), [BUNDLED_URI, "skill://good/SKILL.md"]);
    assert_eq!(place.files("skill://good/SKILL.md").len(), 2);
    assert_eq!(place.skills.look(), Changes::default());
    place.write("no-front/SKILL.md", "---\n- a\n---\n");
    let changes = place.skills.look();
    assert_eq!(changes.problems.len(), 1, "{changes:?}");
    assert!(changes.problems[0].starts_with("no-front: "), "{changes:?}");
    place.write("no-front/SKILL.md", &skill("no-front"));
    let changes = place.skills.look();
    assert_eq!(changes, Changes::default());
    assert_eq!(place.uris().len(), 3);
}

/// Does something as somebody whom permissions hold for, whoever runs the tests.
fn unprivileged<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let work = || {
        #[cfg(target_os = "linux")]
        {
            let mut sets = capabilities(None).unwrap();
            sets.effective = CapabilitySet::empty();
            // Of this thread alone.
            set_capabilities(None, sets).unwrap();
        }
        work()
    };
    std::thread::scope(|scope| scope.spawn(work).join().unwrap())
}

#[test]
fn what_cannot_be_read_hides_no_other_and_is_told() {
    let place = Place::new(&[
        ("a/SKILL.md", &skill("a")),
        ("locked/SKILL.md", &skill("locked")),
        ("shut/SKILL.md", &skill("shut")),
        ("z/SKILL.md", &skill("z")),
    ]);
    let home = place.directory.path().join(".claude/skills");
    let lock = |path: &str| {
        let none = fs::Permissions::from_mode(0o000);
        fs::set_permissions(home.join(path), none).unwrap();
    };
    lock("locked");
    lock("shut/SKILL.md");
    let changes = unprivileged(|| place.skills.look());
    assert_eq!(
        place.uris(),
        ["skill://a/SKILL.md", BUNDLED_URI, "skill://z/SKILL.md"]
    );
    assert_eq!(
        changes.problems,
        [
            "locked: cannot read locked: permission denied",
            "shut: cannot read shut: permission denied"
        ]
    );
    let why = place.skills.problem("skill://locked/SKILL.md");
    assert_eq!(
        why.as_deref(),
        Some("cannot read locked: permission denied")
    );
    assert_eq!(place.skills.problem("skill://a/SKILL.md"), None);
    fs::set_permissions(home.join("locked"), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_look_without_time_finds_what_it_can_and_blames_nobody() {
    let place = Place::new(&[]);
    place.write("a/SKILL.md", &skill("a"));
    place.skills.look_until(Some(Instant::now()));
    assert_eq!(place.uris(), [BUNDLED_URI]);
    assert_eq!(place.skills.problem("skill://a/SKILL.md"), None);
    let changes = place.skills.look();
    assert_eq!(changes, Changes::default());
    assert_eq!(place.uris(), ["skill://a/SKILL.md", BUNDLED_URI]);
}

#[test]
fn links_are_not_followed_wherever_they_are() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("SKILL.md"), skill("linked")).unwrap();
    fs::write(outside.path().join("secret"), "secret").unwrap();
    let place = Place::new(&[("a/SKILL.md", &skill("a")), ("a/sub/file", "mine")]);
    let home = place.directory.path().join(".claude/skills");
    symlink(outside.path(), home.join("linked")).unwrap();
    symlink(outside.path().join("secret"), home.join("a/secret")).unwrap();
    symlink(outside.path(), home.join("a/away")).unwrap();
    let before = place.skills.descriptors();
    let changes = place.skills.look();
    assert_eq!(place.skills.descriptors(), before);
    assert_eq!(
        changes.problems,
        ["linked: it is a link, which is not followed"]
    );
    assert_eq!(place.files("skill://a/SKILL.md").len(), 2);

    // A link that takes the place of a file or directory after the look.
    fs::remove_file(home.join("a/sub/file")).unwrap();
    symlink(outside.path().join("secret"), home.join("a/sub/file")).unwrap();
    assert_eq!(place.read("skill://a/sub/file"), None);
    fs::remove_dir_all(home.join("a/sub")).unwrap();
    fs::write(outside.path().join("file"), "secret").unwrap();
    symlink(outside.path(), home.join("a/sub")).unwrap();
    assert_eq!(place.read("skill://a/sub/file"), None);
    fs::rename(&home, outside.path().join("moved")).unwrap();
    symlink(outside.path().join("moved"), &home).unwrap();
    assert_eq!(place.read("skill://a/SKILL.md"), None);
    place.skills.look();
    assert_eq!(place.uris(), [BUNDLED_URI]);
}

#[test]
fn a_change_of_the_same_size_and_second_is_seen() {
    let place = Place::new(&[("a/SKILL.md", &skill("a")), ("a/x.md", "one")]);
    let digest = |place: &Place| {
        let skill = place.skills.descriptors().remove(0);
        skill.file("skill://a/x.md").unwrap().digest
    };
    for text in ["two", "one", "six"] {
        let before = digest(&place);
        place.write("a/x.md", text);
        let changes = place.skills.look();
        assert_eq!(changes.files, ["skill://a/x.md"], "{text}");
        assert_ne!(digest(&place), before, "{text}");
    }
    fs::remove_file(place.directory.path().join(".claude/skills/a/x.md")).unwrap();
    assert_eq!(place.skills.look().files, ["skill://a/x.md"]);
}

#[test]
fn a_skill_past_the_bounds_is_left_out_and_harms_no_other() {
    let place = Place::new(&[
        ("good/SKILL.md", &skill("good")),
        ("many/SKILL.md", &skill("many")),
    ]);
    for number in 0..orchestra_hub::MAX_SKILL_FILES {
        place.write(&format!("many/{number}"), "");
    }
    place.write("large/SKILL.md", &skill("large"));
    place.write("large/x", &"x".repeat(8 * 1024 * 1024 + 1));
    place.write("deep/SKILL.md", &skill("deep"));
    place.write(&format!("deep/{}x", "d/".repeat(20)), "");
    let changes = place.skills.look();
    assert_eq!(place.uris(), [BUNDLED_URI, "skill://good/SKILL.md"]);
    let named = |name: &str| {
        changes
            .problems
            .iter()
            .any(|problem| problem.starts_with(name))
    };
    assert!(
        named("many: ") && named("large: ") && named("deep: "),
        "{changes:?}"
    );
}

#[test]
fn a_fifo_and_a_file_in_the_place_of_the_directory_stop_nothing() {
    let place = Place::new(&[("a/SKILL.md", &skill("a"))]);
    let home = place.directory.path().join(".claude/skills");
    let made = std::process::Command::new("mkfifo")
        .arg(home.join("a/pipe"))
        .status();
    assert!(made.unwrap().success());
    place.skills.look();
    assert_eq!(place.files("skill://a/SKILL.md").len(), 1);
    assert_eq!(place.read("skill://a/pipe"), None);
    fs::remove_dir_all(&home).unwrap();
    fs::write(&home, "no directory").unwrap();
    place.skills.look();
    assert_eq!(place.uris(), [BUNDLED_URI]);
}
