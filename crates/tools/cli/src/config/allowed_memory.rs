//! The memory that this process may use: the machine's, or a control group's limit if it is less.
//!
//! (A container is a control group.)

use std::fs;
use std::path::Path;

/// The mounts of groups of version 1 with the memory controller, and of version 2, alone and next
/// to version 1; below the root directory.
const MOUNTS: [(&str, &str, Version); 3] = [
    ("sys/fs/cgroup/memory", "memory.limit_in_bytes", Version::One),
    ("sys/fs/cgroup", "memory.max", Version::Two),
    ("sys/fs/cgroup/unified", "memory.max", Version::Two),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// In bytes; `None` if the system does not say.
pub(super) fn of_process() -> Option<u64> {
    below(Path::new("/"))
}

/// The same, by the files below this directory.
fn below(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let of_groups = groups.lines().flat_map(|line| limits(root, line));
    of_groups.chain(of_machine(root)).min()
}

/// `MemTotal: 1234 kB`.
fn of_machine(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1 << 10)
}

/// Returns the limits of the group of this line, `NUMBER:CONTROLLERS:PATH`, and of the groups above
/// it. A container may see its group as the topmost one while the path is the one that the host
/// knows: then no directory of that name is there.
fn limits(root: &Path, line: &str) -> Vec<u64> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { return Vec::new() };
    let version = match controllers {
        "" => Version::Two,
        names if names.split(',').any(|name| name == "memory") => Version::One,
        _ => return Vec::new(),
    };
    let mounts = MOUNTS.iter().filter(|(.., of)| *of == version);
    let files = mounts.flat_map(|(mount, file, _)| {
        let groups = Path::new(path.trim_start_matches('/')).ancestors();
        groups.map(move |group| root.join(mount).join(group).join(file))
    });
    // Without a limit version 2 says `max`, and version 1 a number above all memory.
    files.filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok()).collect()
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "writes what the test reads")]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    /// Returns the memory that is allowed if these files are there.
    fn with(files: &[(&str, &str)]) -> Option<u64> {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let file = root.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        below(root.path())
    }

    #[test]
    fn the_least_of_machine_and_groups_counts() {
        let machine = ("proc/meminfo", "MemTotal:        8388608 kB\nMemFree: 1 kB\n");
        assert_eq!(with(&[]), None);
        assert_eq!(with(&[machine]), Some(8 * GIB));

        let in_one = ("proc/self/cgroup", "5:cpu,memory:/a/b\n1:cpuset:/a\n");
        let of_two = ("sys/fs/cgroup/memory.max", "1048576\n");
        let upper = ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1073741824\n");
        let lower = ("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(
            with(&[machine, in_one, lower, of_two]),
            Some(8 * GIB),
            "no limit, no group of version 2"
        );
        assert_eq!(with(&[machine, in_one, lower, upper]), Some(GIB), "the group above it");

        let in_two = ("proc/self/cgroup", "0::/a/b\n");
        let none = ("sys/fs/cgroup/a/memory.max", "max\n");
        let half = ("sys/fs/cgroup/a/b/memory.max", "536870912\n");
        let beside = ("sys/fs/cgroup/unified/a/memory.max", "268435456\n");
        assert_eq!(with(&[machine, in_two, none]), Some(8 * GIB));
        assert_eq!(with(&[machine, in_two, none, half]), Some(GIB / 2));
        assert_eq!(
            with(&[machine, in_two, half, beside]),
            Some(GIB / 4),
            "both versions are mounted"
        );
        let as_topmost = ("sys/fs/cgroup/memory.max", "134217728\n");
        assert_eq!(
            with(&[machine, in_two, as_topmost]),
            Some(GIB / 8),
            "a container's group is the topmost"
        );
    }

    #[test]
    fn this_machine_says_something() {
        assert!(of_process().is_some_and(|bytes| bytes > 1 << 20));
    }
}
