//! The queues of a pool: plain data under the pool's mutex, no threads and no clock.
//!
//! # Invariants
//! - S1. A group's `unfinished` is the number of its one-time tasks that are queued or running plus
//!   its periodic tasks that are running. A periodic task that waits or is due does not count.
//! - S2. A stopping group has no periodic task in `timers` or `ready`.
//! - S3. A group is listed while its handle lives or `unfinished` is above zero.

use std::collections::{BTreeMap, VecDeque};

use environment::Monotonic;

use crate::gate::GateId;
use crate::task::{Class, GroupId, Job, OnPanic, StopToken, Stopped, TaskPanic};

#[derive(Debug)]
pub(crate) struct Schedule {
    ready: [VecDeque<Job>; Class::ALL.len()],
    /// Periodic tasks by the time they are due; the number keeps equal times apart and in order.
    timers: BTreeMap<(Monotonic, u64), Job>,
    groups: BTreeMap<GroupId, GroupState>,
    /// Gates that are closed, and the periodic tasks that they hold, with the time that each is
    /// due.
    closed: BTreeMap<GateId, Vec<(Monotonic, Job)>>,
    /// Panics of groups whose handle was dropped, for the pool's owner.
    orphaned_panics: Vec<TaskPanic>,
    stopping: bool,
    /// Tasks that were taken and have not ended.
    running: usize,
    /// Tasks below [`Class::Flush`] that are running, and how many may.
    lower_running: usize,
    lower_running_max: usize,
    next_number: u64,
    /// How many tasks have ended, so that a waiter sees whether one did while it looked elsewhere.
    ended: u64,
}

#[derive(Debug)]
pub(crate) struct GroupState {
    pub(crate) name: String,
    pub(crate) token: StopToken,
    gate: Option<GateId>,
    pub(crate) unfinished: usize,
    /// Not yet reported.
    pub(crate) panics: Vec<TaskPanic>,
    pub(crate) first_panic: Option<TaskPanic>,
    pub(crate) on_panic: Option<OnPanic>,
    handle_dropped: bool,
}

impl Schedule {
    pub(crate) fn new(lower_running_max: usize) -> Self {
        Self {
            ready: Default::default(),
            timers: BTreeMap::new(),
            groups: BTreeMap::new(),
            closed: BTreeMap::new(),
            orphaned_panics: Vec::new(),
            stopping: false,
            running: 0,
            lower_running: 0,
            lower_running_max,
            next_number: 0,
            ended: 0,
        }
    }

    pub(crate) fn stopping(&self) -> bool {
        self.stopping
    }

    /// Notes progress as if a task had ended, for callers that wait.
    pub(crate) fn note_progress(&mut self) {
        self.ended += 1;
    }

    pub(crate) fn ended(&self) -> u64 {
        self.ended
    }

    pub(crate) fn running(&self) -> usize {
        self.running
    }

    pub(crate) fn ready_count(&self) -> usize {
        self.ready.iter().map(VecDeque::len).sum()
    }

    pub(crate) fn next_due(&self) -> Option<Monotonic> {
        self.timers.first_key_value().map(|((due, _), _)| *due)
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    pub(crate) fn add_group(&mut self, name: &str, gate: Option<GateId>) -> (GroupId, StopToken) {
        let id = GroupId(self.number());
        let token = StopToken::default();
        if self.stopping {
            token.stop();
        }
        let state = GroupState {
            name: name.to_owned(),
            token: token.clone(),
            gate,
            unfinished: 0,
            panics: Vec::new(),
            first_panic: None,
            on_panic: None,
            handle_dropped: false,
        };
        self.groups.insert(id, state);
        (id, token)
    }

    /// The state of a group whose handle or task is at hand, so it is listed (S3).
    pub(crate) fn group(&mut self, id: GroupId) -> &mut GroupState {
        self.groups.get_mut(&id).expect("a group in use is listed")
    }

    /// Queues a one-time task, or says that it cannot be and leaves it with the caller to drop.
    pub(crate) fn submit(&mut self, job: Job) -> Result<(), (Stopped, Job)> {
        let group = self.group(job.group);
        if group.token.is_stopping() {
            return Err((Stopped, job));
        }
        group.unfinished += 1;
        self.ready[job.class as usize].push_back(job);
        Ok(())
    }

    /// Has a periodic task wait until `due`, or says that it cannot.
    pub(crate) fn arm(&mut self, due: Monotonic, job: Job) -> Result<(), (Stopped, Job)> {
        let group = self.group(job.group);
        if group.token.is_stopping() {
            return Err((Stopped, job));
        }
        let gate = group.gate;
        if let Some(held) = gate.and_then(|gate| self.closed.get_mut(&gate)) {
            held.push((due, job));
            return Ok(());
        }
        let number = self.number();
        self.timers.insert((due, number), job);
        Ok(())
    }

    pub(crate) fn add_gate(&mut self) -> GateId {
        let id = GateId(self.number());
        self.closed.insert(id, Vec::new());
        id
    }

    /// Has the tasks that the gate holds wait for their time as others do.
    pub(crate) fn open_gate(&mut self, id: GateId) {
        for (due, job) in self.closed.remove(&id).unwrap_or_default() {
            let number = self.number();
            self.timers.insert((due, number), job);
        }
    }

    /// Forgets a gate that was not opened. Returns the tasks that it holds, to be dropped outside
    /// the lock.
    pub(crate) fn remove_gate(&mut self, id: GateId) -> Vec<Job> {
        let held = self.closed.remove(&id).unwrap_or_default();
        held.into_iter().map(|(_, job)| job).collect()
    }

    /// Moves the periodic tasks whose time is reached into the queues, and with them the tasks that
    /// are due soon after. So the threads of a pool with hundreds of idle stores wake for all of
    /// them together.
    pub(crate) fn promote(&mut self, now: Monotonic) {
        if self.next_due().is_none_or(|due| due > now) {
            return;
        }
        while let Some(timer) = self.timers.first_entry()
            && timer.key().0 <= now + timer.get().work.may_be_early_by()
        {
            let job = timer.remove();
            self.ready[job.class as usize].push_back(job);
        }
    }

    /// Takes the task that should run next, by class and then by age.
    pub(crate) fn take_next(&mut self) -> Option<Job> {
        let class = Class::ALL.into_iter().find(|class| {
            let allowed = *class == Class::Flush || self.lower_running < self.lower_running_max;
            allowed && !self.ready[*class as usize].is_empty()
        })?;
        let job = self.ready[class as usize].pop_front()?;
        Some(self.started(job))
    }

    /// Takes the `index`th queued task, of any class.
    pub(crate) fn take_nth(&mut self, mut index: usize) -> Option<Job> {
        for queue in &mut self.ready {
            if index < queue.len() {
                let job = queue.remove(index)?;
                return Some(self.started(job));
            }
            index -= queue.len();
        }
        None
    }

    /// Takes the oldest queued task of a group, in the order of classes.
    pub(crate) fn take_of(&mut self, group: GroupId) -> Option<Job> {
        let job = self.ready.iter_mut().find_map(|queue| {
            let index = queue.iter().position(|job| job.group == group)?;
            queue.remove(index)
        })?;
        Some(self.started(job))
    }

    fn started(&mut self, job: Job) -> Job {
        self.running += 1;
        if job.class != Class::Flush {
            self.lower_running += 1;
        }
        if job.work.is_periodic() {
            self.group(job.group).unfinished += 1;
        }
        job
    }

    /// Notes that a task that was taken has ended, and that the values it had captured are dropped
    /// or armed again.
    pub(crate) fn finished(&mut self, id: GroupId, class: Class) {
        self.running -= 1;
        if class != Class::Flush {
            self.lower_running -= 1;
        }
        self.ended += 1;
        self.group(id).unfinished -= 1;
        self.unlist_if_done(id);
    }

    /// Returns the callback for the panic.
    pub(crate) fn panicked(
        &mut self,
        id: GroupId,
        task: &'static str,
        message: String,
    ) -> Option<(OnPanic, TaskPanic)> {
        // A periodic task that the pool's stop takes out may outlive its group by a moment.
        let Some(group) = self.groups.get_mut(&id) else {
            let group = "a group that is gone".to_owned();
            self.orphaned_panics.push(TaskPanic { group, task, message });
            return None;
        };
        let panic = TaskPanic { group: group.name.clone(), task, message };
        group.first_panic.get_or_insert_with(|| panic.clone());
        group.panics.push(panic.clone());
        group.on_panic.clone().zip(Some(panic))
    }

    /// Accepts no more tasks of the group; gives its periodic ones that do not run, to be dropped
    /// outside the lock.
    pub(crate) fn stop_group(&mut self, id: GroupId) -> Vec<Job> {
        self.group(id).token.stop();
        self.remove_periodic(|job| job.group == id)
    }

    /// Does the same for every group, and for groups that are made later.
    pub(crate) fn stop_all(&mut self) -> Vec<Job> {
        self.stopping = true;
        self.groups.values().for_each(|group| group.token.stop());
        self.remove_periodic(|_| true)
    }

    fn remove_periodic(&mut self, mut belongs: impl FnMut(&Job) -> bool) -> Vec<Job> {
        let waiting = self.timers.extract_if(.., |_, job| belongs(job)).map(|(_, job)| job);
        let mut removed: Vec<Job> = waiting.collect();
        for held in self.closed.values_mut() {
            removed.extend(held.extract_if(.., |(_, job)| belongs(job)).map(|(_, job)| job));
        }
        for queue in &mut self.ready {
            let (out, kept) = std::mem::take(queue)
                .into_iter()
                .partition(|job| job.work.is_periodic() && belongs(job));
            *queue = kept;
            let out: VecDeque<Job> = out;
            removed.extend(out);
        }
        removed
    }

    /// Notes that the group's handle was dropped.
    pub(crate) fn drop_handle(&mut self, id: GroupId) {
        self.group(id).handle_dropped = true;
        self.unlist_if_done(id);
    }

    fn unlist_if_done(&mut self, id: GroupId) {
        let group = self.group(id);
        if group.handle_dropped && group.unfinished == 0 {
            let panics = std::mem::take(&mut group.panics);
            self.orphaned_panics.extend(panics);
            self.groups.remove(&id);
        }
    }

    /// Returns the panics that were reported to no group's owner.
    pub(crate) fn take_panics(&mut self) -> Vec<TaskPanic> {
        let mut panics = std::mem::take(&mut self.orphaned_panics);
        self.groups.values_mut().for_each(|group| panics.append(&mut group.panics));
        panics
    }
}
