//! A file system in memory that remembers what was synced, and can be asked what a power cut at any
//! moment would have left.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use orchestra_store::{Entry, EntryKind, FileIo, Stat};

type Content = Arc<Vec<u8>>;
type Inode = u64;

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Node {
    Directory,
    File(Inode),
}

/// An operation that is not durable yet.
#[derive(Debug, Clone)]
enum Operation {
    Write(Inode, Content),
    Name {
        directory: PathBuf,
        removed: Option<PathBuf>,
        made: Option<(PathBuf, Node)>,
    },
}

/// What is on the disk, and what is only on its way there.
#[derive(Debug, Clone, Default)]
pub(crate) struct Disk {
    names: BTreeMap<PathBuf, Node>,
    contents: HashMap<Inode, Content>,
    pending: Vec<Operation>,
}

/// What files there are after a power cut.
pub(crate) type Image = BTreeMap<PathBuf, Option<Content>>;

#[derive(Default)]
struct State {
    names: BTreeMap<PathBuf, Node>,
    contents: HashMap<Inode, (Content, i64)>,
    durable: Disk,
}

/// The file system. `watch` is called before each operation that changes something, and right after
/// a file was put in its place.
pub(crate) struct RecordingFs {
    root: PathBuf,
    state: Mutex<State>,
    watch: Mutex<Option<Watch>>,
}

type Watch = Box<dyn FnMut(Disk, Call<'_>) + Send>;

/// What is about to be done, or was done just now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call<'a> {
    /// A file is put in its place.
    Replace(&'a Path),
    /// A file was put in its place.
    Replaced(&'a Path),
    /// A file is removed.
    Remove(&'a Path),
    /// Anything else.
    Other,
}

impl std::fmt::Debug for RecordingFs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordingFs").finish_non_exhaustive()
    }
}

impl Disk {
    /// How many operations are on their way.
    pub(crate) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// The files, if of the operations on their way those that `kept` names came through, and the
    /// last write of them was `torn`.
    pub(crate) fn after_power_cut(&self, kept: impl Fn(usize) -> bool, torn: bool) -> Image {
        let (mut names, mut contents) = (self.names.clone(), self.contents.clone());
        let last_write = (0..self.pending.len())
            .rev()
            .find(|at| matches!(self.pending[*at], Operation::Write(..)) && kept(*at));
        for (at, operation) in self.pending.iter().enumerate().filter(|(at, _)| kept(*at)) {
            match operation {
                Operation::Write(inode, content) => {
                    let length = if torn && last_write == Some(at) {
                        content.len() / 2
                    } else {
                        content.len()
                    };
                    contents.insert(*inode, Arc::new(content[..length].to_vec()));
                }
                Operation::Name { removed, made, .. } => {
                    if let Some(path) = removed {
                        names.remove(path);
                    }
                    if let Some((path, node)) = made {
                        names.insert(path.clone(), *node);
                    }
                }
            }
        }
        // What stands in a directory that is not there is not there either.
        let mut image = Image::new();
        for (path, node) in names {
            let parent = path.parent().expect("a path below the root");
            if parent.as_os_str().is_empty() || image.get(parent).is_some_and(Option::is_none) {
                let content = match node {
                    Node::Directory => None,
                    Node::File(inode) => Some(contents.get(&inode).cloned().unwrap_or_default()),
                };
                image.insert(path, content);
            }
        }
        image
    }
}

impl State {
    /// A number that no other disk of this run gives either: a file that a power cut left has
    /// another time than before.
    fn number() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }

    fn file(&self, path: &Path) -> io::Result<Inode> {
        match self.names.get(path) {
            Some(Node::File(inode)) => Ok(*inode),
            Some(Node::Directory) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn stat(&self, path: &Path) -> Option<Stat> {
        let node = self.names.get(path)?;
        Some(match node {
            Node::Directory => Stat {
                kind: EntryKind::Directory,
                size: 0,
                modified: 0,
            },
            Node::File(inode) => {
                let (content, modified) = &self.contents[inode];
                let size = u64::try_from(content.len()).expect("small");
                Stat {
                    kind: EntryKind::File,
                    size,
                    modified: *modified,
                }
            }
        })
    }

    fn name(&mut self, directory: &Path, removed: Option<&Path>, made: Option<(&Path, Node)>) {
        if let Some(path) = removed {
            self.names.remove(path);
        }
        if let Some((path, node)) = made {
            self.names.insert(path.to_path_buf(), node);
        }
        let (removed, made) = (
            removed.map(Path::to_path_buf),
            made.map(|(path, node)| (path.to_path_buf(), node)),
        );
        self.durable.pending.push(Operation::Name {
            directory: directory.to_path_buf(),
            removed,
            made,
        });
    }

    fn settle(&mut self, is_synced: impl Fn(&Operation) -> bool) {
        let (done, left) = std::mem::take(&mut self.durable.pending)
            .into_iter()
            .partition(is_synced);
        self.durable.pending = left;
        let done: Vec<Operation> = done;
        for operation in done {
            match operation {
                Operation::Write(inode, content) => {
                    drop(self.durable.contents.insert(inode, content))
                }
                Operation::Name { removed, made, .. } => {
                    if let Some(path) = removed {
                        self.durable.names.remove(&path);
                    }
                    self.durable.names.extend(made);
                }
            }
        }
    }

    fn write(&mut self, path: &Path, content: &[u8]) {
        let (inode, modified) = (Self::number(), Self::number());
        let content: Content = Arc::new(content.to_vec());
        self.contents.insert(
            inode,
            (
                Arc::clone(&content),
                i64::try_from(modified).expect("small"),
            ),
        );
        let parent = path.parent().expect("a directory").to_path_buf();
        self.name(&parent, None, Some((path, Node::File(inode))));
        self.durable.pending.push(Operation::Write(inode, content));
    }
}

impl RecordingFs {
    pub(crate) fn new(root: &Path) -> Self {
        Self {
            root: root.to_path_buf(),
            state: Mutex::default(),
            watch: Mutex::default(),
        }
    }

    /// A file system that holds what a power cut left.
    pub(crate) fn from_image(root: &Path, image: &Image) -> Self {
        let fs = Self::new(root);
        {
            let mut state = fs.state.lock().expect("not poisoned");
            for (path, content) in image {
                match content {
                    None => drop(state.names.insert(path.clone(), Node::Directory)),
                    Some(content) => state.write(path, content),
                }
            }
            state.settle(|_| true);
            state.durable.names = state.names.clone();
        }
        fs
    }

    pub(crate) fn watch(&self, watch: Option<Watch>) {
        *self.watch.lock().expect("not poisoned") = watch;
    }

    /// A person writes a file, and it is on the disk at once; says whether its directory was there.
    pub(crate) fn write_by_hand(&self, path: &str, content: &str) -> bool {
        let mut state = self.state.lock().expect("not poisoned");
        let directory = Path::new(path).parent().expect("a directory");
        if state.names.get(directory) != Some(&Node::Directory) {
            return false;
        }
        state.write(Path::new(path), content.as_bytes());
        let is_this = |operation: &Operation| match operation {
            Operation::Write(..) => true,
            Operation::Name { made, .. } => made
                .as_ref()
                .is_some_and(|(made, _)| made == Path::new(path)),
        };
        state.settle(is_this);
        true
    }

    pub(crate) fn text(&self, path: &str) -> Option<String> {
        let state = self.state.lock().expect("not poisoned");
        let inode = state.file(Path::new(path)).ok()?;
        Some(String::from_utf8(state.contents[&inode].0.to_vec()).expect("text"))
    }

    /// All files as they are seen now.
    pub(crate) fn image(&self) -> Image {
        let state = self.state.lock().expect("not poisoned");
        let content = |node: &Node| match node {
            Node::Directory => None,
            Node::File(inode) => Some(Arc::clone(&state.contents[inode].0)),
        };
        state
            .names
            .iter()
            .map(|(path, node)| (path.clone(), content(node)))
            .collect()
    }

    fn below(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.root).unwrap_or(path).to_path_buf()
    }

    fn tell(&self, call: Call<'_>) {
        if let Some(watch) = &mut *self.watch.lock().expect("not poisoned") {
            let disk = self.state.lock().expect("not poisoned").durable.clone();
            watch(disk, call);
        }
    }

    fn change<T>(
        &self,
        call: Call<'_>,
        work: impl FnOnce(&mut State) -> io::Result<T>,
    ) -> io::Result<T> {
        self.tell(call);
        work(&mut self.state.lock().expect("not poisoned"))
    }
}

impl FileIo for RecordingFs {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let state = self.state.lock().expect("not poisoned");
        let content = &state.contents[&state.file(&self.below(path))?].0;
        if u64::try_from(content.len()).is_ok_and(|length| length > limit) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(content.to_vec())
    }

    fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        let state = self.state.lock().expect("not poisoned");
        Ok(state.stat(&self.below(path)))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<Entry>> {
        let (state, directory) = (
            self.state.lock().expect("not poisoned"),
            self.below(directory),
        );
        let inside = state
            .names
            .iter()
            .filter(|(path, _)| path.parent() == Some(&directory));
        let entry = |(path, node): (&PathBuf, &Node)| Entry {
            name: path.file_name().map(OsString::from).expect("a name"),
            kind: if *node == Node::Directory {
                EntryKind::Directory
            } else {
                EntryKind::File
            },
        };
        Ok(inside.map(entry).collect())
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let path = self.below(path);
        self.change(Call::Other, |state| {
            if !state.names.contains_key(&path) {
                state.name(
                    path.parent().expect("a directory"),
                    None,
                    Some((&path, Node::Directory)),
                );
            }
            Ok(())
        })
    }

    fn write_temp(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let path = self.below(path);
        self.change(Call::Other, |state| {
            state.write(&path, content);
            Ok(())
        })
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        let path = self.below(path);
        self.change(Call::Other, |state| {
            let inode = state.file(&path)?;
            state.settle(
                |operation| matches!(operation, Operation::Write(written, _) if *written == inode),
            );
            Ok(())
        })
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let path = self.below(path);
        self.change(Call::Other, |state| {
            state.settle(|operation| matches!(operation, Operation::Name { directory, .. } if *directory == path));
            Ok(())
        })
    }

    fn sync_all(&self, _: &Path) -> io::Result<bool> {
        self.change(Call::Other, |state| {
            state.settle(|_| true);
            Ok(true)
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (self.below(from), self.below(to));
        self.change(Call::Replace(&to), |state| {
            let node = Node::File(state.file(&from)?);
            state.name(
                to.parent().expect("a directory"),
                Some(&from),
                Some((&to, node)),
            );
            Ok(())
        })?;
        self.tell(Call::Replaced(&to));
        Ok(())
    }

    fn replace(&self, temp: &Path, path: &Path, expected: Option<Stat>) -> io::Result<bool> {
        let (from, to) = (self.below(temp), self.below(path));
        let done = self.change(Call::Replace(&to), |state| {
            if state.stat(&to) != expected {
                return Ok(false);
            }
            let node = Node::File(state.file(&from)?);
            let parent = to.parent().expect("a directory");
            state.name(parent, Some(&from), Some((&to, node)));
            Ok(true)
        })?;
        self.tell(Call::Replaced(&to));
        Ok(done)
    }

    fn remove_known(&self, path: &Path, _: &Path, expected: Stat) -> io::Result<bool> {
        let path = self.below(path);
        self.change(Call::Remove(&path), |state| {
            if state.stat(&path) != Some(expected) {
                return Ok(false);
            }
            state.name(path.parent().expect("a directory"), Some(&path), None);
            Ok(true)
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let path = self.below(path);
        self.change(Call::Remove(&path), |state| {
            if state.names.contains_key(&path) {
                state.name(path.parent().expect("a directory"), Some(&path), None);
            }
            Ok(())
        })
    }

    fn remove_dir(&self, path: &Path) -> io::Result<bool> {
        let path = self.below(path);
        self.change(Call::Other, |state| {
            let empty = !state.names.keys().any(|name| name.parent() == Some(&path));
            if empty && state.names.contains_key(&path) {
                state.name(path.parent().expect("a directory"), Some(&path), None);
                return Ok(true);
            }
            Ok(false)
        })
    }
}

/// The names of all files of an image, for comparing.
pub(crate) fn files(image: &Image) -> BTreeSet<(PathBuf, Vec<u8>)> {
    image
        .iter()
        .filter_map(|(path, content)| Some((path.clone(), content.as_ref()?.to_vec())))
        .collect()
}
