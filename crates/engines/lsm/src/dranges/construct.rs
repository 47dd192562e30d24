//! Dranges and Tranges out of a sample of writes: a pure function.
//!
//! 1. Keys of a slot's worth of writes or more are *hot*: each is a Drange of its own. The keys
//!    between two hot keys are a segment. A segment of less than half a slot's worth goes to a hot
//!    neighbour.
//! 2. Slots are assigned by weight, one by one, each to the item with the most weight for each of
//!    its slots.
//! 3. A segment is cut into Dranges of about the same weight, one for each of its slots, and each
//!    of these into Tranges.

/// How Dranges are laid out, in order. The first one begins with the empty key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Layout {
    pub(crate) parts: Vec<Part>,
    /// Writes that it was made from.
    pub(crate) basis: u64,
}

/// A Drange of a layout, which ends where the next one begins.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Part {
    /// The first key of each Trange, and its writes. At least one.
    pub(crate) tranges: Vec<(Vec<u8>, u64)>,
    pub(crate) slots: usize,
    pub(crate) is_point: bool,
}

impl Part {
    /// All keys.
    pub(crate) fn whole(slots: usize) -> Self {
        Self { tranges: vec![(Vec::new(), 0)], slots, is_point: false }
    }

    pub(crate) fn start(&self) -> &[u8] {
        self.tranges.first().map_or(&[], |(start, _)| start.as_slice())
    }

    pub(crate) fn writes(&self) -> u64 {
        self.tranges.iter().map(|(_, writes)| writes).sum()
    }

    /// Returns its writes for each of its slots.
    pub(crate) fn load(&self) -> f64 {
        self.writes() as f64 / self.slots.max(1) as f64
    }
}

impl Layout {
    pub(crate) fn writes(&self) -> u64 {
        self.parts.iter().map(Part::writes).sum()
    }

    /// Returns the same layout with nothing counted yet.
    pub(crate) fn forgetting(mut self) -> Self {
        let tranges = self.parts.iter_mut().flat_map(|part| &mut part.tranges);
        tranges.for_each(|(_, writes)| *writes = 0);
        self
    }

    /// Returns the writes counted since the layout was `before`, with the same Dranges.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let mut since = self.clone();
        let tranges = since.parts.iter_mut().flat_map(|part| &mut part.tranges);
        let before = before.parts.iter().flat_map(|part| &part.tranges);
        for ((_, writes), (_, before)) in tranges.zip(before) {
            *writes = writes.saturating_sub(*before);
        }
        since
    }

    pub(crate) fn slots(&self) -> usize {
        self.parts.iter().map(|part| part.slots).sum()
    }

    /// How unequal the slots' loads are: their standard deviation, as a share of their mean.
    pub(crate) fn imbalance(&self) -> f64 {
        let slots = self.slots().max(1) as f64;
        let mean = self.writes() as f64 / slots;
        if mean == 0.0 {
            return 0.0;
        }
        let square = |part: &Part| part.slots as f64 * (part.load() - mean).powi(2);
        (self.parts.iter().map(square).sum::<f64>() / slots).sqrt() / mean
    }
}

/// The requirements of a layout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) slots: usize,
    /// Tranges of a Drange, at most.
    pub(crate) tranges: usize,
    /// Whether a hot key may have several slots.
    pub(crate) duplicates: bool,
}

/// A key and the weight of its writes.
pub(crate) type Weighed = (Vec<u8>, f64);

/// The keys between hot keys, or a hot key.
struct Item<'a> {
    keys: &'a [Weighed],
    weight: f64,
    is_hot: bool,
    slots: usize,
}

/// Returns a layout for the writes that `sample` represents: distinct keys in order.
pub(crate) fn construct(sample: &[Weighed], wanted: Wanted) -> Layout {
    let total: f64 = weight(sample);
    // Above nothing: if no write was counted, no key is hot.
    let fair = (total / wanted.slots.max(1) as f64).max(f64::MIN_POSITIVE);
    let mut items = fold(items(sample, fair), fair);
    squeeze(&mut items, wanted.slots);
    apportion(&mut items, wanted);
    let mut parts: Vec<Part> = Vec::new();
    // A hot key's Drange ends right behind it, so the next Drange begins there.
    let mut start = Vec::new();
    for item in &items {
        let first = parts.len();
        if item.is_hot {
            let writes = item.weight as u64;
            let tranges = vec![(start.clone(), writes)];
            parts.push(Part { tranges, slots: item.slots, is_point: true });
        } else {
            for keys in cut(item.keys, item.slots) {
                let pieces = cut(keys, wanted.tranges).into_iter();
                let tranges = pieces.map(|piece| (first_key(piece), weight(piece) as u64));
                parts.push(Part { tranges: tranges.collect(), slots: 1, is_point: false });
            }
        }
        // Between the last key of the item before and the first of this one there is nothing.
        if let Some((begin, _)) = parts.get_mut(first).and_then(|part| part.tranges.first_mut()) {
            begin.clone_from(&start);
        }
        start = item.keys.last().map(|(key, _)| key.clone()).unwrap_or_default();
        start.push(0);
    }
    if parts.is_empty() {
        parts.push(Part::whole(1));
    }
    Layout { parts, basis: total as u64 }
}

fn weight(keys: &[Weighed]) -> f64 {
    keys.iter().map(|(_, weight)| weight).sum()
}

fn first_key(keys: &[Weighed]) -> Vec<u8> {
    keys.first().map(|(key, _)| key.clone()).unwrap_or_default()
}

/// Returns hot keys, and the segments between them.
fn items<'a>(sample: &'a [Weighed], fair: f64) -> Vec<Item<'a>> {
    let is_hot = |(_, weight): &Weighed| *weight >= fair;
    let runs = sample.chunk_by(|one, other| !is_hot(one) && !is_hot(other));
    let item = |keys: &'a [Weighed]| {
        let is_hot = matches!(keys, [key] if is_hot(key));
        Item { keys, weight: weight(keys), is_hot, slots: 1 }
    };
    runs.map(item).collect()
}

/// Gives segments that are not worth a slot to the hot key behind them. One at the end stays.
fn fold(items: Vec<Item<'_>>, fair: f64) -> Vec<Item<'_>> {
    let mut folded: Vec<Item<'_>> = Vec::new();
    let mut small = 0.0;
    let last = items.len().saturating_sub(1);
    for (index, mut item) in items.into_iter().enumerate() {
        if !item.is_hot && item.weight < fair / 2.0 && index < last {
            small += item.weight;
            continue;
        }
        item.weight += std::mem::take(&mut small);
        folded.push(item);
    }
    folded
}

/// Folds the lightest segments too, until there is a slot for each item.
fn squeeze(items: &mut Vec<Item<'_>>, slots: usize) {
    while items.len() > slots.max(1) {
        let segments = items.iter().enumerate().filter(|(_, item)| !item.is_hot);
        let Some((index, _)) = segments.min_by(|a, b| a.1.weight.total_cmp(&b.1.weight)) else {
            return;
        };
        let folded = items.remove(index);
        // A hot key's Drange begins where the item before it ends. At the end, the last item is
        // extended.
        let neighbour = index.min(items.len() - 1);
        if let Some(item) = items.get_mut(neighbour) {
            item.weight += folded.weight;
        }
    }
}

/// Assigns the slots.
fn apportion(items: &mut [Item<'_>], wanted: Wanted) {
    let mut left = wanted.slots.saturating_sub(items.len());
    while left > 0 {
        let can_have_more = |item: &&mut Item<'_>| match item.is_hot {
            true => wanted.duplicates,
            false => item.slots < item.keys.len(),
        };
        let load = |item: &Item<'_>| item.weight / item.slots as f64;
        let hungry = items.iter_mut().filter(can_have_more);
        let Some(item) = hungry.max_by(|a, b| load(a).total_cmp(&load(b))) else { return };
        item.slots += 1;
        left -= 1;
    }
}

/// Cuts keys into at most `count` runs of about the same weight.
fn cut(keys: &[Weighed], count: usize) -> Vec<&[Weighed]> {
    let mut pieces = Vec::new();
    let mut rest = keys;
    let mut rest_weight = weight(keys);
    for left in (1..=count.max(1)).rev() {
        if left == 1 || rest.len() <= 1 {
            break;
        }
        let target = rest_weight / left as f64;
        let (mut at, mut sum) = (0, 0.0);
        // A key goes to the piece that it brings closer to its target.
        for (_, weight) in rest {
            if at > 0 && sum + weight / 2.0 > target {
                break;
            }
            at += 1;
            sum += weight;
        }
        let (piece, behind) = rest.split_at(at.min(rest.len() - 1));
        rest_weight -= weight(piece);
        pieces.push(piece);
        rest = behind;
    }
    if !rest.is_empty() {
        pieces.push(rest);
    }
    pieces
}
