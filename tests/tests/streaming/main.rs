//! What users see while something runs, and afterwards: events in order, resumed anywhere, kept
//! for a while; requests carried out once; commands; questions to the kernel.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod assist;
mod commands;
mod disconnects;
mod displays;
mod half_closed;
mod kept;
mod once;
mod order;
mod outcomes;
mod outputs;
mod parts;
mod resume;
mod slow;
