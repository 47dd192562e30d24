//! The first frames of a connection.
//!
//! The node that dials sends a [`Hello`]. The other one replies with a [`Welcome`], or with a
//! [`Refused`] and the end of the connection. These frames have version 0, since they keep their
//! form in all versions of the protocol.

use codec::{Corruption, Reader, Writer};

use crate::error::Refusal;
use crate::peer::{Class, Identity, Role};

/// The oldest version of the protocol that this release speaks.
pub const OLDEST: u8 = 1;
/// The newest one.
pub const NEWEST: u8 = 1;
/// The first bytes of a hello and of a welcome.
const MAGIC: [u8; 8] = *b"TCWIRE\0\0";

/// The first frame of the node that dials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The oldest version of the protocol that it speaks.
    pub oldest: u8,
    /// The newest one.
    pub newest: u8,
    /// The node.
    pub from: Identity,
    /// A random number of the process.
    pub process: u64,
    /// The purpose of the connection.
    pub class: Class,
    /// The number of the channel in the process.
    pub channel: u64,
    /// The number of the connection: a later one of the same channel has a larger number.
    pub dial: u64,
}

/// The reply to a hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The version of all later frames.
    pub version: u8,
    /// The node that was dialled.
    pub from: Identity,
    /// Bytes of requests that may be without a reply.
    pub credit: u64,
}

/// A refusal of a connection or of a request, as a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub Refusal);

fn put_identity(fields: &mut Writer<'_>, identity: &Identity) {
    fields.put_u64(identity.cluster);
    fields.put_u8(identity.role.code());
    fields.put_u32(identity.node);
    fields.put_u64(identity.cookie);
    fields.put_u64(identity.incarnation);
}

fn take_identity(fields: &mut Reader<'_>) -> Result<Identity, Corruption> {
    let cluster = fields.take_u64()?;
    let code = fields.take_u8()?;
    let role = Role::of_code(code);
    let role = role.ok_or_else(|| fields.corruption(format!("{code} is no role")))?;
    let (node, cookie) = (fields.take_u32()?, fields.take_u64()?);
    Ok(Identity { cluster, role, node, cookie, incarnation: fields.take_u64()? })
}

fn take_magic(fields: &mut Reader<'_>) -> Result<(), Corruption> {
    let found = fields.take_array::<8>()?;
    let other = || Corruption::new(format!("a connection begins with {found:02x?}"), 0);
    if found == MAGIC { Ok(()) } else { Err(other()) }
}

impl Hello {
    /// Returns its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let mut fields = Writer::new(&mut bytes);
        fields.put_u8(self.oldest);
        fields.put_u8(self.newest);
        put_identity(&mut fields, &self.from);
        fields.put_u64(self.process);
        fields.put_u8(self.class.code());
        fields.put_u64(self.channel);
        fields.put_u64(self.dial);
        bytes
    }

    /// Reads a hello. Bytes behind the last field belong to later releases, and are ignored.
    ///
    /// # Errors
    /// The damage.
    pub fn decode(bytes: &[u8]) -> Result<Self, Corruption> {
        let mut fields = Reader::new(bytes);
        take_magic(&mut fields)?;
        let (oldest, newest) = (fields.take_u8()?, fields.take_u8()?);
        if oldest > newest {
            return Err(fields.corruption(format!("versions {oldest} to {newest} are none")));
        }
        let (from, process) = (take_identity(&mut fields)?, fields.take_u64()?);
        let code = fields.take_u8()?;
        let class = Class::of_code(code);
        let class = class.ok_or_else(|| fields.corruption(format!("{code} is no class")))?;
        let (channel, dial) = (fields.take_u64()?, fields.take_u64()?);
        Ok(Self { oldest, newest, from, process, class, channel, dial })
    }

    /// Returns the newest version that both sides speak.
    pub fn common_version(&self) -> Option<u8> {
        let common = self.newest.min(NEWEST);
        (common >= self.oldest.max(OLDEST)).then_some(common)
    }
}

impl Welcome {
    /// Returns its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let mut fields = Writer::new(&mut bytes);
        fields.put_u8(self.version);
        put_identity(&mut fields, &self.from);
        fields.put_u64(self.credit);
        bytes
    }

    /// Reads a welcome. Bytes behind the last field are ignored.
    ///
    /// # Errors
    /// The damage; a version that this release does not speak.
    pub fn decode(bytes: &[u8]) -> Result<Self, Corruption> {
        let mut fields = Reader::new(bytes);
        take_magic(&mut fields)?;
        let version = fields.take_u8()?;
        if !(OLDEST..=NEWEST).contains(&version) {
            return Err(fields.corruption(format!("the peer has chosen version {version}")));
        }
        let from = take_identity(&mut fields)?;
        Ok(Self { version, from, credit: fields.take_u64()? })
    }
}

impl Refused {
    /// Returns its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut fields = Writer::new(&mut bytes);
        match &self.0 {
            Refusal::Version { oldest, newest } => {
                fields.put_u8(1);
                fields.put_u8(*oldest);
                fields.put_u8(*newest);
            }
            Refusal::Cluster { cluster } => {
                fields.put_u8(2);
                fields.put_u64(*cluster);
            }
            Refusal::Certificate => fields.put_u8(3),
            Refusal::OldStart { newest } => {
                fields.put_u8(4);
                fields.put_u64(*newest);
            }
            Refusal::OldConnection => fields.put_u8(5),
            Refusal::Connections => fields.put_u8(6),
            Refusal::Role => fields.put_u8(7),
            Refusal::Late => fields.put_u8(8),
            Refusal::NoReply => fields.put_u8(9),
            Refusal::TooLong => fields.put_u8(10),
            Refusal::NoStart => fields.put_u8(11),
            Refusal::Full => fields.put_u8(12),
        }
        bytes
    }

    /// Reads a refusal. Bytes behind the last field are ignored.
    ///
    /// # Errors
    /// The damage.
    pub fn decode(bytes: &[u8]) -> Result<Self, Corruption> {
        let mut fields = Reader::new(bytes);
        let refusal = match fields.take_u8()? {
            1 => Refusal::Version { oldest: fields.take_u8()?, newest: fields.take_u8()? },
            2 => Refusal::Cluster { cluster: fields.take_u64()? },
            3 => Refusal::Certificate,
            4 => Refusal::OldStart { newest: fields.take_u64()? },
            5 => Refusal::OldConnection,
            6 => Refusal::Connections,
            7 => Refusal::Role,
            8 => Refusal::Late,
            9 => Refusal::NoReply,
            10 => Refusal::TooLong,
            11 => Refusal::NoStart,
            12 => Refusal::Full,
            code => return Err(fields.corruption(format!("{code} is no refusal"))),
        };
        Ok(Self(refusal))
    }
}
