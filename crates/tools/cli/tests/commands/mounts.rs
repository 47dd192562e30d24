//! flexspace mount: spaces as files, used by ordinary programs through the kernel.
//!
//! If the kernel has no file systems in user space, or they take a program that is not there, each
//! test says so and how many were skipped.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rand::RngExt;
use tempfile::TempDir;

use crate::program::{Said, Small, command, finish, run};

static SKIPPED: AtomicUsize = AtomicUsize::new(0);

/// Why nothing can be mounted here, if so.
fn obstacle() -> Option<&'static str> {
    let has_program = || Command::new("fusermount3").arg("-V").output().is_ok();
    let id = Command::new("id").arg("-u").output().expect("id");
    if !Path::new("/dev/fuse").exists() {
        Some("there is no /dev/fuse")
    } else if id.stdout != b"0\n" && !has_program() {
        Some("there is no fusermount3, and this is not root")
    } else {
        None
    }
}

/// Says that a test is skipped, also if the output of tests is kept back.
fn is_skipped(test: &str) -> bool {
    let Some(why) = obstacle() else { return false };
    let count = SKIPPED.fetch_add(1, Relaxed) + 1;
    let _ = writeln!(std::io::stderr(), "skipped {test}: {why} ({count} skipped so far)");
    true
}

/// A mount that ends with this.
struct Mount {
    child: Child,
    /// Its output when it was ready.
    said: BufReader<std::process::ChildStdout>,
    dir: TempDir,
}

impl Mount {
    /// A directory of spaces, without any.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["spaces", "mnt"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        Self::of(dir, "spaces", &[])
    }

    fn of(dir: TempDir, source: &str, rest: &[&str]) -> Self {
        let mut child = command()
            .args(["flexspace", "mount", "--json", "--segment", "64kb"])
            .args([dir.path().join(source), dir.path().join("mnt")])
            .args(rest)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut said = BufReader::new(child.stdout.take().expect("it was piped"));
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert!(line.contains("\"mounted\""), "{line:?}");
        Self { child, said, dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("mnt").join(name)
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }

    /// Ends it by a signal, and returns its directory with its exit code.
    fn end(mut self, signal: &str) -> (TempDir, Option<i32>) {
        self.signal(signal);
        let mut rest = String::new();
        self.said.read_to_string(&mut rest).unwrap();
        let code = self.child.wait().unwrap().code();
        let dir = std::mem::replace(&mut self.dir, tempfile::tempdir().unwrap());
        (dir, code)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            self.signal("-TERM");
            let _ = self.child.wait();
        }
    }
}

/// Runs an ordinary program.
fn tool(program: &str, arguments: &[&str], paths: &[&Path]) -> Said {
    finish(Command::new(program).args(arguments).args(paths), b"")
}

fn fine(program: &str, arguments: &[&str], paths: &[&Path]) -> String {
    let said = tool(program, arguments, paths);
    assert_eq!(said.code, 0, "{program} {arguments:?} {paths:?}: {said:?}");
    said.out
}

#[expect(clippy::disallowed_methods, reason = "a file as any program has it")]
fn open(path: &Path, append: bool) -> File {
    OpenOptions::new().read(true).write(!append).append(append).create(true).open(path).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "a file as any program has it")]
fn bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "makes what the test is about")]
fn put(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap();
}

fn numbers(count: u32) -> Vec<u8> {
    (0..count).flat_map(|number| number.to_le_bytes()).collect()
}

#[test]
fn ordinary_programs_work_with_spaces() {
    if is_skipped("ordinary_programs_work_with_spaces") {
        return;
    }
    let mount = Mount::new();
    let plain = mount.dir.path().join("plain");
    let mut model = numbers(300_000);
    put(&plain, &model);
    let (file, other) = (mount.path("a file"), mount.path("other"));
    fine("cp", &[], &[&plain, &file]);
    fine("cmp", &[], &[&plain, &file]);
    let size = fine("stat", &["-c", "%s %F"], &[&file]);
    assert_eq!(size, "1200000 regular file\n");
    // In the middle, over existing bytes, at no block's border.
    let to = format!("of={}", file.display());
    fine("dd", &["if=/dev/zero", "bs=777", "count=3", "seek=101", "conv=notrunc", &to], &[]);
    model[777 * 101..777 * 104].fill(0);
    fine("dd", &["if=/dev/zero", "bs=5", "count=1", "oflag=append", "conv=notrunc", &to], &[]);
    model.extend_from_slice(&[0; 5]);
    assert!(bytes(&file) == model, "what dd wrote");
    fine("truncate", &["-s", "1000001"], &[&file]);
    model.truncate(1_000_001);
    fine("truncate", &["-s", "+70000"], &[&file]);
    model.resize(1_070_001, 0);
    put(&plain, &model);
    fine("cmp", &[], &[&plain, &file]);
    assert_eq!(fine("tail", &["-c", "3"], &[&file]).into_bytes(), [0; 3]);
    let stored: u64 = fine("stat", &["-c", "%b"], &[&file]).trim().parse().unwrap();
    assert_eq!(stored, 1_000_001_u64.div_ceil(512), "what was added is a hole");

    fine("cp", &["--sparse=auto"], &[&file, &other]);
    fine("mv", &[], &[&other, &file]);
    fine("cmp", &[], &[&plain, &file]);
    fine("chmod", &["640"], &[&file]);
    fine("touch", &["-d", "2001-02-03 04:05:06 UTC"], &[&file]);
    assert_eq!(fine("stat", &["-c", "%a %Y"], &[&file]), "640 981173106\n");
    let script = "import mmap, os, sys\n\
                  f = os.open(sys.argv[1], os.O_RDWR)\n\
                  os.pwrite(f, b'python', 99)\n\
                  os.fsync(f)\n\
                  with mmap.mmap(f, 0, mmap.MAP_PRIVATE) as m: assert m[99:105] == b'python'\n";
    fine("python3", &["-c", script], &[&file]);
    model[99..105].copy_from_slice(b"python");
    assert_eq!(fine("ls", &[], &[&mount.path("")]), "a file\n");
    put(&mount.path("short"), b"line\n");
    fine("grep", &["-q", "line"], &[&mount.path("short")]);
    fine("rm", &[], &[&mount.path("short")]);
    assert!(tool("mkdir", &[], &[&mount.path("dir")]).err.contains("not permitted"));

    let (dir, code) = mount.end("-INT");
    assert_eq!(code, Some(0));
    let space = dir.path().join("spaces/a file");
    let cat = finish(command().args(["flexspace", "cat"]).arg(&space), b"");
    assert!(cat.bytes == model, "what the space holds");
    assert_eq!(finish(command().args(["flexspace", "check"]).arg(&space), b"").code, 0);
}

#[test]
fn bytes_come_and_go_at_any_offset_of_an_open_file() {
    if is_skipped("bytes_come_and_go_at_any_offset_of_an_open_file") {
        return;
    }
    let seed = seed();
    let mut random = environment::Seed::from(seed).stream("shifts");
    let mount = Mount::new();
    let path = mount.path("file");
    // A process that has the file open sees the changes of others immediately, and appends at the
    // present end.
    let (file, appending) = (open(&path, false), open(&path, true));
    let mut model: Vec<u8> = Vec::new();
    for step in 0..400_u32 {
        let len = model.len();
        let (offset, length) = (random.random_range(0..=len), random.random_range(1..5000_usize));
        let data = vec![step as u8; length];
        match random.random_range(0..5) {
            0 => {
                mount::insert(&path, offset as u64, &data).unwrap();
                model.splice(offset..offset, data);
            }
            1 if offset < len => {
                let length = length.min(len - offset);
                mount::collapse(&path, offset as u64, length as u64).unwrap();
                model.drain(offset..offset + length);
            }
            2 => {
                (&appending).write_all(&data).unwrap();
                model.extend_from_slice(&data);
            }
            3 => {
                file.write_all_at(&data, offset as u64).unwrap();
                model.resize(len.max(offset + length), 0);
                model[offset..offset + length].copy_from_slice(&data);
            }
            _ => {
                file.set_len(offset as u64).unwrap();
                model.truncate(offset);
            }
        }
        let mut found = vec![0; model.len()];
        file.read_exact_at(&mut found, 0).unwrap();
        assert!(found == model, "seed {seed}, step {step}: other bytes");
        assert_eq!(file.read_at(&mut [0; 9], model.len() as u64).unwrap(), 0, "step {step}");
        assert_eq!((&file).seek(SeekFrom::End(0)).unwrap(), model.len() as u64, "step {step}");
        assert_eq!(file.metadata().unwrap().len(), model.len() as u64, "step {step}");
    }
}

/// Returns a seed and prints it, so that a failure can be replayed.
fn seed() -> u64 {
    let seed = std::env::var("THERMOCLINE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| environment::Seed::from_entropy().get());
    println!("THERMOCLINE_SEED={seed}");
    seed
}

#[test]
fn the_commands_and_attributes_shift_what_is_mounted() {
    if is_skipped("the_commands_and_attributes_shift_what_is_mounted") {
        return;
    }
    let mount = Mount::new();
    let path = mount.path("text");
    put(&path, b"the water");
    let on = |name: &str, rest: &[&str], input: &[u8]| {
        finish(command().args(["flexspace", name]).arg(&path).args(rest), input)
    };
    let put = on("insert", &["4"], b"warm ");
    assert_eq!(
        (put.code, put.err.as_str()),
        (0, "inserted 5 bytes at 4; now 14 bytes\n"),
        "{put:?}"
    );
    let long = vec![b'x'; 200_001];
    assert_eq!(on("insert", &["end"], &long).code, 0);
    let gone = on("collapse", &["14", "end", "--json"], b"").json();
    assert_eq!((&gone["removed"], &gone["len"]), (&200_001.into(), &14.into()));
    assert_eq!((on("insert", &["15"], b"x").code, on("collapse", &["3", "12"], b"").code), (2, 2));
    let script = "import os, sys\n\
                  f = os.open(sys.argv[1], os.O_RDWR)\n\
                  os.setxattr(f, 'user.flexspace.insert@3', b' cold and the')\n\
                  os.setxattr(f, 'user.flexspace.collapse', b'0 4')\n\
                  os.setxattr(f, 'user.flexspace.insert', b'1 2')\n\
                  print(os.pread(f, 100, 0))\n";
    let said = fine("python3", &["-c", script], &[&path]);
    assert_eq!(said, "b'c\\x00\\x00old and the warm water'\n");
    let bad = "import os, sys\n\
               for name, value in [('insert', b'99 1'), ('insert', b'x'), ('collapse', b'0 99')]:\n\
               \x20   try: os.setxattr(sys.argv[1], 'user.flexspace.' + name, value)\n\
               \x20   except OSError as e: print(e.errno)\n";
    assert_eq!(fine("python3", &["-c", bad], &[&path]), "22\n22\n22\n");
    // For a file outside of every mount the command says so.
    let plain = mount.dir.path().join("plain");
    self::put(&plain, b"plain");
    let said = finish(command().args(["flexspace", "insert"]).arg(&plain).arg("0"), b"x");
    assert_eq!((said.code, said.err.contains("no mounted flexspace")), (4, true), "{said:?}");
}

/// More names than the kernel requests in one call; each is removed once it was read.
#[test]
fn a_directory_is_emptied_by_who_reads_it() {
    if is_skipped("a_directory_is_emptied_by_who_reads_it") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let spaces = dir.path().join("spaces");
    std::fs::create_dir(dir.path().join("mnt")).unwrap();
    std::fs::create_dir(&spaces).unwrap();
    let name = |number: u32| spaces.join(format!("{number:0200}"));
    let made =
        finish(command().args(["flexspace", "create", "--segment", "16kb"]).arg(name(0)), b"");
    assert_eq!(made.code, 0, "{made:?}");
    #[expect(clippy::disallowed_methods, reason = "so that there is little to copy")]
    std::fs::remove_file(name(0).join("ballast")).unwrap();
    for number in 1..400 {
        fine("cp", &["-r"], &[&name(0), &name(number)]);
    }
    let mount = Mount::of(dir, "spaces", &[]);
    let script = "import os, sys\n\
                  with os.scandir(sys.argv[1]) as found:\n\
                  \x20   for file in found: os.unlink(file.path)\n\
                  print(os.listdir(sys.argv[1]))\n";
    assert_eq!(fine("python3", &["-c", script], &[&mount.path("")]), "[]\n");
    for (program, arguments) in [("mkfifo", &[][..]), ("ln", &["-s", "file"])] {
        let said = tool(program, arguments, &[&mount.path("link")]);
        assert!(said.err.contains("not permitted"), "{said:?}");
    }
}

#[test]
fn fallocate_makes_holes_and_the_kernel_keeps_shifts_to_itself() {
    if is_skipped("fallocate_makes_holes_and_the_kernel_keeps_shifts_to_itself") {
        return;
    }
    let mount = Mount::new();
    let path = mount.path("file");
    let mut model = vec![7; 100_000];
    put(&path, &model);
    fine("fallocate", &["--punch-hole", "-o", "1001", "-l", "50001"], &[&path]);
    model[1001..51_002].fill(0);
    assert!(bytes(&path) == model, "a hole at no block's border");
    fine("fallocate", &["--zero-range", "-o", "99990", "-l", "20"], &[&path]);
    model.resize(100_010, 0);
    model[99_990..].fill(0);
    fine("fallocate", &["-l", "200001"], &[&path]);
    model.resize(200_001, 0);
    fine("fallocate", &["-n", "-l", "300000"], &[&path]);
    assert!(bytes(&path) == model, "longer by zeros, and no more than asked for");
    let stored = std::fs::metadata(&path).unwrap().blocks() * 512;
    assert!((49_990..51_000).contains(&stored), "{stored} bytes are stored");
    // Linux has these end in its own half of FUSE.
    for flag in ["--insert-range", "--collapse-range"] {
        let said = tool("fallocate", &[flag, "-o", "4096", "-l", "4096"], &[&path]);
        assert!(said.code != 0 && said.err.contains("not supported"), "{said:?}");
    }
    let said = tool("truncate", &["-s", "7E"], &[&path]);
    assert!(said.code != 0 && said.err.contains("too large"), "{said:?}");
    assert!(bytes(&path) == model, "what is refused changes nothing");
}

#[test]
fn what_was_synced_survives_a_kill_and_the_mountpoint_is_used_again() {
    if is_skipped("what_was_synced_survives_a_kill_and_the_mountpoint_is_used_again") {
        return;
    }
    let mut mount = Mount::new();
    let mut expected = Vec::new();
    for round in 0..5_u8 {
        let path = mount.path("file");
        let file = open(&path, true);
        assert_eq!(bytes(&path), expected, "round {round}");
        (&file).write_all(&[round; 30_000]).unwrap();
        mount::insert(&path, 10, &[b'a' + round; 1000]).unwrap();
        file.sync_all().unwrap();
        expected.extend_from_slice(&[round; 30_000]);
        expected.splice(10..10, [b'a' + round; 1000]);
        let name = format!("made {round}");
        open(&mount.path(&name), false).sync_all().unwrap();
        drop(file);
        let (dir, _) = mount.end("-KILL");
        mount = Mount::of(dir, "spaces", &[]);
        assert!(mount.path(&name).exists());
    }
    assert_eq!(bytes(&mount.path("file")), expected);
    // And without any sync when it ends well, also with the file open.
    let file = open(&mount.path("file"), true);
    (&file).write_all(b"the end").unwrap();
    expected.extend_from_slice(b"the end");
    let (dir, code) = mount.end("-TERM");
    assert_eq!(code, Some(0));
    assert!(file.metadata().is_err(), "it is gone");
    drop(file);
    let mount = Mount::of(dir, "spaces/file", &[]);
    assert_eq!(fine("ls", &[], &[&mount.path("")]), "file\n");
    assert_eq!(bytes(&mount.path("file")), expected);
    let said = tool("touch", &[], &[&mount.path("other")]);
    assert!(said.code != 0, "one space has no other names");
}

#[test]
fn a_mount_that_is_unmounted_ends_with_everything_stored() {
    if is_skipped("a_mount_that_is_unmounted_ends_with_everything_stored") {
        return;
    }
    let mut mount = Mount::new();
    put(&mount.path("file"), &[5; 200_000]);
    std::fs::set_permissions(mount.path("file"), PermissionsExt::from_mode(0o600)).unwrap();
    fine("umount", &[], &[&mount.path("")]);
    assert_eq!(mount.child.wait().unwrap().code(), Some(0));
    let dir = std::mem::replace(&mut mount.dir, tempfile::tempdir().unwrap());
    let mount = Mount::of(dir, "spaces", &["--read-only"]);
    let about = std::fs::metadata(mount.path("file")).unwrap();
    assert_eq!((about.len(), about.mode() & 0o7777), (200_000, 0o600));
    let said = tool("truncate", &["-s", "1"], &[&mount.path("file")]);
    assert!(said.code != 0 && said.err.contains("Read-only"), "{said:?}");
    assert_eq!(bytes(&mount.path("file")), [5; 200_000]);
}

#[test]
fn what_cannot_be_mounted_is_reported() {
    if is_skipped("what_cannot_be_mounted_is_reported") {
        return;
    }
    let mount = Mount::new();
    let dir = mount.dir.path();
    let (spaces, free) = (dir.join("spaces"), dir.join("free"));
    std::fs::create_dir(&free).unwrap();
    let on = |source: &Path, at: &Path, rest: &[&str]| {
        finish(command().args(["flexspace", "mount"]).args([source, at]).args(rest), b"")
    };
    let said = on(&spaces, &free, &[]);
    assert_eq!((said.code, said.err.contains("mounted already")), (5, true), "{said:?}");
    assert_eq!(on(&dir.join("nothing"), &free, &[]).code, 4);
    let other = dir.join("other");
    std::fs::create_dir(&other).unwrap();
    assert_eq!(on(&other, &dir.join("nothing"), &[]).code, 2);
    assert_eq!(on(&other, &other, &[]).code, 2);
    assert_eq!(on(&other, dir, &[]).code, 2);
    put(&dir.join("plain"), b"");
    assert_eq!(on(&other, &dir.join("plain"), &[]).code, 2);
    assert_eq!(on(&other, &free, &["--segment", "3mb"]).code, 2);
    assert_eq!(run(["flexspace", "mount"]).code, 2);
    // A space that another process has open is there, and cannot be read.
    put(&mount.path("file"), b"bytes");
    let (dir, _) = mount.end("-TERM");
    let space = dir.path().join("spaces/file");
    let lock = device::open(&space, device::Options::default()).unwrap().lock("lock").unwrap();
    let mount = Mount::of(dir, "spaces", &[]);
    let said = tool("cat", &[], &[&mount.path("file")]);
    assert!(said.code != 0 && said.err.contains("busy"), "{said:?}");
    drop(lock);
    assert_eq!(bytes(&mount.path("file")), b"bytes");
}

#[test]
fn a_full_device_says_so_and_goes_on() {
    let test = "a_full_device_says_so_and_goes_on";
    if is_skipped(test) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for name in ["spaces", "mnt"] {
        std::fs::create_dir(dir.path().join(name)).unwrap();
    }
    let spaces = dir.path().join("spaces");
    let Some(_small) = Small::mount(&spaces, "24m") else { return };
    let mount = Mount::of(dir, "spaces", &[]);
    let (kept, path) = (mount.path("kept"), mount.path("file"));
    put(&kept, &numbers(200_000));
    let to = format!("of={}", path.display());
    let said = tool("dd", &["if=/dev/urandom", "bs=100000", "count=1000", &to], &[]);
    assert!(said.code != 0 && said.err.contains("No space left"), "{said:?}");
    let len = std::fs::metadata(&path).unwrap().len();
    assert!(len > 5_000_000, "{len} bytes had room");
    open(&path, false).sync_all().unwrap();
    assert!(bytes(&kept) == numbers(200_000), "the other file");
    fine("truncate", &["-s", "100000"], &[&path]);
    open(&path, false).sync_all().unwrap();
    fine(
        "dd",
        &["if=/dev/zero", "bs=100000", "count=10", "oflag=append", "conv=notrunc", &to],
        &[],
    );
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 1_100_000);
    fine("rm", &[], &[&path]);
    assert!(bytes(&kept) == numbers(200_000), "the other file");
}
