//! A map of places from above as inline SVG: what is known of each, the cameras, and where to photograph again.

use std::fmt::Write as _;

use crate::text::escape_html;

/// Side of a cell, px.
const CELL: f64 = 10.0;
/// Space around the cells, px: arrows may begin outside.
const MARGIN: f64 = 30.0;
/// Length of the line that shows where a camera looks, px.
const CAMERA_LINE: f64 = 9.0;

/// A map of places. Positions are in cells; x is to the right, y is down.
#[derive(Clone, Debug, PartialEq)]
pub struct PlaceMap<'a> {
    /// Title.
    pub title: &'a str,
    /// Text below: the scale.
    pub scale: &'a str,
    /// Columns and rows.
    pub size: [usize; 2],
    /// Column, row, and number of points that are confirmed, seen and invented.
    pub cells: &'a [[u32; 5]],
    /// Position and horizontal viewing direction of each camera.
    pub cameras: &'a [[f64; 4]],
    /// Cameras, by index, that a line joins.
    pub pairs: &'a [[u32; 2]],
    /// Arrows with numbers from 1: where to stand, and where to look.
    pub arrows: &'a [[[f64; 2]; 2]],
}

impl PlaceMap<'_> {
    /// The map as HTML; empty without cells.
    #[must_use]
    pub fn html(&self) -> String {
        if self.cells.is_empty() {
            return String::new();
        }
        let [width, height] = self.size.map(|cells| CELL * cells as f64 + 2.0 * MARGIN);
        let place = |[x, y]: [f64; 2]| [MARGIN + CELL * x, MARGIN + CELL * y];
        let title = escape_html(self.title);
        let mut svg = format!(
            "<svg class=\"places\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{title}\">"
        );
        let densest = self.cells.iter().map(|cell| cell[2..].iter().sum()).max().unwrap_or(1u32);
        for &[column, row, confirmed, seen, invented] in self.cells {
            let [x, y] = place([f64::from(column), f64::from(row)]);
            let count = confirmed + seen + invented;
            // Of equal numbers, the worse.
            let class = match confirmed.max(seen).max(invented) {
                most if most == invented => "invented",
                most if most == seen => "seen",
                _ => "confirmed",
            };
            let opacity = 0.25 + 0.75 * (f64::from(count) / f64::from(densest)).sqrt();
            let _ = write!(
                svg,
                "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{CELL}\" height=\"{CELL}\" opacity=\"{opacity:.2}\"/>"
            );
        }
        let at = |index: u32| self.cameras.get(index as usize).map(|&[x, y, ..]| place([x, y]));
        for &[a, b] in self.pairs {
            if let (Some([x, y]), Some([to_x, to_y])) = (at(a), at(b)) {
                let _ = write!(svg, "<path class=\"pair\" d=\"M{x:.1} {y:.1}L{to_x:.1} {to_y:.1}\"/>");
            }
        }
        for &[x, y, dx, dy] in self.cameras {
            let [x, y] = place([x, y]);
            let (to_x, to_y) = (x + CAMERA_LINE * dx, y + CAMERA_LINE * dy);
            let _ = write!(
                svg,
                "<circle class=\"camera\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\"/><path class=\"camera\" d=\"M{x:.1} {y:.1}L{to_x:.1} {to_y:.1}\"/>"
            );
        }
        for (number, &[from, to]) in (1..).zip(self.arrows) {
            svg.push_str(&arrow(number, place(from), place(to)));
        }
        svg.push_str("</svg>");
        format!(
            "<figure><figcaption>{title}</figcaption>{svg}<small>{}</small></figure>\n",
            escape_html(self.scale)
        )
    }
}

/// An arrow with its number at the start.
fn arrow(number: usize, from: [f64; 2], to: [f64; 2]) -> String {
    let along = [to[0] - from[0], to[1] - from[1]];
    let length = along[0].hypot(along[1]).max(1e-6);
    let [x, y] = along.map(|v| v / length);
    // The head ends at the place; its corners are 9 px back and 4 px to the sides.
    let corner = |side: f64| [to[0] - 9.0 * x + side * y, to[1] - 9.0 * y - side * x];
    let [[ax, ay], [bx, by]] = [corner(4.0), corner(-4.0)];
    format!(
        "<path class=\"arrow\" d=\"M{:.1} {:.1}L{:.1} {:.1}M{ax:.1} {ay:.1}L{:.1} {:.1}L{bx:.1} {by:.1}\"/><circle class=\"stand\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"8\"/><text class=\"stand\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{number}</text>",
        from[0],
        from[1],
        to[0],
        to[1],
        to[0],
        to[1],
        from[0],
        from[1],
        from[0],
        from[1] + 4.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cell_has_the_colour_of_most_of_its_points_and_each_arrow_its_number() {
        let cells = [[0, 0, 5, 1, 2], [1, 0, 1, 4, 2], [2, 1, 3, 0, 3]];
        let arrows = [[[0.0, 0.0], [2.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]];
        let map = PlaceMap {
            title: "a <map>",
            scale: "a cell is 1",
            size: [3, 2],
            cells: &cells,
            cameras: &[[0.5, 0.5, 1.0, 0.0], [2.0, 0.5, 1.0, 0.0]],
            // There is no third camera.
            pairs: &[[0, 1], [1, 2]],
            arrows: &arrows,
        };
        let html = map.html();
        for (class, count) in
            [("\"confirmed\"", 1), ("\"seen\"", 1), ("\"invented\"", 1), ("\"arrow\"", 2), ("\"pair\"", 1)]
        {
            assert_eq!(html.matches(class).count(), count, "{class} in {html}");
        }
        assert!(html.contains(">1</text>") && html.contains(">2</text>") && html.contains("a &lt;map&gt;"));
        assert_eq!(PlaceMap { cells: &[], ..map }.html(), "");
    }
}
