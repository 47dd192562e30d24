//! A memory cgroup for one run, of either version, left and removed on drop.
//!
//! 1. Find the group the process is in, and a place below or next to it where a group with the
//!    memory controller can be made.
//! 2. Make `thermocline-bench-PID` there, set its limit, move the process in. Memory touched before
//!    stays charged to the old group: so the harness's version table is not counted.
//! 3. On drop move the process back and remove the group. A run that was killed cannot; the next
//!    one removes what it finds empty.
#![expect(clippy::disallowed_methods, reason = "a cgroup's files are no storage of the database")]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Bytes that the harness itself needs above a store's budget: stacks, histograms, key and value
/// buffers.
pub const HARNESS_BYTES: u64 = 16 << 20;

const GROUP_PREFIX: &str = "thermocline-bench-";

/// The group that this process is in until it is dropped.
#[derive(Debug)]
pub struct MemoryGroup {
    path: PathBuf,
    home: PathBuf,
    version: Version,
    limit_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    One,
    Two,
}

impl MemoryGroup {
    /// Puts this process into a group that may use `limit_bytes`, page cache included.
    ///
    /// # Errors
    /// No memory controller is mounted, or it is not this user's to write; the text says which.
    pub fn enter(limit_bytes: u64) -> io::Result<Self> {
        let (version, home, parents) = places()?;
        let mut refusal = io::Error::new(io::ErrorKind::NotFound, "no memory cgroup controller");
        for parent in parents {
            remove_leftovers(&parent);
            match Self::enter_below(&parent, version, &home, limit_bytes) {
                Ok(group) => return Ok(group),
                Err(error) => refusal = error,
            }
        }
        Err(refusal)
    }

    fn enter_below(
        parent: &Path,
        version: Version,
        home: &Path,
        limit_bytes: u64,
    ) -> io::Result<Self> {
        let path = parent.join(format!("{GROUP_PREFIX}{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| named(&path, &error))?;
        // From here on drop cleans up after any failure.
        let group = Self { path, home: home.to_owned(), version, limit_bytes };
        let limit = limit_bytes.to_string();
        match version {
            Version::One => group.write("memory.limit_in_bytes", &limit)?,
            Version::Two => {
                group.write("memory.max", &limit)?;
                // A kernel without swap accounting has no such file, and nothing to limit.
                let _ = group.write("memory.swap.max", "0");
            }
        }
        group.write("cgroup.procs", &std::process::id().to_string())?;
        Ok(group)
    }

    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        let path = self.path.join(file);
        fs::write(&path, text).map_err(|error| named(&path, &error))
    }

    /// The limit in bytes.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// Returns the most bytes that were charged at any moment, page cache included.
    pub fn peak_bytes(&self) -> Option<u64> {
        let file = match self.version {
            Version::One => "memory.max_usage_in_bytes",
            Version::Two => "memory.peak",
        };
        fs::read_to_string(self.path.join(file)).ok()?.trim().parse().ok()
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let _ = fs::write(self.home.join("cgroup.procs"), std::process::id().to_string());
        if self.version == Version::One {
            // The page cache is charged to the group and would keep it alive as a ghost.
            let _ = fs::write(self.path.join("memory.force_empty"), "0");
        }
        let _ = fs::remove_dir(&self.path);
    }
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Removes groups of runs that were killed: the removal fails for a group that still has a process.
fn remove_leftovers(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(GROUP_PREFIX) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Returns the controller's version, the group this process is in, and the places for a group.
fn places() -> io::Result<(Version, PathBuf, Vec<PathBuf>)> {
    let membership = fs::read_to_string("/proc/self/cgroup")?;
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    find(&membership, &mounts).ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, "no memory cgroup controller is mounted")
    })
}

/// Reads `/proc/self/cgroup` and `/proc/self/mountinfo`. If version 1 still has the memory
/// controller, version 2 cannot have it.
pub(super) fn find(membership: &str, mounts: &str) -> Option<(Version, PathBuf, Vec<PathBuf>)> {
    let one = membership.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let controllers = fields.next()?;
        controllers.split(',').any(|name| name == "memory").then(|| fields.next())?
    });
    if let Some(group) = one {
        let home = mounted(mounts, group, |kind, options| {
            kind == "cgroup" && options.split(',').any(|option| option == "memory")
        })?;
        return Some((Version::One, home.clone(), vec![home]));
    }
    let group = membership.lines().find_map(|line| line.strip_prefix("0::"))?;
    let home = mounted(mounts, group, |kind, _| kind == "cgroup2")?;
    // A group with processes cannot have children with the controller, unless it is the root: then
    // the new group is made next to it.
    let parents = [Some(home.as_path()), home.parent()].into_iter().flatten();
    let parents = parents.map(Path::to_owned).collect();
    Some((Version::Two, home, parents))
}

/// Returns the directory in which the file system shows `group`: the mount of the right kind, with
/// its root cut off.
fn mounted(mounts: &str, group: &str, right: impl Fn(&str, &str) -> bool) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let (root, point) = (before.next()?, before.next()?);
        let mut after = after.split(' ');
        let (kind, options) = (after.next()?, after.nth(1)?);
        if !right(kind, options) {
            return None;
        }
        let below = if root == "/" { group } else { group.strip_prefix(root).unwrap_or(group) };
        Some(Path::new(point).join(below.trim_start_matches('/')))
    })
}
