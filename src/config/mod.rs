//! Settings, from what the user gave to what the server runs with.
//!
//! ```text
//! flags, file, environment -> raw::Raw -> checked::Config -> settings::Settings, the part that can
//! change
//!                                options: what there is
//! ```

pub mod checked;
pub mod network;
pub mod options;
pub mod properties;
pub mod raw;
pub mod settings;
mod shown;
pub mod tls;

pub use checked::Config;
pub use settings::Settings;
