//! What tells registrations apart and damaged ones from whole ones, a piece at a time: 16 MiB take
//! some milliseconds.

use xxhash_rust::xxh3::Xxh3;

use super::request::RegisterRequest;

/// A [digest](RegisterRequest::digest) that is being computed.
pub(super) struct Digesting {
    hash: Xxh3,
    /// Bytes of the body that are in `hash`.
    at: usize,
    pub deletes_missing: bool,
}

impl Digesting {
    pub fn new(request: &RegisterRequest, deletes_missing: bool, seed: u64) -> Digesting {
        let mut hash = Xxh3::with_seed(seed);
        let mut text = |text: Option<&str>| {
            let length = text.map_or(u64::MAX, |text| text.len() as u64);
            hash.update(&length.to_le_bytes());
            hash.update(text.unwrap_or_default().as_bytes());
        };
        text(Some(&request.cluster));
        text(Some(&request.broker));
        text(Some(&request.addr));
        text(request.ha_addr.as_deref());
        text(request.zone.as_deref());
        hash.update(&request.id.0.to_le_bytes());
        hash.update(&request.version.to_le_bytes());
        hash.update(&request.body_crc32.to_le_bytes());
        let acting = request.acting_master.map_or(2, u8::from);
        hash.update(&[acting, u8::from(request.compressed), u8::from(deletes_missing)]);
        Digesting { hash, at: 0, deletes_missing }
    }

    /// Takes at most `bytes` more of the body; the digest if that was the rest.
    pub fn step(&mut self, body: &[u8], bytes: usize) -> Option<u128> {
        let piece = piece(body, self.at, bytes);
        self.hash.update(piece);
        self.at += piece.len();
        (self.at == body.len()).then(|| self.hash.digest128())
    }
}

impl std::fmt::Debug for Digesting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Digesting").field("at", &self.at).finish_non_exhaustive()
    }
}

/// A checksum that is being computed.
#[derive(Debug, Default)]
pub(super) struct Checking {
    crc: crc32fast::Hasher,
    /// Bytes of the body that are in `crc`.
    at: usize,
}

impl Checking {
    /// Takes at most `bytes` more of the body; if that was the rest, whether the body has the
    /// checksum that came with it, if one did.
    pub fn step(&mut self, request: &RegisterRequest, bytes: usize) -> Option<bool> {
        if request.body_crc32 == 0 {
            return Some(true);
        }
        let piece = piece(&request.body, self.at, bytes);
        self.crc.update(piece);
        self.at += piece.len();
        // Java masks the sign bit away (`UtilAll.crc32`).
        let crc = || self.crc.clone().finalize() & 0x7FFF_FFFF;
        (self.at == request.body.len()).then(|| i64::from(crc()) == i64::from(request.body_crc32))
    }
}

fn piece(body: &[u8], at: usize, bytes: usize) -> &[u8] {
    &body[at..at.saturating_add(bytes).min(body.len())]
}

impl RegisterRequest {
    /// Whether the body has the checksum that came with it, if one did.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        Checking::default().step(self, usize::MAX).expect("the whole body")
    }

    /// Stands for everything that decides what a registration does: two with equal digests do the
    /// same to the same group. `deletes_missing` is the setting
    /// `deleteTopicWithBrokerRegistration`. 128 bits with a seed of this process: two do not meet
    /// by chance, nor can a pair be prepared beforehand. A peer that made two meet would only have
    /// its own change taken for what it said before.
    #[must_use]
    pub fn digest(&self, deletes_missing: bool, seed: u64) -> u128 {
        let mut digesting = Digesting::new(self, deletes_missing, seed);
        digesting.step(&self.body, usize::MAX).expect("the whole body")
    }
}
