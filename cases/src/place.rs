//! The directory of a case, the programs that it runs there, and sizes of files.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Time that a command which a case runs may take.
const COMMAND_MAX: Duration = Duration::from_secs(60);
/// Characters of a line in a summary.
const LINE_MAX: usize = 160;
/// Time between two checks of a condition.
const STEP: Duration = Duration::from_millis(50);

/// The empty directory of a case.
pub(crate) struct Place {
    directory: PathBuf,
}

/// The end of a command: its exit code, and its output on both streams.
#[derive(Clone, Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) text: String,
}

impl Ran {
    pub(crate) fn is_success(&self) -> bool {
        self.code == Some(0)
    }

    /// Returns the exit code and the first line of the output.
    pub(crate) fn summary(&self) -> String {
        let code = self.code.map_or("no exit code".to_owned(), |code| format!("exit code {code}"));
        match self.text.trim().lines().next() {
            Some(line) => format!("{code}: {}", line.chars().take(LINE_MAX).collect::<String>()),
            None => code,
        }
    }
}

impl Place {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Runs `thermocline` with these arguments in the directory.
    pub(crate) fn thermocline(&self, arguments: &[&str]) -> Result<Ran> {
        self.run(Command::new(program()?).args(arguments))
    }

    /// Runs a script of the shell in the directory. In it `$T` is the program `thermocline`.
    pub(crate) fn shell(&self, script: &str) -> Result<Ran> {
        self.run(Command::new("sh").args(["-c", script]).env("T", program()?))
    }

    fn run(&self, command: &mut Command) -> Result<Ran> {
        let output = self.path("output");
        let file = fs::File::create(&output)?;
        let mut child = command
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()?;
        if !wait(&mut child, COMMAND_MAX)? {
            kill(&mut child);
            return Ok(Ran { code: None, text: format!("no end after {COMMAND_MAX:?}") });
        }
        let mut text = Vec::new();
        fs::File::open(&output)?.read_to_end(&mut text)?;
        let code = child.wait()?.code();
        Ok(Ran { code, text: String::from_utf8_lossy(&text).into_owned() })
    }
}

/// Returns the program `thermocline`, which is built next to this one.
pub(crate) fn program() -> Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("thermocline"))
}

/// Waits for a process. Returns whether it ended in time.
pub(crate) fn wait(child: &mut Child, most: Duration) -> std::io::Result<bool> {
    let began = Instant::now();
    while child.try_wait()?.is_none() {
        if began.elapsed() >= most {
            return Ok(false);
        }
        sleep(STEP.min(most));
    }
    Ok(true)
}

/// Kills a process and its children, which /proc names.
pub(crate) fn kill(child: &mut Child) {
    kill_children(child.id());
    let _ = child.kill();
    let _ = child.wait();
}

fn kill_children(parent: u32) {
    let list = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    for id in list.unwrap_or_default().split_whitespace().filter_map(|id| id.parse::<u32>().ok()) {
        kill_children(id);
        if let Some(id) = i32::try_from(id).ok().and_then(Pid::from_raw) {
            let _ = kill_process(id, Signal::KILL);
        }
    }
}

/// Calls `is_done` until it returns true. Returns whether it did in time.
pub(crate) fn until(most: Duration, mut is_done: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    while !is_done() {
        if began.elapsed() >= most {
            return false;
        }
        sleep(STEP);
    }
    true
}

/// Returns the bytes that the files below a directory take on the device.
pub(crate) fn disk_bytes(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let files = files_below(directory);
    files.iter().filter_map(|file| fs::metadata(file).ok()).map(|data| data.blocks() * 512).sum()
}

/// Returns the files below a directory, sorted.
pub(crate) fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![directory.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(_) => files.push(entry.path()),
                Err(_) => {}
            }
        }
    }
    files.sort();
    files
}

/// Returns the number of descriptors that this process has open.
pub(crate) fn descriptors() -> Result<usize> {
    Ok(fs::read_dir("/proc/self/fd")?.count())
}

/// Copies a directory.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<()> {
    let status = Command::new("cp").arg("-r").arg(from).arg(to).status()?;
    if status.success() { Ok(()) } else { Err(format!("cp -r {from:?} {to:?} failed").into()) }
}

/// Removes the directory of a case, and unmounts what the case has mounted there.
pub(crate) fn remove(directory: &Path) {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mounted = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    for mounted in mounted.filter(|path| Path::new(path).starts_with(directory)) {
        let _ = Command::new("umount").arg(mounted).status();
    }
    let _ = fs::remove_dir_all(directory);
}
