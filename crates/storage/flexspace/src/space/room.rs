//! Room for writes: on the device, and in the ballast for work that has to proceed without it.
//!
//! 1. A change that needs segments frees waiting ones that no snapshot reaches any more, with their
//!    room.
//! 2. The ballast gets the length that the space then needs (`ballast.rs`).
//! 3. Room for all segments is made sure of. Only then is anything written.
//!
//! A step without room is refused; the error says whether the collector has to run.

use device::Error as Refused;

use super::checkpoint::begun;
use super::collect::plan;
use super::{Error, Shared, Writer};

/// Most bytes of the record of a relocation.
const RELOCATION_BYTES: usize = 25;

/// Returns the refusal if no collector helps: all bytes that may live do.
pub(super) fn full_device(writer: &Writer, more_bytes: u64) -> Error {
    let live_bytes = writer.segments.live_bytes();
    Error::NoSpace { live_bytes, limit_bytes: live_bytes, more_bytes }
}

impl Shared {
    /// Makes room for `wanted` segments that are begun next.
    ///
    /// # Errors
    /// [`Error::Uncollected`] and [`Error::NoSpace`], if nothing was changed.
    pub(super) fn make_room(&self, writer: &mut Writer, wanted: u32) -> Result<(), Error> {
        if wanted > 0 {
            self.reclaim(writer, wanted);
        }
        if wanted > writer.segments.available() {
            writer.segments.demand(wanted);
            return Err(Error::Uncollected);
        }
        let ballast_bytes = self.ballast_bytes(writer, wanted);
        if wanted == 0 && ballast_bytes <= self.ballast.bytes() {
            return Ok(());
        }
        if self.has_room(writer, wanted, ballast_bytes)? {
            self.ballast.found_device_full(false);
            return Ok(());
        }
        self.ballast.found_device_full(true);
        let bytes = u64::from(wanted.max(1)) * u64::from(self.data.geometry.segment_bytes());
        Err(self.no_room(writer, bytes))
    }

    /// Makes the ballast that long, and sure of room for the segments; says whether there is any.
    fn has_room(
        &self,
        writer: &mut Writer,
        wanted: u32,
        ballast_bytes: u64,
    ) -> Result<bool, Error> {
        match self.ballast.hold(ballast_bytes) {
            Err(Refused::NoSpace { .. }) => return Ok(false),
            held => self.health.stop_on(held)?,
        }
        let segments: Vec<u32> = writer.segments.next_ones(wanted).collect();
        for (index, &segment) in segments.iter().enumerate() {
            if writer.segments.is_roomy(segment) {
                continue;
            }
            match self.data.allocate(segment) {
                Err(Refused::NoSpace { .. }) => {
                    self.give_up_room(writer, &segments[..=index])?;
                    return Ok(false);
                }
                allocated => self.health.stop_on(allocated)?,
            }
            writer.segments.set_roomy(segment, true);
        }
        Ok(true)
    }

    /// Releases the room of free segments that no writer begins now; of the last of them only a
    /// part may be there.
    pub(super) fn give_up_room(&self, writer: &mut Writer, segments: &[u32]) -> Result<(), Error> {
        for &segment in segments {
            self.punch(segment)?;
            writer.segments.set_roomy(segment, false);
        }
        Ok(())
    }

    /// Releases a free segment's room. If the device needs room for that, the segment keeps its
    /// room, and is as free as another. Each other failure is one of a write (F3), since zeros are
    /// written on devices that cannot punch.
    pub(super) fn punch(&self, segment: u32) -> Result<(), Error> {
        match self.data.punch(segment) {
            Err(Refused::NoSpace { .. }) => Ok(()),
            punched => self.health.stop_on(punched),
        }
    }

    /// Secures room for a segment of the collector's, which may be taken from the ballast; returns
    /// whether there is any.
    pub(super) fn has_room_to_copy(
        &self,
        writer: &mut Writer,
        segment: u32,
    ) -> Result<bool, Error> {
        if writer.segments.is_roomy(segment) {
            return Ok(true);
        }
        let bytes = u64::from(self.data.geometry.segment_bytes());
        let (_, _, used) = writer.segments.counts();
        // A copy that no log has room for is none.
        let kept = self.ballast.others_bytes(used, self.state.read().tree.new_nodes_max());
        match self.ballast.spend_above(kept, bytes, || Ok(self.data.allocate(segment)?)) {
            Err(error) if error.is_full_device() => {
                self.punch(segment)?;
                return Ok(false);
            }
            allocated => self.health.stop_on(allocated)?,
        }
        writer.segments.set_roomy(segment, true);
        Ok(true)
    }

    /// Secures room for the records of `count` relocations, if room is short; returns whether there
    /// is any.
    pub(super) fn has_room_to_relocate(&self, count: u64) -> Result<bool, Error> {
        let mut log = self.log.lock();
        let log = begun(&mut log);
        let bytes = {
            let writer = self.writer.lock();
            if !self.ballast.is_device_full() {
                return Ok(true);
            }
            writer.pending.len() + count as usize * RELOCATION_BYTES
        };
        match self.ballast.spend(bytes as u64, || Ok(log.reserve(bytes)?)) {
            Err(error) if error.is_full_device() => Ok(false),
            reserved => self.health.stop_on(reserved).map(|()| true),
        }
    }

    /// Returns the refusal of a change for lack of `more_bytes` bytes on the device.
    pub(super) fn no_room(&self, writer: &Writer, more_bytes: u64) -> Error {
        if !plan(&writer.segments.view(true)).is_empty() {
            return Error::Uncollected;
        }
        full_device(writer, more_bytes)
    }

    /// Returns the length that the ballast must have before `more` segments are begun.
    fn ballast_bytes(&self, writer: &Writer, more: u32) -> u64 {
        let (_, _, used) = writer.segments.counts();
        let new_nodes = self.state.read().tree.new_nodes_max();
        self.ballast.wanted_bytes(used + u64::from(more), new_nodes)
    }

    /// Makes the ballast as long as it should be now, if there is room.
    pub(super) fn fit_ballast(&self) -> Result<(), Error> {
        let writer = self.writer.lock();
        let bytes = self.ballast_bytes(&writer, 0);
        self.health.stop_on(self.ballast.fit(bytes))
    }

    /// Frees segments that no snapshot can reach any more, with their room, until `wanted` are
    /// available or none is left.
    fn reclaim(&self, writer: &mut Writer, wanted: u32) {
        let first_pin = |first, last| self.pins.first_of(first, last);
        while writer.segments.available_with_room() < wanted && writer.segments.reclaim(&first_pin)
        {
        }
    }
}
