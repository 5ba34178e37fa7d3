//! Chance from a seed (splitmix64), the same on every machine.

/// A source of chance.
pub struct Random {
    state: u64,
}

impl Random {
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `bound` - 1.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).expect("64 bits hold a length");
        usize::try_from(self.next() % bound).expect("smaller than a length")
    }

    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    pub fn pick<'a>(&mut self, among: &[&'a str]) -> &'a str {
        among[self.below(among.len())]
    }
}
