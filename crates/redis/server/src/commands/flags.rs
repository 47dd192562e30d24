//! The properties of a command that the dispatcher needs besides its handler.

/// A set of properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flags(u32);

impl Flags {
    /// Changes data.
    pub(crate) const WRITE: Self = Self(1);
    /// Reads data.
    pub(crate) const READ: Self = Self(1 << 1);
    /// Takes constant time.
    pub(crate) const FAST: Self = Self(1 << 2);
    /// May grow the data, hence is refused when memory is short.
    pub(crate) const GROWS: Self = Self(1 << 3);
    /// Looks after the server.
    pub(crate) const ADMIN: Self = Self(1 << 4);
    /// Allowed before authentication.
    pub(crate) const NO_AUTH: Self = Self(1 << 5);
    /// Refused between MULTI and EXEC.
    pub(crate) const NO_MULTI: Self = Self(1 << 6);
    /// Executed immediately between MULTI and EXEC.
    pub(crate) const NOT_QUEUED: Self = Self(1 << 7);
    /// Always executes alone.
    pub(crate) const ALONE: Self = Self(1 << 8);
    /// Allowed when the clients' memory is used up.
    pub(crate) const SMALL: Self = Self(1 << 9);
    /// Has subcommands, which are the entries that follow it in the table.
    pub(crate) const CONTAINER: Self = Self(1 << 10);
    /// A subcommand. Its name begins with its container's and a bar.
    pub(crate) const SUBCOMMAND: Self = Self(1 << 11);
    /// In the category of commands that an operator may want to withhold.
    pub(crate) const DANGEROUS: Self = Self(1 << 12);
    /// In the category of commands on keys, whatever its group.
    pub(crate) const KEYSPACE: Self = Self(1 << 13);
    /// Walks over keys, a slice at a time.
    pub(crate) const WALKS: Self = Self(1 << 14);
    /// Writes its keys whatever their old values are, SET without some of its options.
    pub(crate) const OVERWRITES: Self = Self(1 << 15);
    /// Waits for the device or has much to do, so that a thread runs it: in the gate if it is
    /// [`Flags::ALONE`], else next to all other commands.
    pub(crate) const THREAD: Self = Self(1 << 16);

    /// Both sets.
    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` are in it.
    #[inline]
    pub(crate) const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The names by which COMMAND INFO reports them.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        [
            (Self::WRITE, "write"),
            (Self::READ, "readonly"),
            (Self::GROWS, "denyoom"),
            (Self::ADMIN, "admin"),
            (Self::FAST, "fast"),
            (Self::NO_AUTH, "no_auth"),
            (Self::NO_MULTI, "no_multi"),
        ]
        .into_iter()
        .filter(move |(flag, _)| self.has(*flag))
        .map(|(_, name)| name)
    }
}

/// The accesses of a command to the keys of one key specification, in Redis's words.
pub(crate) type Access = &'static [&'static str];

/// The places of a command's keys among its arguments: `first..=last` in steps. A negative `last`
/// counts from the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyPlaces {
    pub(crate) first: i32,
    pub(crate) last: i32,
    pub(crate) step: i32,
    /// One entry for all keys, or one for each of them.
    pub(crate) access: &'static [Access],
}

impl KeyPlaces {
    pub(crate) const NONE: Self = Self { first: 0, last: 0, step: 0, access: &[] };

    /// One key, the first argument.
    pub(crate) const fn one(access: &'static [Access]) -> Self {
        Self { first: 1, last: 1, step: 1, access }
    }

    /// One key, behind a subcommand.
    pub(crate) const fn second(access: &'static [Access]) -> Self {
        Self { first: 2, last: 2, step: 1, access }
    }

    /// All arguments.
    pub(crate) const fn all(access: &'static [Access]) -> Self {
        Self { first: 1, last: -1, step: 1, access }
    }

    /// Every other argument.
    pub(crate) const fn pairs(access: &'static [Access]) -> Self {
        Self { first: 1, last: -1, step: 2, access }
    }

    /// Two keys with an access of their own each.
    pub(crate) const fn two(access: &'static [Access]) -> Self {
        Self { first: 1, last: 2, step: 1, access }
    }

    /// Whether `arg_count` arguments hold more than one key.
    #[inline]
    pub(crate) fn is_several(self, arg_count: usize) -> bool {
        self.last != self.first && arg_count > (self.first + self.step) as usize
    }

    /// The places of the keys among `arg_count` arguments.
    pub(crate) fn places(self, arg_count: usize) -> impl Iterator<Item = usize> {
        let last = if self.last < 0 { arg_count as i32 + self.last } else { self.last };
        let count = if self.step == 0 { 0 } else { (last - self.first) / self.step + 1 };
        (0..count).map(move |index| (self.first + index * self.step) as usize)
    }

    /// Returns the access to the key number `index` of a command.
    pub(crate) fn access_to(self, index: usize) -> Access {
        self.access.get(index).or(self.access.last()).copied().unwrap_or_default()
    }

    /// The key specifications that COMMAND INFO shows, as the place of the first key of each, the
    /// distance to its last key (negative: a place from the end), the step, and the access.
    pub(crate) fn specifications(self) -> impl ExactSizeIterator<Item = (i32, i32, i32, Access)> {
        let is_split = self.access.len() > 1;
        self.access.iter().enumerate().map(move |(index, access)| {
            let last = if is_split || self.last == self.first { 0 } else { self.last };
            (self.first + index as i32, last, self.step, *access)
        })
    }
}
