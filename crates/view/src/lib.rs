//! The viewer: a small server on the loopback, the page that it serves, and the pictures that the page asks for.
//!
//! ```text
//!  page ◀──HTTP──┐                                ┌─ [`file`]: splats of a file or of a finished run
//!  page ◀──────▶ server ──camera──▶ hub ──job──▶ drawer
//!  robot ◀──WS───┘  (one thread)  ◀─event, frame──┘ [`live`]: between two steps of a training
//! ```
//! The [`hub::Hub`] is all that the two sides share. Each page has one place for the camera that it wants to see, so the
//! newest wins, and a frame is drawn for it only while few are under way: nobody waits for a page, however slow it is.
//! Whoever draws holds an [`Engine`](gausset_core::engine::Engine) and asks the hub for jobs; the server's thread makes
//! JPEGs of what was drawn. [`preview`] is a page of its own on the same server. What the server refuses, and why, is in `docs/security.md`.
#![forbid(unsafe_code)]

mod assets;
mod browser;
mod budget;
pub mod colours;
pub mod draw;
pub mod drawn;
mod encode;
pub mod file;
mod head;
mod history;
pub mod hub;
pub mod job;
pub mod live;
mod pace;
mod places;
pub mod preview;
pub mod protocol;
pub mod scene;
pub mod server;
pub mod site;
pub mod snapshot;
mod socket;
pub mod thumbs;
mod token;

pub use server::{Listen, Server, ServerOptions};
