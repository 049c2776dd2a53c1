//! Launches the nodes that a batch cluster is about to need, before it needs them.
//!
//! The program: its command line, and what connects the crates.
//!
//! ```text
//! cli/                 one file per command; only main.rs imports it
//! demo/                two simulated policies in fast time, on the dashboard
//! description_page.rs  the page of a log's statistics
//! ```

pub mod cli;
pub mod demo;
pub mod description_page;
