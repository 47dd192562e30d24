//! The kernel's requests, each passed on to a file or to the names.

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow,
    WriteFlags,
};
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;

use crate::attributes;
use crate::file::Sought;
use crate::listings::Listings;
use crate::names::{Names, ROOT};
use crate::node::Node;
use crate::refusal::{Outcome, Refusal};
use crate::shift::Shift;
use crate::source::NAME_BYTES_MAX;

/// Time for which the kernel keeps names: they change by its own calls, or when another program
/// makes spaces next to the mount.
const NAMES_FOR: Duration = Duration::from_secs(1);
/// And lengths: never (M1).
const LENGTHS_FOR: Duration = Duration::ZERO;

/// Numbers are not given out again, so one generation does.
const GENERATION: Generation = Generation(0);

/// `lseek`'s words for the kind of range that it looks for.
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

/// Unit of `stat` in which stored bytes are counted.
const STAT_BLOCK_BYTES: u64 = 512;
const BLOCK_BYTES: u32 = 4096;

/// The kernel's side of a mount.
#[derive(Debug)]
pub(crate) struct Requests {
    names: Arc<Names>,
    listings: Listings,
}

impl Requests {
    pub(crate) fn new(names: Arc<Names>) -> Self {
        Self { names, listings: Listings::default() }
    }

    fn of<T>(
        &self,
        ino: INodeNo,
        work: impl FnOnce(&Node) -> Outcome<T>,
    ) -> Result<T, fuser::Errno> {
        let done = self.names.node(ino.0).map_err(Refusal::from).and_then(|node| {
            let outcome = work(&node);
            // Its directory is looked up for failures alone.
            if outcome.as_ref().is_err_and(Refusal::is_failure) {
                self.names.reported(&node.dir(), outcome)
            } else {
                outcome
            }
        });
        done.map_err(|refusal| number(refusal.errno()))
    }

    fn stat(&self, node: &Node) -> Outcome<FileAttr> {
        let (len, stored, attributes) = node.stat()?;
        let time = attributes.modified;
        Ok(FileAttr {
            ino: INodeNo(node.number),
            size: len,
            blocks: stored.div_ceil(STAT_BLOCK_BYTES),
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind: FileType::RegularFile,
            perm: attributes.permissions,
            nlink: 1,
            uid: attributes.uid,
            gid: attributes.gid,
            rdev: 0,
            blksize: BLOCK_BYTES,
            flags: 0,
        })
    }

    fn stat_root(&self) -> Outcome<FileAttr> {
        let attributes = attributes::read(self.names.source().root())?;
        let time = attributes.modified;
        let perm = if self.names.source().is_one_space() { 0o555 } else { 0o755 };
        let (uid, gid) = (attributes.uid, attributes.gid);
        Ok(FileAttr {
            ino: INodeNo(ROOT),
            size: 0,
            blocks: 0,
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind: FileType::Directory,
            perm,
            nlink: 2,
            uid,
            gid,
            rdev: 0,
            blksize: BLOCK_BYTES,
            flags: 0,
        })
    }

    fn find(&self, name: &OsStr) -> Outcome<FileAttr> {
        let node = self.names.lookup(name)?;
        let found = self.names.reported(&node.dir(), self.stat(&node));
        // The kernel does not get this lookup.
        found.inspect_err(|_| self.names.forget(node.number, 1))
    }

    fn set(&self, node: &Node, asked: &Asked) -> Outcome<FileAttr> {
        if let Some(size) = asked.size {
            node.change(&self.names.environment, |file| file.set_len(size))?;
        }
        let dir = node.dir();
        if let Some(mode) = asked.mode {
            attributes::set_permissions(&dir, (mode & 0o7777) as u16)?;
        }
        if asked.uid.is_some() || asked.gid.is_some() {
            attributes::set_owner(&dir, asked.uid, asked.gid)?;
        }
        match asked.modified {
            Some(TimeOrNow::SpecificTime(time)) => node.set_modified(time)?,
            Some(TimeOrNow::Now) => {
                node.set_modified(SystemTime::UNIX_EPOCH + self.names.environment.wall())?;
            }
            None => {}
        }
        self.stat(node)
    }

    fn create(&self, request: &Request, name: &OsStr, permissions: u32) -> Outcome<FileAttr> {
        let permissions = (permissions & 0o7777) as u16;
        let node = self.names.create(name, permissions, (request.uid(), request.gid()))?;
        self.names.open(&node)?;
        node.looked_up();
        self.stat(&node).inspect_err(|_| {
            let _ = self.names.release(&node);
            self.names.forget(node.number, 1);
        })
    }
}

/// The changes that `setattr` may request.
struct Asked {
    size: Option<u64>,
    mode: Option<u32>,
    uid: Option<u32>,
    gid: Option<u32>,
    modified: Option<TimeOrNow>,
}

fn number(errno: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(errno.raw_os_error())
}

fn errno_of(refusal: &Refusal) -> fuser::Errno {
    number(refusal.errno())
}

impl Filesystem for Requests {
    fn lookup(&self, _: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.find(name) {
            Ok(attr) => reply.entry_with_ttls(&LENGTHS_FOR, &NAMES_FOR, &attr, GENERATION),
            Err(refusal) => reply.error(errno_of(&refusal)),
        }
    }

    fn forget(&self, _: &Request, ino: INodeNo, count: u64) {
        self.names.forget(ino.0, count);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let found = if ino.0 == ROOT {
            self.stat_root().map_err(|refusal| errno_of(&refusal))
        } else {
            self.of(ino, |node| self.stat(node))
        };
        match found {
            Ok(attr) => reply.attr(&LENGTHS_FOR, &attr),
            Err(errno) => reply.error(errno),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let asked = Asked { size, mode, uid, gid, modified };
        let done = if ino.0 == ROOT {
            Err(fuser::Errno::EPERM)
        } else {
            self.of(ino, |node| self.set(node, &asked))
        };
        match done {
            Ok(attr) => reply.attr(&LENGTHS_FOR, &attr),
            Err(errno) => reply.error(errno),
        }
    }

    fn mkdir(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(fuser::Errno::EPERM);
    }

    fn mknod(
        &self,
        _: &Request,
        _parent: INodeNo,
        _name: &OsStr,
        _mode: u32,
        _umask: u32,
        _device: u32,
        reply: ReplyEntry,
    ) {
        reply.error(fuser::Errno::EPERM);
    }

    fn unlink(&self, _: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_with(reply, self.names.remove(name).map_err(|refusal| errno_of(&refusal)));
    }

    fn rename(
        &self,
        _: &Request,
        _parent: INodeNo,
        name: &OsStr,
        _newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let flags = rustix::fs::RenameFlags::from_bits_retain(flags.bits());
        let done = self.names.rename(name, newname, flags);
        reply_with(reply, done.map_err(|refusal| errno_of(&refusal)));
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // A file that cannot be opened is refused now.
        match self.of(ino, |node| self.names.open(node)) {
            Ok(()) => reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO),
            Err(errno) => reply.error(errno),
        }
    }

    fn create(
        &self,
        request: &Request,
        _parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let made = Requests::create(self, request, name, mode & !umask);
        match self.names.reported(self.names.source().root(), made) {
            Ok(attr) => {
                let flags = FopenFlags::FOPEN_DIRECT_IO;
                reply.created(&LENGTHS_FOR, &attr, GENERATION, FileHandle(0), flags);
            }
            Err(refusal) => reply.error(errno_of(&refusal)),
        }
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.of(ino, |node| node.with(|file| file.read(offset, u64::from(size)))) {
            Ok(bytes) => reply.data(&bytes),
            Err(errno) => reply.error(errno),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let has = |flag: OFlags| flags.0 as u32 & flag.bits() == flag.bits();
        // The kernel may know an older end than the one that there is.
        let offset = Some(offset).filter(|_| !has(OFlags::APPEND));
        let done = self.of(ino, |node| {
            node.change(&self.names.environment, |file| file.write(offset, data))?;
            if has(OFlags::DSYNC) { node.sync() } else { Ok(()) }
        });
        match done {
            Ok(()) => reply.written(data.len() as u32),
            Err(errno) => reply.error(errno),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        reply_with(reply, self.of(ino, |node| self.names.release(node)));
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply_with(reply, self.of(ino, Node::sync));
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(self.listings.begin()), FopenFlags::empty());
    }

    fn readdir(
        &self,
        _: &Request,
        _ino: INodeNo,
        reader: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let names = match self.listings.read(reader.0, offset == 0, || self.names.list()) {
            Ok(names) => names,
            Err(errno) => return reply.error(number(errno)),
        };
        let dots = [".", ".."].map(|name| (OsStr::new(name), ROOT));
        let names = names.iter().map(|(name, number)| (name.as_os_str(), *number));
        for (index, (name, number)) in
            dots.into_iter().chain(names).enumerate().skip(offset as usize)
        {
            let kind = if number == ROOT { FileType::Directory } else { FileType::RegularFile };
            if reply.add(INodeNo(number), index as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        reader: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.listings.end(reader.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply_with(reply, self.names.source().sync_names().map_err(number));
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match self.names.source().room() {
            Ok(room) => {
                let [all, free, available] = room.map(|bytes| bytes / u64::from(BLOCK_BYTES));
                let names = NAME_BYTES_MAX as u32;
                reply.statfs(all, free, available, 0, 0, BLOCK_BYTES, names, BLOCK_BYTES);
            }
            Err(errno) => reply.error(number(errno)),
        }
    }

    fn setxattr(
        &self,
        _: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        _flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let shift = match Shift::parse(name, value) {
            Ok(shift) => shift,
            Err(errno) => return reply.error(number(errno)),
        };
        let environment = &self.names.environment;
        reply_with(reply, self.of(ino, |node| node.change(environment, |file| file.shift(shift))));
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let mode = FallocateFlags::from_bits_retain(mode as u32);
        let environment = &self.names.environment;
        let work =
            |node: &Node| node.change(environment, |file| file.allocate(offset, length, mode));
        reply_with(reply, self.of(ino, work));
    }

    fn lseek(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let sought = match whence {
            SEEK_DATA => Sought::Data,
            SEEK_HOLE => Sought::Hole,
            _ => return reply.error(fuser::Errno::EINVAL),
        };
        let Ok(offset) = u64::try_from(offset) else { return reply.error(fuser::Errno::ENXIO) };
        match self.of(ino, |node| node.with(|file| file.seek(offset, sought))) {
            Ok(found) => reply.offset(found as i64),
            Err(errno) => reply.error(errno),
        }
    }
}

fn reply_with(reply: ReplyEmpty, done: Result<(), fuser::Errno>) {
    match done {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}
