//! Changes of very many topics, made in steps: the writer has other work to do meanwhile.
//!
//! ```text
//!   begin: decided, members and groups changed --step--> ... --step--> whole
//!   freeze(): the table of before                        ...           the new one
//! ```
//!
//! A change is decided, and brings members and groups into their new state, when it begins. What it
//! does to topics is left as a list of jobs. Until they are done the table is not whole: it goes on
//! showing readers what it was before, and takes no other change.

use std::collections::VecDeque;
use std::vec;

use roaring::RoaringBitmap;
use smallvec::SmallVec;

use crate::ids::MemberKey;
use crate::model::{QueueMapping, TopicConfig, perm};

use super::table::RouteTable;
use super::topic::TopicNumber;
use super::view::{GroupSlot, RouteView};

/// Taking a topic out of the map makes its leaf anew, and takes as long as so many changes.
const DROP_TOPICS: usize = 4;

/// How far the table is in a change.
#[derive(Debug, Default)]
pub(super) struct Steps {
    /// Topics that one step may change; `None` makes every change at once.
    topics_a_step: Option<usize>,
    /// What is left to do, in this order.
    jobs: VecDeque<Job>,
    /// Present while a change is not whole.
    before: Option<Before>,
}

/// The table as it was when the change began.
#[derive(Debug)]
struct Before {
    view: RouteView,
    /// Whether it has something that was not published.
    changed: bool,
}

/// Something to do to many topics.
#[derive(Debug)]
pub(super) enum Job {
    /// Finds the topics of the group that `puts` does not name, and drops them; then puts.
    Miss { puts: Puts, at: usize, named: RoaringBitmap },
    /// Stores queues.
    Put(Puts),
    /// Stores the group's parts of static topics: all, or those that are missing.
    Map { slot: GroupSlot, mappings: vec::IntoIter<QueueMapping>, everything: bool },
    /// Makes the broker's registration known by its digest, now that the group looks as it leaves
    /// it.
    Seal { slot: GroupSlot, key: MemberKey },
    /// Takes these groups (ascending) from topics, then removes the groups if they go `for_good`.
    Drop { numbers: RoaringBitmap, slots: SmallVec<[GroupSlot; 4]>, for_good: bool },
    /// Changes perms of the group's topics.
    Perms { slot: GroupSlot, numbers: RoaringBitmap, change: PermChange },
}

/// The queues of a registration.
#[derive(Debug)]
pub(super) struct Puts {
    pub slot: GroupSlot,
    pub configs: vec::IntoIter<TopicConfig>,
    /// Also those of topics that the group has.
    pub everything: bool,
    /// Without the permission to write.
    pub read_only: bool,
}

/// What happens to a perm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PermChange {
    /// The group has no master: it does not take messages until one comes.
    LoseWrite,
    /// As an operator wants it. The group's epoch stays: a registration with an unchanged data
    /// version leaves perms alone, so the last ones are still recognised.
    Operator { on: bool },
}

impl PermChange {
    fn of(self, bits: i32) -> i32 {
        match self {
            PermChange::Operator { on: true } => perm::READ | perm::WRITE,
            PermChange::LoseWrite | PermChange::Operator { on: false } => bits & !perm::WRITE,
        }
    }
}

impl RouteTable {
    /// The table, which from now on makes changes of more than `topics` topics in steps of so many.
    /// Whoever changes it looks whether it [is whole](RouteTable::is_whole) afterwards, and if not,
    /// calls [`RouteTable::step`] until it is, before the next change.
    #[must_use]
    pub fn in_steps_of(mut self, topics: usize) -> RouteTable {
        self.steps.topics_a_step = Some(topics.max(1));
        self
    }

    /// Whether no change is under way.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.steps.before.is_none()
    }

    /// Goes on with the change under way for one step; whether the table is whole.
    pub fn step(&mut self) -> bool {
        self.work(self.steps.topics_a_step.unwrap_or(usize::MAX));
        if self.steps.jobs.is_empty()
            && let Some(before) = self.steps.before.take()
        {
            self.changed |= before.changed;
        }
        self.is_whole()
    }

    /// The table as readers may see it from now on: whole. Copies pointers only.
    #[must_use]
    pub fn freeze(&self) -> RouteView {
        self.steps.before.as_ref().map_or(&self.view, |before| &before.view).clone()
    }

    /// Whether anything that [`RouteTable::freeze`] shows has changed since the last call.
    pub fn take_changed(&mut self) -> bool {
        match &mut self.steps.before {
            Some(before) => std::mem::take(&mut before.changed),
            None => std::mem::take(&mut self.changed),
        }
    }

    /// To be called before a change of at most so many topics.
    pub(super) fn begin(&mut self, topics: usize) {
        assert!(self.is_whole() && self.steps.jobs.is_empty(), "one change after the other");
        if self.steps.topics_a_step.is_some_and(|most| topics > most) {
            let changed = std::mem::take(&mut self.changed);
            self.steps.before = Some(Before { view: self.view.clone(), changed });
        }
    }

    pub(super) fn leave(&mut self, job: Job) {
        self.steps.jobs.push_back(job);
    }

    /// To be called when a change has left all its jobs: does them unless there are too many.
    pub(super) fn begun(&mut self) {
        if self.is_whole() {
            self.work(usize::MAX);
        }
    }

    fn work(&mut self, mut topics: usize) {
        while topics > 0
            && let Some(job) = self.steps.jobs.pop_front()
        {
            topics = self.work_on(job, topics);
        }
    }

    /// Works on a job, and puts back what is left of it. Returns what is left of `topics`.
    fn work_on(&mut self, job: Job, topics: usize) -> usize {
        match job {
            Job::Miss { puts, at, named } => self.miss(puts, at, named, topics),
            Job::Put(mut puts) => {
                let count = topics.min(puts.configs.len());
                for config in puts.configs.by_ref().take(count) {
                    self.put(puts.slot, &config, puts.everything, puts.read_only);
                }
                if puts.configs.len() > 0 {
                    self.steps.jobs.push_front(Job::Put(puts));
                }
                topics - count
            }
            Job::Map { slot, mut mappings, everything } => {
                let count = topics.min(mappings.len());
                for mapping in mappings.by_ref().take(count) {
                    self.map(slot, &mapping, everything);
                }
                if mappings.len() > 0 {
                    self.steps.jobs.push_front(Job::Map { slot, mappings, everything });
                }
                topics - count
            }
            Job::Seal { slot, key } => {
                self.seal(slot, key);
                topics
            }
            Job::Drop { mut numbers, slots, for_good } => {
                let some = take_smallest(&mut numbers, topics.div_ceil(DROP_TOPICS));
                for number in &some {
                    self.drop_queues(*number, &slots);
                }
                if !numbers.is_empty() {
                    self.steps.jobs.push_front(Job::Drop { numbers, slots, for_good });
                } else if for_good {
                    slots.iter().for_each(|slot| self.remove_group(*slot));
                }
                topics.saturating_sub(some.len().saturating_mul(DROP_TOPICS))
            }
            Job::Perms { slot, mut numbers, change } => {
                let some = take_smallest(&mut numbers, topics);
                for number in &some {
                    self.change_perm(*number, slot, change);
                }
                if !numbers.is_empty() {
                    self.steps.jobs.push_front(Job::Perms { slot, numbers, change });
                }
                topics - some.len()
            }
        }
    }

    fn miss(
        &mut self,
        puts: Puts,
        mut at: usize,
        mut named: RoaringBitmap,
        topics: usize,
    ) -> usize {
        let left = &puts.configs.as_slice()[at..];
        let count = topics.min(left.len());
        for config in &left[..count] {
            named.extend(self.view.topics.get(config.topic.as_bytes()).map(|r| r.number().0));
        }
        at += count;
        if at < puts.configs.len() {
            self.steps.jobs.push_front(Job::Miss { puts, at, named });
            return topics - count;
        }
        let numbers = &self.states[puts.slot.index()].topics - &named;
        let slots = SmallVec::from_elem(puts.slot, 1);
        self.steps.jobs.push_front(Job::Put(puts));
        self.steps.jobs.push_front(Job::Drop { numbers, slots, for_good: false });
        topics - count
    }

    fn change_perm(&mut self, number: TopicNumber, slot: GroupSlot, change: PermChange) {
        let epoch = self.states[slot.index()].epoch;
        let route = self.topic_of(number).to_owned();
        let route = route.get();
        let mut queues = route.on(slot).expect("a group's topic has its queues");
        queues.perm = change.of(queues.perm);
        self.set_queues(route, slot, queues);
        if matches!(change, PermChange::Operator { .. }) {
            self.states[slot.index()].epoch = epoch;
        }
    }
}

/// Takes out at most `count` numbers.
fn take_smallest(numbers: &mut RoaringBitmap, count: usize) -> Vec<TopicNumber> {
    let some: Vec<TopicNumber> = numbers.iter().take(count).map(TopicNumber).collect();
    numbers.remove_smallest(some.len() as u64);
    some
}
