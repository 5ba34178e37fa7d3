//! Finds connections that have been silent for too long, without looking at the others.

/// No connection.
const NONE: u32 = u32::MAX;
/// Most buckets; longer silences get wider buckets.
const BUCKETS_MAX: u32 = 4096;

/// A lazy wheel: a connection sits in the bucket of the second at which it would be due if nothing
/// happened, and is moved on only when that second comes. Activity costs the connection one store
/// and the wheel nothing; each connection is looked at once in `idle_s` seconds.
///
/// ```text
/// bucket:  now   now+1  now+2 ...  now+idle
///           |      |                  |
///        [3,8,1]  [7]               [2,5]     lists linked through `links`, by slot
/// ```
///
/// When the wheel has not been turned for a while, `now` above lags, and a connection may come into
/// a bucket that is too early: then it is looked at once more, and moved on.
///
/// Lives: one per shard. Knows no clock: seconds come as arguments and never go back.
#[derive(Debug)]
pub(super) struct IdleWheel {
    idle_s: u32,
    /// Seconds that share a bucket.
    width_s: u32,
    heads: Vec<u32>,
    links: Vec<Link>,
    /// The last bucket number (second / width) that was emptied.
    done: u32,
    waiting: usize,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    next: u32,
    previous: u32,
    /// Index into `heads`, or `NONE` if the slot is in no bucket.
    bucket: u32,
}

impl IdleWheel {
    /// A wheel for silences of `idle_s` seconds, with room for `connections_max` slots (address
    /// space, not memory).
    pub(super) fn new(idle_s: u32, connections_max: u32, now_s: u32) -> IdleWheel {
        assert!(idle_s > 0, "0 is no wheel at all");
        let width_s = idle_s.div_ceil(BUCKETS_MAX);
        // One bucket more than the silence spans, so that a connection never lands in the bucket
        // being emptied; and one for the rounding.
        let buckets = idle_s.div_ceil(width_s) as usize + 2;
        IdleWheel {
            idle_s,
            width_s,
            heads: vec![NONE; buckets],
            links: Vec::with_capacity(connections_max as usize),
            done: now_s / width_s,
            waiting: 0,
        }
    }

    /// Starts to watch `slot`, last active at `active_s`. Returns the second at which it is due if
    /// nothing happens.
    pub(super) fn insert(&mut self, slot: u32, active_s: u32) -> u32 {
        let index = slot as usize;
        if self.links.len() <= index {
            self.links.resize(index + 1, Link { next: NONE, previous: NONE, bucket: NONE });
        }
        debug_assert_eq!(self.links[index].bucket, NONE);
        if self.waiting == 0 {
            // Nothing lies in between; and so the next look is not early.
            self.done = self.done.max(active_s / self.width_s);
        }
        // Due when a full `idle_s` has passed, so in the bucket that begins then or later.
        let due = active_s.saturating_add(self.idle_s).div_ceil(self.width_s).max(self.done + 1);
        // Others are watched, and `done` lies far back: look early, and put back.
        let last =
            self.done.saturating_add(u32::try_from(self.heads.len() - 1).unwrap_or(u32::MAX));
        let bucket_due = due.min(last);
        let bucket = self.place(bucket_due);
        let next = std::mem::replace(&mut self.heads[bucket], slot);
        if next != NONE {
            self.links[next as usize].previous = slot;
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most BUCKETS_MAX + 2")]
        let link = Link { next, previous: NONE, bucket: bucket as u32 };
        self.links[index] = link;
        self.waiting += 1;
        bucket_due.saturating_mul(self.width_s)
    }

    /// Stops to watch `slot`.
    pub(super) fn remove(&mut self, slot: u32) {
        let Some(link) = self.links.get(slot as usize).copied() else { return };
        if link.bucket == NONE {
            return;
        }
        match link.previous {
            NONE => self.heads[link.bucket as usize] = link.next,
            previous => self.links[previous as usize].next = link.next,
        }
        if link.next != NONE {
            self.links[link.next as usize].previous = link.previous;
        }
        self.links[slot as usize].bucket = NONE;
        self.waiting -= 1;
    }

    /// Puts the slots that have been silent for `idle_s` into `due` and forgets them; `active` says
    /// when a slot was last active. The others stay watched.
    pub(super) fn expire(&mut self, now_s: u32, active: impl Fn(u32) -> u32, due: &mut Vec<u32>) {
        let now = now_s / self.width_s;
        let buckets = u32::try_from(self.heads.len()).unwrap_or(u32::MAX);
        // After a long sleep, one turn of the wheel has seen them all.
        let steps = now.saturating_sub(self.done).min(buckets);
        let first = self.done + 1;
        self.done = self.done.max(now);
        for step in 0..steps {
            let bucket = self.place(first + step);
            let mut slot = std::mem::replace(&mut self.heads[bucket], NONE);
            while slot != NONE {
                let link = std::mem::replace(
                    &mut self.links[slot as usize],
                    Link { next: NONE, previous: NONE, bucket: NONE },
                );
                self.waiting -= 1;
                let active_s = active(slot);
                if now_s.saturating_sub(active_s) >= self.idle_s {
                    due.push(slot);
                } else {
                    self.insert(slot, active_s);
                }
                slot = link.next;
            }
        }
    }

    /// The second at which [`IdleWheel::expire`] has something to look at; `None` if nothing is
    /// watched.
    pub(super) fn next_s(&self) -> Option<u32> {
        if self.waiting == 0 {
            return None;
        }
        let buckets = u32::try_from(self.heads.len()).unwrap_or(u32::MAX);
        (1..=buckets)
            .map(|step| self.done + step)
            .find(|bucket| self.heads[self.place(*bucket)] != NONE)
            .map(|bucket| bucket.saturating_mul(self.width_s))
    }

    fn place(&self, bucket: u32) -> usize {
        bucket as usize % self.heads.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(wheel: &mut IdleWheel, now_s: u32, active: &[u32]) -> Vec<u32> {
        let mut due = Vec::new();
        wheel.expire(now_s, |slot| active[slot as usize], &mut due);
        due.sort_unstable();
        due
    }

    #[test]
    fn silence_ends_after_the_full_time_and_not_a_second_before() {
        let mut wheel = IdleWheel::new(120, 4, 1000);
        wheel.insert(0, 1000);
        assert_eq!(wheel.next_s(), Some(1120));
        assert_eq!(due(&mut wheel, 1119, &[1000]), Vec::<u32>::new());
        assert_eq!(due(&mut wheel, 1120, &[1000]), [0]);
        assert_eq!(wheel.next_s(), None);
    }

    #[test]
    fn activity_moves_the_end_without_touching_the_wheel() {
        let mut wheel = IdleWheel::new(10, 4, 0);
        wheel.insert(0, 0);
        wheel.insert(1, 0);
        assert_eq!(due(&mut wheel, 10, &[7, 0]), [1]);
        assert_eq!(due(&mut wheel, 16, &[7, 0]), Vec::<u32>::new());
        assert_eq!(due(&mut wheel, 17, &[7, 0]), [0]);
    }

    #[test]
    fn a_removed_slot_is_never_due_and_its_neighbours_are() {
        let mut wheel = IdleWheel::new(5, 8, 0);
        for slot in 0..5 {
            wheel.insert(slot, 0);
        }
        for slot in [0, 2, 4] {
            wheel.remove(slot);
            wheel.remove(slot);
        }
        wheel.remove(77);
        assert_eq!(due(&mut wheel, 5, &[0; 5]), [1, 3]);
        assert_eq!(wheel.waiting, 0);
    }

    #[test]
    fn a_long_sleep_of_the_shard_finds_everything_at_once() {
        let mut wheel = IdleWheel::new(3, 8, 0);
        wheel.insert(0, 0);
        wheel.insert(1, 2);
        wheel.insert(2, 1_000_000);
        assert_eq!(due(&mut wheel, 1_000_001, &[0, 2, 1_000_000]), [0, 1]);
        assert_eq!(due(&mut wheel, 1_000_003, &[0, 2, 1_000_000]), [2]);
    }

    #[test]
    fn agrees_with_a_scan_of_everything() {
        for idle_s in [1, 2, 7, 120, 5000, 86_400] {
            let mut wheel = IdleWheel::new(idle_s, 64, 50);
            let width = wheel.width_s;
            let mut active = [50u32; 64];
            let mut open = [true; 64];
            for slot in 0..64 {
                wheel.insert(slot, 50);
            }
            let mut state = 0x5eed_u32 ^ idle_s;
            let mut now = 50;
            while open.iter().any(|open| *open) && now < 50 + idle_s * 20 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let slot = (state >> 8) as usize % 64;
                if open[slot] && state.is_multiple_of(3) && now < 50 + idle_s * 4 {
                    active[slot] = now;
                }
                now += 1 + (state >> 20) % (idle_s / 8 + 1);
                for slot in due(&mut wheel, now, &active) {
                    let slot = slot as usize;
                    assert!(open[slot] && now - active[slot] >= idle_s);
                    open[slot] = false;
                }
                for slot in 0..64 {
                    assert!(!open[slot] || now - active[slot] < idle_s + 2 * width);
                }
            }
            assert!(open.iter().all(|open| !open), "all end, idle {idle_s}");
        }
    }
}
