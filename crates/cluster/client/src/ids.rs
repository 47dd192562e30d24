//! The ids of writes. (Q2)

use std::collections::{BTreeSet, VecDeque};

use crate::protocol::RequestId;

/// Writes of one client id that may be without a reply.
pub const WINDOW: u64 = 64;

/// The client ids of this client.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    /// The ids that can be used, the next one first.
    free: VecDeque<ClientId>,
    /// Those whose windows are full.
    full: Vec<ClientId>,
    /// Ids before this one are used for no new write.
    oldest: u64,
}

/// A client id, with the numbers of its writes that are under way.
#[derive(Debug)]
struct ClientId {
    id: u64,
    next: u64,
    under_way: BTreeSet<u64>,
}

impl ClientId {
    /// Returns whether another write fits into the window.
    fn has_room(&self) -> bool {
        self.under_way.first().is_none_or(|first| self.next < first + WINDOW)
    }
}

impl Ids {
    /// Adds `count` ids.
    pub(crate) fn add(&mut self, first: u64, count: u64) {
        let new = |id| ClientId { id, next: 1, under_way: BTreeSet::new() };
        self.free.extend((first..first + count).map(new));
    }

    /// Uses none of the present ids for a new write any more, if `id` is one of them.
    pub(crate) fn retire(&mut self, id: RequestId) {
        if id.client >= self.oldest {
            self.retire_all();
        }
    }

    /// Uses none of the present ids for a new write any more.
    pub(crate) fn retire_all(&mut self) {
        let all = self.free.iter().chain(&self.full);
        self.oldest = all.map(|client| client.id + 1).max().unwrap_or(0).max(self.oldest);
        self.free.clear();
    }

    /// Returns an id for a write, if there is one.
    pub(crate) fn take(&mut self) -> Option<RequestId> {
        let client = self.free.front_mut()?;
        let number = client.next;
        client.next += 1;
        client.under_way.insert(number);
        let id = RequestId { client: client.id, number };
        // In turn, so that one slow write holds up few others.
        if let Some(client) = self.free.pop_front() {
            match client.has_room() {
                true => self.free.push_back(client),
                false => self.full.push(client),
            }
        }
        Some(id)
    }

    /// Ends a write: it has a reply, or is repeated no more.
    pub(crate) fn end(&mut self, RequestId { client, number }: RequestId) {
        if let Some(found) = self.free.iter_mut().find(|found| found.id == client) {
            found.under_way.remove(&number);
            return;
        }
        let Some(at) = self.full.iter().position(|found| found.id == client) else { return };
        let mut found = self.full.swap_remove(at);
        found.under_way.remove(&number);
        match found.has_room() {
            true if found.id >= self.oldest => self.free.push_back(found),
            true => {}
            false => self.full.push(found),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_holds_up_one_client_id_alone() {
        let mut ids = Ids::default();
        assert_eq!(ids.take(), None);
        ids.add(7, 2);
        let first = ids.take();
        assert_eq!(first, Some(RequestId { client: 7, number: 1 }));
        let mut taken = Vec::new();
        while let Some(id) = ids.take() {
            taken.push(id);
        }
        // Both windows are full.
        assert_eq!(taken.len() as u64 + 1, 2 * WINDOW);
        taken.iter().filter(|id| id.client == 8).for_each(|id| ids.end(*id));
        let next: Vec<_> = std::iter::from_fn(|| ids.take()).collect();
        assert_eq!(next.len() as u64, WINDOW);
        assert!(next.iter().all(|id| id.client == 8 && id.number > WINDOW));
        // The first number of 7 is the oldest under way: all later ones but the last 63 are done.
        taken.iter().filter(|id| id.client == 7).for_each(|id| ids.end(*id));
        assert_eq!(ids.take(), None);
        first.into_iter().for_each(|id| ids.end(id));
        assert_eq!(ids.take(), Some(RequestId { client: 7, number: WINDOW + 1 }));
    }

    #[test]
    fn retired_ids_serve_no_new_write() {
        let mut ids = Ids::default();
        ids.add(1, 2);
        let old = ids.take();
        old.into_iter().for_each(|id| ids.retire(id));
        assert_eq!(ids.take(), None);
        ids.add(3, 1);
        // The same report again, of another write.
        ids.retire(RequestId { client: 2, number: 9 });
        assert_eq!(ids.take(), Some(RequestId { client: 3, number: 1 }));
        old.into_iter().for_each(|id| ids.end(id));
        assert_eq!(ids.take(), Some(RequestId { client: 3, number: 2 }));
    }
}
