//! A space as the standard library knows files.

use std::io::{self, Read, Seek, SeekFrom, Write};

use super::{Error, FlexSpace};

/// A position in a space, from which is read and at which is written over, or inserted.
///
/// ```
/// use std::io::{Read, Seek, SeekFrom, Write};
/// use flexspace::space::{FlexSpace, Options};
///
/// let space = FlexSpace::create(device::memory(), Options::default())?;
/// let mut stream = space.stream();
/// stream.write_all(b"thermocline")?;
/// stream.seek(SeekFrom::Start(5))?;
/// stream.insert_all(b"-and-halo")?;
/// stream.rewind()?;
/// let mut text = String::new();
/// stream.read_to_string(&mut text)?;
/// assert_eq!(text, "therm-and-haloocline");
/// stream.flush()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Stream {
    space: FlexSpace,
    position: u64,
}

impl FlexSpace {
    /// Returns a stream that begins at the first byte.
    pub fn stream(&self) -> Stream {
        Stream { space: self.clone(), position: 0 }
    }
}

impl Stream {
    /// Puts `data` at the position, which moves behind it; bytes from there on move back.
    ///
    /// # Errors
    /// As [`FlexSpace::splice`].
    pub fn insert_all(&mut self, data: &[u8]) -> Result<(), Error> {
        self.space.insert(self.position, data)?;
        self.position += data.len() as u64;
        Ok(())
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let snapshot = self.space.snapshot()?;
        let left = snapshot.len().saturating_sub(self.position);
        let count = (into.len() as u64).min(left) as usize;
        snapshot.pread(self.position, &mut into[..count])?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Write for Stream {
    /// Writes over the present bytes, and behind the end.
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.space.pwrite(self.position, data)?;
        self.position += data.len() as u64;
        Ok(data.len())
    }

    /// Makes written bytes durable, which the standard library's files do not.
    fn flush(&mut self) -> io::Result<()> {
        Ok(self.space.sync()?)
    }
}

impl Seek for Stream {
    /// Positions behind the end are none, as there are no holes.
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let len = self.space.len();
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(by) => len.checked_add_signed(by),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
        };
        match position.filter(|position| *position <= len) {
            Some(position) => {
                self.position = position;
                Ok(position)
            }
            None => {
                Err(io::Error::new(io::ErrorKind::InvalidInput, "a position outside of the space"))
            }
        }
    }
}
