//! The viewer: an HTTP server on the loopback interface, its web page, and the renderers behind it.
//!
//! ```text
//!  page ◀──HTTP──┐                                ┌─ [`file`]: splats of a file or of a finished run
//!  page ◀──────▶ server ──camera──▶ hub ──job──▶ renderer
//!  robot ◀──WS───┘  (one thread)  ◀─event, frame──┘ [`live`]: between two steps of a training
//! ```
//! The two sides share only the [`hub::Hub`]. Each page has one slot for the camera that it requests, so the newest
//! request wins, and a frame is rendered only while few are in flight: no slow page holds up the others or the
//! training. The renderer owns an [`Engine`](gausset_core::engine::Engine) and takes jobs from the hub; the server's
//! thread encodes the results. [`preview`] is another page on the same server. `docs/reference/security.md` lists what the server
//! refuses, and why.
//!
//! ```
//! use gausset_core::engine::Rendering;
//! use gausset_view::colours::alpha_image;
//!
//! // What a page shows for the alpha of a render of two pixels.
//! let rendering = Rendering { width: 2, height: 1, alpha: vec![0.0, 1.0], ..Rendering::default() };
//! assert_eq!(alpha_image(&rendering).data, [0, 0, 0, 255, 255, 255]);
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod assets;
mod browser;
mod budget;
pub mod colours;
mod encode;
pub mod file;
mod head;
mod history;
pub mod hub;
pub mod job;
pub mod live;
mod model;
mod pace;
pub mod preview;
pub mod protocol;
pub mod render;
pub mod result;
mod save;
pub mod scene;
pub mod server;
pub mod site;
mod slots;
pub mod snapshot;
mod socket;
pub mod thumbs;
mod token;

pub use encode::EncodeError;
pub use server::{Listen, Server, ServerOptions};
