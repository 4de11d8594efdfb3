//! The place of a direction on a canvas: what every kind of source returns.

/// A direction on the canvas.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// Column, continuous.
    pub u: f64,
    /// Row, continuous.
    pub v: f64,
    /// Which smooth part of the canvas this is: neighbours with different patches are not interpolated between.
    pub patch: u8,
    /// Whether the source shows this direction at all.
    pub is_seen: bool,
    /// A second place that shows the same direction, with its share of the colour.
    pub second: Option<([f64; 2], f64)>,
}

impl Place {
    pub(crate) fn plain(u: f64, v: f64) -> Self {
        Self { u, v, patch: 0, is_seen: true, second: None }
    }
}
