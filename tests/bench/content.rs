//! Reproducible bytes that compress like the files of an OS.

/// A SplitMix64 generator: unlike the one of a library, it always returns the same numbers.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0xd6e8_feb8_6659_fd93))
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A random number in 0..1.
    pub fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

const WORDS: usize = 2048;
/// The length of a run of either words or random bytes.
const STRETCH: usize = 4096;
/// One of this many runs is incompressible. The others compress to slightly more than a third.
const HARD: u64 = 24;

/// An endless sequence of words with runs of random bytes.
#[derive(Debug)]
pub struct Content {
    random: Random,
    words: Vec<Vec<u8>>,
    buffer: Vec<u8>,
}

impl Content {
    pub fn new(seed: u64) -> Self {
        // All layers use the same words.
        let mut letters = Random::new(7);
        let words = (0..WORDS)
            .map(|_| {
                let length = 3 + letters.next() % 10;
                let mut word: Vec<u8> =
                    (0..length).map(|_| b'a' + (letters.next() % 26) as u8).collect();
                word.push(b' ');
                word
            })
            .collect();
        Self { random: Random::new(seed), words, buffer: Vec::new() }
    }

    /// Returns the next bytes.
    pub fn take(&mut self, size: usize) -> &[u8] {
        self.buffer.clear();
        while self.buffer.len() < size {
            let end = self.buffer.len() + STRETCH;
            let hard = self.random.next().is_multiple_of(HARD);
            while self.buffer.len() < end {
                let number = self.random.next();
                if hard {
                    self.buffer.extend_from_slice(&number.to_le_bytes());
                } else {
                    // The product makes some words more frequent than others.
                    let skewed = ((number & 0xffff) * ((number >> 16) & 0xffff)) >> 21;
                    self.buffer.extend_from_slice(&self.words[skewed as usize % WORDS]);
                }
            }
        }
        &self.buffer[..size]
    }
}
