//! The users and groups of `/etc/passwd` and `/etc/group`.

use std::{
    fs::{File, Metadata},
    io::Read as _,
    os::unix::fs::MetadataExt as _,
};

/// The largest file of users or groups that is read.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// The name of a user, where the file lists it.
#[must_use]
pub fn user_name(uid: u32) -> Option<String> {
    let users = read("/etc/passwd")?;
    let user = entries(&users).find(|user| number(user, 2) == Some(uid))?;
    user.first().map(|name| (*name).to_owned())
}

/// Returns whether a group has the user as its only member. Distributions that give every user a group make
/// new files writable by that group.
#[must_use]
pub fn is_alone_in(uid: u32, gid: u32) -> bool {
    let (Some(users), Some(groups)) = (read("/etc/passwd"), read("/etc/group")) else {
        return false;
    };
    is_only_member(&users, &groups, uid, gid)
}

/// Returns whether only the current user and the superuser can write a file or directory. The sticky bit makes no
/// difference. Members of a group of the superuser may install programs.
#[must_use]
pub fn is_own(found: &Metadata) -> bool {
    let (uid, mode) = (found.uid(), found.mode());
    let is_owner = uid == 0 || uid == rustix::process::geteuid().as_raw();
    // Only Linux lists its users in files.
    let is_shared = cfg!(target_os = "linux")
        && uid != 0
        && mode & 0o020 != 0
        && !is_alone_in(uid, found.gid());
    is_owner && mode & 0o002 == 0 && !is_shared
}

fn read(path: &str) -> Option<String> {
    let mut text = String::new();
    let file = File::open(path).ok()?;
    file.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

fn entries(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().map(|line| line.split(':').collect())
}

fn number(entry: &[&str], at: usize) -> Option<u32> {
    entry.get(at)?.parse().ok()
}

fn is_only_member(users: &str, groups: &str, uid: u32, gid: u32) -> bool {
    let Some(group) = entries(groups).find(|group| number(group, 2) == Some(gid)) else {
        return false;
    };
    let listed = group.get(3).into_iter().flat_map(|names| names.split(','));
    let listed: Vec<&str> = listed.filter(|name| !name.is_empty()).collect();
    let is_member = |user: &[&str]| number(user, 3) == Some(gid) || listed.contains(&user[0]);
    let known = |name: &&str| entries(users).any(|user| user[0] == *name);
    let mut members = entries(users).filter(|user| is_member(user)).peekable();
    // The group of no user belongs to programs that take it on.
    members.peek().is_some()
        && members.all(|user| number(&user, 2) == Some(uid))
        && listed.iter().all(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_with_one_member_is_private() {
        let users = "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/h:/bin/sh\n\
                     bob:x:1001:1001::/h:/bin/sh\nsync:x:4:0:sync:/:/bin/sync\n";
        let groups = "root:x:0:\nann:x:1000:\nbob:x:1001:ann\nown:x:50:ann\nnone:x:51:\n\
                      gone:x:52:ann,carl\n";
        for (uid, gid, expected) in [
            (1000, 1000, true),
            (1000, 50, true),
            // Another user has it as the first group, is listed, or is in no file.
            (0, 0, false),
            (1001, 1001, false),
            (1000, 52, false),
            // Another user's, without an owner, and unknown.
            (1000, 1001, false),
            (1000, 51, false),
            (1000, 99, false),
        ] {
            let found = is_only_member(users, groups, uid, gid);
            assert_eq!(found, expected, "user {uid}, group {gid}");
        }
    }
}
