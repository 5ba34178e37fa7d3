//! Chapters that belong to no single module.

pub mod cases;
pub mod compatibility;
pub mod decisions;
pub mod differences;
pub mod glossary;
pub mod performance;
pub mod scaling;
