//! Position of a direction on the canvas of a source, the result of every projection.

/// Position of a direction on the canvas.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CanvasPosition {
    /// Column, continuous px.
    pub u: f64,
    /// Row, continuous px.
    pub v: f64,
    /// Index of the continuous part of the canvas; there is no interpolation between different parts.
    pub patch: u8,
    /// Whether the source shows this direction.
    pub is_visible: bool,
    /// A second position that shows the same direction, with its weight in the blend, 0 to 1.
    pub second: Option<([f64; 2], f64)>,
}

impl CanvasPosition {
    pub(crate) fn new(u: f64, v: f64) -> Self {
        Self { u, v, patch: 0, is_visible: true, second: None }
    }
}
