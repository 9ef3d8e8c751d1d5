//! Pseudorandom numbers, the same in every run. Not for secrets.

/// A sequence that its seed decides (xorshift).
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// A seed of zero counts as one, because it would give only zeros.
    pub fn new(seed: u64) -> Self {
        Self(seed.max(1))
    }

    /// A number below `bound`; zero when there is none.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        // The upper half, because the lowest bits of such a sequence repeat soon.
        usize::try_from(self.0 >> 33).unwrap_or_default() % bound.max(1)
    }

    /// One of them.
    ///
    /// # Panics
    /// When there are none.
    pub fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())].clone()
    }

    /// Shuffles them.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }

    /// True with this chance in a hundred.
    pub fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_again_and_all_of_them() {
        let draw = |seed| {
            let mut dice = Dice::new(seed);
            (0..200).map(|_| dice.below(6)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        for number in 0..6 {
            assert!(draw(0).contains(&number));
        }
        assert_eq!(Dice::new(1).below(0), 0);
    }
}
