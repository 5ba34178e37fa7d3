//! Two old ways of encrypting a private key that are still met: PKCS#12's, which RocketMQ's own
//! description of TLS used for years (`openssl pkcs8 -topk8 -v1 PBE-SHA1-RC4-128`), and the one of
//! OpenSSL's `RSA PRIVATE KEY` files.
//!
//! Both are weak. They are read, because the files exist; the file's permissions are what protects
//! it.

use aes::{Aes128, Aes192, Aes256};
use cbc::Decryptor;
use cipher::block_padding::Pkcs7;
use cipher::{BlockModeDecrypt as _, KeyInit as _, KeyIvInit as _, StreamCipher as _};
use des::TdesEde3;
use md5::{Digest as _, Md5};
use pkcs8::der::asn1::{AnyRef, OctetStringRef};
use pkcs8::der::{Decode as _, Reader as _, SliceReader};
use pkcs8::spki::AlgorithmIdentifierRef;
use rc4::Rc4;
use sha1::Sha1;
use zeroize::Zeroizing;

use super::key::not_read;
use crate::limits::KEY_ITERATIONS_MAX;

/// Bytes that may be a key.
type Plain = Zeroizing<Vec<u8>>;

const WRONG: &str = "does not open with tls.server.keyPassword";

/// `pkcs-12PbeIds`: the last number says which.
const PKCS12_PREFIX: &str = "1.2.840.113549.1.12.1.";
const SHA1_BYTES: usize = 20;
const SHA1_BLOCK_BYTES: usize = 64;

/// What a PKCS#12 derivation is for.
const FOR_KEY: u8 = 1;
const FOR_IV: u8 = 2;

/// Opens a PKCS#8 structure that is encrypted by PKCS#12's scheme; `None` if it is by another.
pub(super) fn pkcs12(der: &[u8], password: &str) -> Option<Result<Plain, String>> {
    let mut reader = SliceReader::new(der).ok()?;
    let (scheme, encrypted) = reader
        .sequence(|reader| {
            let scheme = AlgorithmIdentifierRef::decode(reader)?;
            let encrypted = <&OctetStringRef>::decode(reader)?;
            pkcs8::der::Result::Ok((scheme, encrypted))
        })
        .ok()?;
    let oid = scheme.oid.to_string();
    let which = oid.strip_prefix(PKCS12_PREFIX)?;
    let broken = || Err("is not a PKCS#8 key: its encryption has no parameters".to_owned());
    let Some((salt, rounds)) = scheme.parameters.and_then(salt_and_rounds) else {
        return Some(broken());
    };
    if rounds > KEY_ITERATIONS_MAX {
        return Some(Err(format!("asks for more than {KEY_ITERATIONS_MAX} rounds of derivation")));
    }
    let derive = |purpose, bytes| derive(purpose, password, salt, rounds, bytes);
    let encrypted = encrypted.as_bytes();
    Some(match which {
        "1" => Ok(rc4(&derive(FOR_KEY, 16), encrypted)),
        "2" => Ok(rc4(&derive(FOR_KEY, 5), encrypted)),
        "3" => unblock::<TdesEde3>(&derive(FOR_KEY, 24), &derive(FOR_IV, 8), encrypted),
        "4" => Err(not_read("two-key triple DES")),
        _ => Err(not_read("RC2")),
    })
}

fn salt_and_rounds(parameters: AnyRef<'_>) -> Option<(&[u8], u32)> {
    parameters
        .sequence(|reader| {
            let salt = <&OctetStringRef>::decode(reader)?;
            let rounds = u32::decode(reader)?;
            pkcs8::der::Result::Ok((salt.as_bytes(), rounds))
        })
        .ok()
}

/// RFC 7292, appendix B.2, with SHA-1.
fn derive(purpose: u8, password: &str, salt: &[u8], rounds: u32, bytes: usize) -> Plain {
    let utf16: Plain =
        Zeroizing::new(password.encode_utf16().chain([0]).flat_map(u16::to_be_bytes).collect());
    let fill = |from: &[u8]| -> Vec<u8> {
        let length = from.len().div_ceil(SHA1_BLOCK_BYTES) * SHA1_BLOCK_BYTES;
        from.iter().copied().cycle().take(length).collect()
    };
    let mut input = Zeroizing::new([fill(salt), fill(&utf16)].concat());
    let mut key = Zeroizing::new(Vec::with_capacity(bytes + SHA1_BYTES));
    while key.len() < bytes {
        let mut block = Sha1::new()
            .chain_update([purpose; SHA1_BLOCK_BYTES])
            .chain_update(&input[..])
            .finalize();
        for _ in 1..rounds {
            block = Sha1::digest(block);
        }
        key.extend_from_slice(&block);
        // Each block of the input plus this one plus 1, as numbers.
        let add: Vec<u8> = block.iter().copied().cycle().take(SHA1_BLOCK_BYTES).collect();
        for chunk in input.chunks_mut(SHA1_BLOCK_BYTES) {
            let mut carry = 1;
            for (digit, add) in chunk.iter_mut().zip(&add).rev() {
                [carry, *digit] =
                    (u16::from(*digit) + u16::from(*add) + u16::from(carry)).to_be_bytes();
            }
        }
    }
    key.truncate(bytes);
    key
}

fn rc4(key: &[u8], encrypted: &[u8]) -> Plain {
    let mut plain = Zeroizing::new(encrypted.to_vec());
    // A key of 5 or 16 bytes is one of RC4's lengths.
    if let Ok(mut cipher) = Rc4::new_from_slice(key) {
        cipher.apply_keystream(&mut plain);
    }
    plain
}

/// Opens a section with `DEK-Info: how`.
///
/// # Errors
/// For a person, to be put behind the name of the file.
pub(super) fn openssl(how: &str, password: &str, encrypted: &[u8]) -> Result<Plain, String> {
    let (name, iv) = how.split_once(',').ok_or("has an encrypted key without its DEK-Info")?;
    let iv = hex(iv.trim()).ok_or("has a DEK-Info that cannot be read")?;
    let key = |bytes| stretch(password, &iv, bytes);
    match name.trim() {
        "AES-128-CBC" => unblock::<Aes128>(&key(16)?, &iv, encrypted),
        "AES-192-CBC" => unblock::<Aes192>(&key(24)?, &iv, encrypted),
        "AES-256-CBC" => unblock::<Aes256>(&key(32)?, &iv, encrypted),
        "DES-EDE3-CBC" => unblock::<TdesEde3>(&key(24)?, &iv, encrypted),
        other => Err(not_read(&other.chars().take(20).collect::<String>())),
    }
}

/// OpenSSL's `EVP_BytesToKey` with MD5, one round, and the first eight bytes of the vector as salt.
fn stretch(password: &str, iv: &[u8], bytes: usize) -> Result<Plain, String> {
    let salt = iv.get(..8).ok_or("has a DEK-Info that cannot be read")?;
    let mut key: Plain = Zeroizing::new(Vec::with_capacity(bytes + 16));
    let mut last: Vec<u8> = Vec::new();
    while key.len() < bytes {
        let digest = Md5::new().chain_update(&last).chain_update(password).chain_update(salt);
        last = digest.finalize().to_vec();
        key.extend_from_slice(&last);
    }
    key.truncate(bytes);
    Ok(key)
}

fn unblock<C>(key: &[u8], iv: &[u8], encrypted: &[u8]) -> Result<Plain, String>
where
    Decryptor<C>: cipher::KeyIvInit + cipher::BlockModeDecrypt,
    C: cipher::BlockCipherDecrypt,
{
    let cipher = Decryptor::<C>::new_from_slices(key, iv)
        .map_err(|_| "has a DEK-Info that cannot be read".to_owned())?;
    cipher.decrypt_padded_vec::<Pkcs7>(encrypted).map(Zeroizing::new).map_err(|_| WRONG.to_owned())
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}
