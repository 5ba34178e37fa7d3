//! JSON as RocketMQ peers write it, which is not quite JSON, and as the Java NameServer writes it.
//!
//! Why not `serde_json`: Java brokers write integer keys bare (`{0:0,1:1}`), and what the Java
//! reader (fastjson2) takes beyond that is relied on here and there: single quotes, numbers as
//! text, a null for a number meaning 0, the last of two equal members winning, one comma too many.
//! A strict reader refuses real brokers; a lenient tree would copy everything. What would change
//! our mind: peers that all write the standard form.
//!
//! The rules of [`Reader`], where they go beyond the standard:
//!
//! * strings in double or single quotes, also as keys; escapes `\' \v \0 \xXX`; raw control
//!   characters;
//! * integer keys without quotes; any other name without quotes is refused;
//! * one comma behind any value, also the last one or the outermost; no comma between two members;
//! * comments `/* */` and `//` wherever blanks may stand; NUL, backspace, form feed and 0x1A count
//!   as blanks;
//! * numbers as text, with `+`, leading zeros, a fraction that is cut off, an exponent, an `L`
//!   behind;
//! * `null` or an empty text for a number is 0, for a boolean false.
//!
//! Refused although Java takes it: an array where a number belongs, and nesting beyond
//! [`crate::limits::JSON_DEPTH_MAX`]. Taken although Java refuses it: comments in more places, a
//! key that has both an escape and a supplementary character (a defect there).

mod number;
mod raw;
mod read;
mod scan;
mod write;

pub use raw::Raw;
pub(super) use read::clean_length;
pub use read::{JsonError, Kind, Reader};
pub use write::{put_escaped, put_int, put_list, put_long, put_string, put_text};
