//! Tables: files that are written from the beginning to the end, and never change afterwards. Each
//! is stored on several StoCs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use logc::Member;
use stoc::{FileName, Link, Request, Response};
use sync::{Condvar, Mutex};

use crate::changes::Placement;
use crate::place::{Failure, Place};

/// Bytes that are copied with one request.
const COPY_BYTES: u64 = 1 << 20;

/// A table that is being written. Its bytes are kept until it is finished, so that another StoC can
/// take the place of one that fails.
#[derive(Debug)]
pub(crate) struct Filling {
    name: FileName,
    chunks: Vec<Arc<[u8]>>,
    length: u64,
    copies: Vec<Copy>,
}

/// A copy that is being written.
#[derive(Debug)]
struct Copy {
    link: Arc<dyn Link>,
    progress: Arc<Progress>,
}

/// The replies of a StoC.
#[derive(Debug, Default)]
struct Progress {
    state: Mutex<Replies>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Replies {
    sent: u64,
    replied: u64,
    failure: Option<stoc::Error>,
}

/// A table.
#[derive(Debug)]
pub(crate) struct Table {
    place: Arc<Place>,
    pub(crate) name: FileName,
    pub(crate) length: u64,
    copies: Mutex<Copies>,
    /// Whether its files are released with its last reader.
    pub(crate) is_removed: AtomicBool,
}

/// The StoCs that have a table.
#[derive(Debug)]
struct Copies {
    members: Vec<Member>,
    /// Those of them that have reported damage.
    damaged: Vec<Member>,
}

impl Copy {
    /// Begins a copy on a StoC.
    fn begin(place: &Place, name: FileName, link: Arc<dyn Link>) -> Self {
        let copy = Self { link, progress: Arc::default() };
        copy.send(Request::CreateTable { name, epoch: place.epoch, stripe: 0 });
        copy
    }

    /// Sends bytes of the table.
    fn write(&self, place: &Place, name: FileName, offset: u64, bytes: Arc<[u8]>) {
        self.send(Request::Write { name, epoch: place.epoch, offset, bytes });
    }

    /// Finishes the copy, and waits until it is durable.
    fn finish(&self, place: &Place, name: FileName, length: u64) -> Result<(), stoc::Error> {
        self.send(Request::Finish { name, epoch: place.epoch, length });
        self.wait(place)
    }

    fn send(&self, request: Request) {
        self.progress.state.lock().sent += 1;
        let progress = Arc::clone(&self.progress);
        self.link.send(
            request,
            Box::new(move |reply| {
                let mut state = progress.state.lock();
                state.replied += 1;
                if let Err(error) = reply {
                    state.failure.get_or_insert(error);
                }
                progress.changed.notify_all();
            }),
        );
    }

    /// Waits for all replies, but for each no longer than the limit of a call.
    fn wait(&self, place: &Place) -> Result<(), stoc::Error> {
        let mut state = self.progress.state.lock();
        let (mut seen, mut deadline) = (state.replied, place.environment.now() + place.slow);
        loop {
            if seen != state.replied {
                (seen, deadline) = (state.replied, place.environment.now() + place.slow);
            }
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            if state.replied == state.sent {
                return Ok(());
            }
            if place.environment.now() >= deadline {
                return Err(stoc::Error::Unreachable { node: self.link.identity().node });
            }
            self.progress.changed.wait_for(&mut state, place.slow);
        }
    }
}

impl Filling {
    /// Begins a table.
    pub(crate) fn new(name: FileName) -> Self {
        Self { name, chunks: Vec::new(), length: 0, copies: Vec::new() }
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Appends bytes. They are on their way to the StoCs when this returns.
    pub(crate) fn append(&mut self, place: &Place, bytes: &[u8]) {
        if self.chunks.is_empty() {
            let links = place.stocs.choose(place.copies, &[]);
            self.copies =
                links.into_iter().map(|link| Copy::begin(place, self.name, link)).collect();
        }
        let bytes: Arc<[u8]> = bytes.into();
        for copy in &self.copies {
            copy.write(place, self.name, self.length, Arc::clone(&bytes));
        }
        self.length += bytes.len() as u64;
        self.chunks.push(bytes);
    }

    /// Fills `into` from `offset`, which is below the end.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) {
        let mut begin = 0;
        for chunk in &self.chunks {
            let end = begin + chunk.len() as u64;
            let from = offset.max(begin);
            let to = (offset + into.len() as u64).min(end);
            if from < to {
                let source = chunk.get((from - begin) as usize..(to - begin) as usize);
                let target = into.get_mut((from - offset) as usize..(to - offset) as usize);
                if let (Some(source), Some(target)) = (source, target) {
                    target.copy_from_slice(source);
                }
            }
            begin = end;
        }
    }

    /// Finishes the table: durable on all its StoCs on return. Another StoC replaces one that
    /// fails. If there are no more StoCs, one durable copy is enough.
    ///
    /// # Errors
    /// The range belongs to another owner, or the device is closed.
    pub(crate) fn finish(&self, place: &Arc<Place>) -> Result<Table, Failure> {
        let (mut finished, mut tried): (Vec<Member>, Vec<u32>) = Default::default();
        let first = self.copies.iter().map(|copy| Copy {
            link: Arc::clone(&copy.link),
            progress: Arc::clone(&copy.progress),
        });
        let mut copies: Vec<Copy> = first.collect();
        loop {
            let finish = |copy: &Copy| {
                copy.send(Request::Finish {
                    name: self.name,
                    epoch: place.epoch,
                    length: self.length,
                })
            };
            copies.iter().for_each(finish);
            for copy in copies.drain(..) {
                let identity = copy.link.identity();
                tried.push(identity.node);
                match copy.wait(place) {
                    Ok(()) => finished.push(Member::of(identity)),
                    Err(stoc::Error::Fenced { .. }) => return Err(Failure::Fenced),
                    Err(_) => {}
                }
            }
            let more = place.copies.saturating_sub(finished.len());
            let links = if more == 0 { Vec::new() } else { place.stocs.choose(more, &tried) };
            if links.is_empty() && !finished.is_empty() {
                break;
            }
            if links.is_empty() {
                place.pause()?;
                // A StoC that comes back may have the bytes already, or a part of them.
                tried.clear();
                let all = place.stocs.choose(place.copies, &[]);
                let release = |link: &Arc<dyn Link>| place.release(&self.name, &**link);
                all.iter().for_each(release);
                copies = all.into_iter().map(|link| self.copy_again(place, link)).collect();
                continue;
            }
            copies = links.into_iter().map(|link| self.copy_again(place, link)).collect();
        }
        let placement = Placement { name: self.name, length: self.length, copies: finished };
        Ok(Table::new(Arc::clone(place), placement))
    }

    /// Writes all bytes to another StoC.
    fn copy_again(&self, place: &Place, link: Arc<dyn Link>) -> Copy {
        let copy = Copy::begin(place, self.name, link);
        let mut offset = 0;
        for chunk in &self.chunks {
            copy.write(place, self.name, offset, Arc::clone(chunk));
            offset += chunk.len() as u64;
        }
        copy
    }
}

impl Table {
    pub(crate) fn new(place: Arc<Place>, placement: Placement) -> Self {
        let Placement { name, length, copies } = placement;
        let copies = Mutex::new(Copies { members: copies, damaged: Vec::new() });
        Self { place, name, length, copies, is_removed: AtomicBool::new(false) }
    }

    pub(crate) fn placement(&self) -> Placement {
        let copies = self.copies.lock().members.clone();
        Placement { name: self.name, length: self.length, copies }
    }

    /// Returns the links to the StoCs that have it and can be reached.
    pub(crate) fn links(&self) -> Vec<Arc<dyn Link>> {
        let members = self.copies.lock().members.clone();
        members.iter().filter_map(|member| self.place.link_to(member)).collect()
    }

    /// Notes that the copy of a StoC is damaged.
    pub(crate) fn note_damage(&self, member: Member) {
        self.copies.lock().damaged.push(member);
    }

    /// Copies the table to other StoCs, if too few have it undamaged. `is_there` returns whether a
    /// StoC has a finished copy. Returns whether the table has other copies now.
    ///
    /// # Errors
    /// No copy can be read, or the range belongs to another owner.
    pub(crate) fn repair(&self, is_there: impl Fn(&Member) -> bool) -> Result<bool, Failure> {
        let (all, damaged) = {
            let copies = self.copies.lock();
            (copies.members.clone(), copies.damaged.clone())
        };
        let is_good = |member: &Member| !damaged.contains(member) && is_there(member);
        let mut good: Vec<Member> = all.iter().copied().filter(is_good).collect();
        let missing = self.place.copies.saturating_sub(good.len());
        if missing == 0 {
            return Ok(false);
        }
        self.verify()?;
        let known = good.len();
        // A StoC with a damaged copy is chosen only if there are no others.
        let there: Vec<u32> = all.iter().map(|member| member.node).collect();
        let mut links = self.place.stocs.choose(missing, &there);
        if links.len() < missing && !good.is_empty() {
            let avoid = good.iter().map(|member| member.node);
            let avoid: Vec<u32> =
                avoid.chain(links.iter().map(|link| link.identity().node)).collect();
            links.extend(self.place.stocs.choose(missing - links.len(), &avoid));
        }
        for link in links {
            let member = Member::of(link.identity());
            // The StoC may have a damaged file of the name, or a part of one.
            self.place.release(&self.name, &*link);
            if self.copy_to(link)? {
                good.push(member);
            }
        }
        if good.len() == known {
            return Ok(false);
        }
        let mut copies = self.copies.lock();
        copies.damaged.clear();
        // A copy that cannot be reached is kept if the others are still too few.
        let spare = all.into_iter().filter(|member| {
            !damaged.contains(member) && good.iter().all(|other| other.node != member.node)
        });
        let room = self.place.copies.saturating_sub(good.len());
        let kept: Vec<Member> = spare.take(room).collect();
        good.extend(kept);
        copies.members = good;
        Ok(true)
    }

    /// Reads the whole table.
    fn verify(&self) -> Result<(), Failure> {
        self.for_chunks(|_, _| true).map(|_| ())
    }

    /// Writes the table to a StoC. Returns whether it is durable there.
    fn copy_to(&self, link: Arc<dyn Link>) -> Result<bool, Failure> {
        let copy = Copy::begin(&self.place, self.name, Arc::clone(&link));
        let mut replied = Ok(());
        let copied = self.for_chunks(|offset, bytes| {
            copy.write(&self.place, self.name, offset, bytes.into());
            replied = copy.wait(&self.place);
            replied.is_ok()
        });
        if copied == Ok(true) {
            replied = copy.finish(&self.place, self.name, self.length);
        }
        match (copied, replied) {
            (Ok(_), Ok(())) => Ok(true),
            (Err(failure), _) => {
                self.place.release(&self.name, &*link);
                Err(failure)
            }
            (_, Err(stoc::Error::Fenced { .. })) => Err(Failure::Fenced),
            (_, Err(_)) => Ok(false),
        }
    }

    /// Reads the table from its beginning to its end, until `each` returns false. Returns whether
    /// it has read all.
    fn for_chunks(&self, mut each: impl FnMut(u64, Vec<u8>) -> bool) -> Result<bool, Failure> {
        let mut offset = 0;
        while offset < self.length {
            let mut bytes = vec![0; COPY_BYTES.min(self.length - offset) as usize];
            self.read(offset, &mut bytes)?;
            let length = bytes.len() as u64;
            if !each(offset, bytes) {
                return Ok(false);
            }
            offset += length;
        }
        Ok(true)
    }

    /// Fills `into` from `offset`, from any StoC that has the bytes. StoCs verify what they return.
    ///
    /// # Errors
    /// No StoC can return them.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), Failure> {
        let mut failure = Failure::Unavailable;
        for link in self.links() {
            let bytes = into.len() as u64;
            let read = Request::Read { name: self.name, offset, bytes };
            match self.place.call(&link, &read) {
                Ok(Response::Bytes(bytes)) if bytes.len() == into.len() => {
                    into.copy_from_slice(&bytes);
                    return Ok(());
                }
                Err(stoc::Error::Damaged(damage)) => {
                    self.note_damage(Member::of(link.identity()));
                    failure = Failure::Damaged(damage);
                }
                _ => {}
            }
        }
        Err(failure)
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if self.is_removed.load(SeqCst) {
            self.links().iter().for_each(|link| self.place.release(&self.name, &**link));
        }
    }
}
