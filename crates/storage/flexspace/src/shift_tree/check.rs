//! Checks every invariant of a tree, and measures it on the way.

use std::collections::HashSet;
use std::mem::size_of;

use super::ShiftTree;
use super::entry::Entry;
use super::inner::{Children, Inner};
use super::leaf::Leaf;
use super::node::{COUNTS_BYTES, Ledger, Node, NodeId, Slots, node};

/// How large a tree is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Levels, the leaves among them.
    pub levels: usize,
    /// Leaves.
    pub leaves: usize,
    /// Inner nodes.
    pub inners: usize,
    /// Entries of all leaves.
    pub entries: usize,
    /// Memory of all nodes, without memory that an entry or a pivot owns elsewhere.
    pub bytes: usize,
}

impl<E: Entry, const C: usize, const F: usize> ShiftTree<E, C, F> {
    /// Walks the whole tree and checks T1 to T5, L1 to L3, N1 and N2. O(N), for tests.
    ///
    /// Does not check laws that need the keys: for N3 call [`Self::check_pivots`]. Does not check
    /// entries and pivots in unused slots either.
    ///
    /// # Errors
    /// The first invariant that does not hold, and where.
    pub fn check(&self) -> Result<Shape, String> {
        let ids: HashSet<NodeId> = self.ledger.retired.iter().copied().collect();
        let is_once = ids.len() == self.ledger.retired.len();
        require(is_once, || "a node is retired twice".to_owned())?;
        let is_empty = self.now.is_empty();
        let mut walk = Walk { ledger: &self.ledger, ids, is_empty, shape: Shape::default() };
        let root = &*self.now.root;
        let (span, levels) = walk.inner(root)?;
        require(span == self.now.len, || format!("{span} bytes, not {}", self.now.len))?;
        walk.shape.levels = levels;
        let is_root = root.count() > 1 || matches!(root.children, Children::Leaves(_));
        require(is_root, || "T4: a root with one inner child".to_owned())?;
        let is_whole = walk.shape.entries > 0 || self.now.len == 0 && walk.shape.leaves == 1;
        require(is_whole, || "T3: a tree without entries has one leaf".to_owned())?;
        let (counted, bytes) = (self.node_bytes(), walk.shape.bytes as u64);
        require(counted >= bytes, || format!("nodes of {bytes} bytes counted as {counted}"))?;
        let own = self.now.node_bytes();
        require(own == bytes, || format!("nodes of {bytes} bytes of one state counted as {own}"))?;
        Ok(walk.shape)
    }

    /// Checks N3 against the keys themselves: they ascend strictly, and pivots separate them. O(N),
    /// for tests and for trees that were stored.
    ///
    /// # Errors
    /// The first leaf whose keys do not.
    pub fn check_pivots<K: Ord + ?Sized>(
        &self,
        key_of: impl Fn(&E) -> &K,
        pivot_of: impl Fn(&E::Pivot) -> &K,
    ) -> Result<(), String> {
        check_keys(&self.now.root, None, None, &key_of, &pivot_of)
    }
}

struct Walk<'a> {
    ledger: &'a Ledger,
    ids: HashSet<NodeId>,
    /// Whether the tree has no bytes.
    is_empty: bool,
    shape: Shape,
}

fn require(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

impl Walk<'_> {
    fn id(&mut self, id: NodeId) -> Result<(), String> {
        let is_known = id > NodeId::default() && id <= self.ledger.last;
        let is_sound = is_known && self.ids.insert(id);
        require(is_sound, || format!("{id:?} was never given out, is of two nodes, or retired"))
    }

    fn inner<E: Entry, const C: usize, const F: usize>(
        &mut self,
        inner: &Inner<E, C, F>,
    ) -> Result<(u64, usize), String> {
        self.id(inner.id)?;
        self.shape.inners += 1;
        self.shape.bytes += size_of::<Inner<E, C, F>>() + COUNTS_BYTES;
        let count = inner.count();
        require((1..=F).contains(&count), || format!("N2: {count} children"))?;
        let rest = &inner.shifts[count..];
        require(rest.iter().all(|shift| *shift == u64::MAX), || "N2: a free slot".to_owned())?;
        let (spans, levels) = match &inner.children {
            Children::Leaves(slots) => {
                self.children(inner, slots, |walk, leaf| Ok((walk.leaf(leaf)?, 1)))?
            }
            Children::Inners(slots) => {
                self.children(inner, slots, |walk, child| walk.inner(child))?
            }
        };
        let mut end = 0;
        for (index, span) in spans.iter().enumerate() {
            let shift = inner.shifts[index];
            require(shift == end, || format!("T1: child {index} at {shift}, not {end}"))?;
            end += span;
        }
        Ok((end, levels + 1))
    }

    fn children<E: Entry, N: Node, const C: usize, const F: usize>(
        &mut self,
        parent: &Inner<E, C, F>,
        slots: &Slots<N, F>,
        mut check: impl FnMut(&mut Self, &N) -> Result<(u64, usize), String>,
    ) -> Result<(Vec<u64>, usize), String> {
        let (used, free) = slots.split_at(parent.count());
        require(free.iter().all(Option::is_none), || "N2: a child in a free slot".to_owned())?;
        let mut spans = Vec::new();
        let mut depth = None;
        for child in used.iter().map(node) {
            let is_new = |id: NodeId| id > self.ledger.sealed;
            let is_marked = !is_new(child.id()) || is_new(parent.id);
            require(is_marked, || format!("T5: {:?} is new below {:?}", child.id(), parent.id))?;
            let (span, levels) = check(self, child)?;
            spans.push(span);
            require(*depth.get_or_insert(levels) == levels, || "T3: depths differ".to_owned())?;
        }
        for pair in used.windows(2) {
            let (left, right) = (node(&pair[0]), node(&pair[1]));
            let ids = (left.id(), right.id());
            require(!left.is_to_absorb(right), || format!("T4: neighbours {ids:?} fit in one"))?;
        }
        Ok((spans, depth.unwrap_or(0)))
    }

    fn leaf<E: Entry, const C: usize>(&mut self, leaf: &Leaf<E, C>) -> Result<u64, String> {
        self.id(leaf.id())?;
        self.shape.leaves += 1;
        self.shape.entries += leaf.count();
        self.shape.bytes += size_of::<Leaf<E, C>>() + COUNTS_BYTES;
        require(leaf.count() > 0 || self.is_empty, || "T3: an empty leaf".to_owned())?;
        leaf.check()?;
        Ok(u64::from(leaf.span()))
    }
}

fn check_keys<E: Entry, K: Ord + ?Sized, const C: usize, const F: usize>(
    inner: &Inner<E, C, F>,
    low: Option<&K>,
    high: Option<&K>,
    key_of: &impl Fn(&E) -> &K,
    pivot_of: &impl Fn(&E::Pivot) -> &K,
) -> Result<(), String> {
    for index in 0..inner.count() {
        let low = if index == 0 { low } else { Some(pivot_of(&inner.pivots[index])) };
        let next = index + 1 < inner.count();
        let high = if next { Some(pivot_of(&inner.pivots[index + 1])) } else { high };
        match &inner.children {
            Children::Inners(slots) => {
                check_keys(node(&slots[index]), low, high, key_of, pivot_of)?;
            }
            Children::Leaves(slots) => {
                let keys: Vec<&K> = node(&slots[index]).entries().iter().map(key_of).collect();
                let ascends = keys.is_sorted_by(|left, right| left < right);
                require(ascends, || format!("N3: keys of child {index} do not ascend"))?;
                let is_bounded = |key: &K| {
                    low.is_none_or(|low| low <= key) && high.is_none_or(|high| key < high)
                };
                require(keys.into_iter().all(is_bounded), || format!("N3: child {index}"))?;
            }
        }
    }
    Ok(())
}
