//! Seeded chance: the same seed gives the same requests and the same arrival times.

/// SplitMix64: one addition and two multiplications a draw, every seed is a good one.
#[derive(Clone)]
pub struct Chance(u64);

impl Chance {
    /// A stream of its own for each (seed, purpose, connection).
    pub fn new(seed: u64, purpose: u64, connection: u64) -> Self {
        let mut mixed = Chance(seed);
        let mut state = mixed.draw();
        for part in [purpose, connection] {
            mixed = Chance(state ^ part.wrapping_mul(0xd6e8_feb8_6659_fd93));
            state = mixed.draw();
        }
        Chance(state)
    }

    /// Any 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `0..bound`; 0 when the bound is 0.
    pub fn below(&mut self, bound: u32) -> u32 {
        let scaled = ((self.draw() >> 32) * u64::from(bound)) >> 32;
        u32::try_from(scaled).expect("a product of two 32-bit numbers, its upper half")
    }

    /// A number in `0.0..1.0`.
    pub fn fraction(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_one_seed_differ_by_purpose_and_connection() {
        let first = |purpose, connection| Chance::new(1, purpose, connection).draw();
        let mut all: Vec<u64> = (0..4).flat_map(|p| (0..64).map(move |c| first(p, c))).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 256);
    }

    #[test]
    fn fractions_are_spread_evenly() {
        let mut chance = Chance::new(7, 0, 0);
        let low = (0..100_000).filter(|_| chance.fraction() < 0.1).count();
        assert!((9_500..10_500).contains(&low), "{low} of 100 000 below 0.1");
    }
}
