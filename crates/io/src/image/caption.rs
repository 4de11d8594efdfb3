//! Text in pictures: a bitmap font for captions of contact sheets and slices.

use gausset_core::RgbImage8;

/// Columns and rows of a character, with the space beside it and below it.
const CELL: [u32; 2] = [6, 9];
/// Rows of a character; the last one is for the ends of g, p, q, y.
const ROWS: u32 = 8;
/// The characters from space to `~`: byte k of a word is column k from the left, its lowest bit the top row.
#[rustfmt::skip]
const GLYPHS: [u64; 95] = [
    0x0000000000, 0x00005f0000, 0x0007000700, 0x147f147f14, 0x122a7f2a24, 0x6264081323, 0x5020564936,
    0x0003070800, 0x0041221c00, 0x001c224100, 0x2a1c7f1c2a, 0x08083e0808, 0x0030708000, 0x0808080808,
    0x0060600000, 0x0204081020, 0x3e4549513e, 0x00407f4200, 0x4649494972, 0x334d494121, 0x107f121418,
    0x3945454527, 0x3149494a3c, 0x0709112141, 0x3649494936, 0x1e29494946, 0x0000140000, 0x0000344000,
    0x4122140800, 0x1414141414, 0x0814224100, 0x0609590102, 0x4e595d413e, 0x7c1211127c, 0x364949497f,
    0x224141413e, 0x3e4141417f, 0x414949497f, 0x010909097f, 0x735141413e, 0x7f0808087f, 0x00417f4100,
    0x013f414020, 0x412214087f, 0x404040407f, 0x7f021c027f, 0x7f1008047f, 0x3e4141413e, 0x060909097f,
    0x5e2151413e, 0x462919097f, 0x3249494926, 0x03017f0103, 0x3f4040403f, 0x1f2040201f, 0x3f4038403f,
    0x6314081463, 0x0304780403, 0x434d495961, 0x4141417f00, 0x2010080402, 0x7f41414100, 0x0402010204,
    0x4040404040, 0x0008070300, 0x4078545420, 0x384444287f, 0x2844444438, 0x7f28444438, 0x1854545438,
    0x02097e0800, 0x789ca4a418, 0x780404087f, 0x00407d4400, 0x003d404020, 0x004428107f, 0x00407f4100,
    0x780478047c, 0x780404087c, 0x3844444438, 0x18242418fc, 0xfc18242418, 0x080404087c, 0x2454545448,
    0x24443f0404, 0x7c2040403c, 0x1c2040201c, 0x3c4030403c, 0x4428102844, 0x7c9090904c, 0x444c546444,
    0x0041360800, 0x0000770000, 0x0008364100, 0x0204020102,
];

/// Width and height of a line of text, px. A pixel of the font is `scale` px wide.
///
/// ```
/// assert_eq!(gausset_io::image::caption::text_size("23.4 dB", 2), [84, 18]);
/// ```
#[must_use]
pub fn text_size(text: &str, scale: u32) -> [u32; 2] {
    [CELL[0] * scale * text.chars().count() as u32, CELL[1] * scale]
}

/// Draws a line of text with its top left corner at a pixel. What is outside of the picture is left out; characters that
/// the font does not have become `?`.
pub fn draw_text(picture: &mut RgbImage8, [left, top]: [u32; 2], text: &str, scale: u32, colour: [u8; 3]) {
    for (k, c) in text.chars().enumerate() {
        let glyph = (c as usize).checked_sub(32).and_then(|at| GLYPHS.get(at)).unwrap_or(&GLYPHS[31]);
        let start = left.saturating_add(text_size("x", scale)[0].saturating_mul(k as u32));
        for (column, row) in (0..5).flat_map(|column| (0..ROWS).map(move |row| (column, row))) {
            if glyph >> (8 * column + row) & 1 == 1 {
                fill(picture, [start.saturating_add(column * scale), top + row * scale], scale, colour);
            }
        }
    }
}

/// Fills a square, as far as it is inside the picture.
fn fill(picture: &mut RgbImage8, [left, top]: [u32; 2], side: u32, colour: [u8; 3]) {
    for y in top..(top + side).min(picture.height) {
        for x in left..left.saturating_add(side).min(picture.width) {
            let at = 3 * (y as usize * picture.width as usize + x as usize);
            picture.data[at..at + 3].copy_from_slice(&colour);
        }
    }
}

/// The end of a text that fits into this width, px; what is left out in front becomes `..`.
#[must_use]
pub fn fitting(text: &str, scale: u32, width: u32) -> String {
    let most = (width / text_size("x", scale)[0].max(1)) as usize;
    let count = text.chars().count();
    if count <= most {
        return text.to_owned();
    }
    let kept = most.saturating_sub(2);
    "..".chars().take(most).chain(text.chars().skip(count - kept)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_drawn_where_it_is_placed_and_no_further() {
        let mut picture = RgbImage8::new(12, 9);
        draw_text(&mut picture, [6, 0], "1", 1, [255; 3]);
        let rows: Vec<String> = picture
            .data
            .chunks_exact(36)
            .map(|row| row.chunks_exact(3).map(|p| if p[0] > 0 { '#' } else { ' ' }).collect())
            .collect();
        let shape = ["  #  ", " ##  ", "  #  ", "  #  ", "  #  ", "  #  ", " ### ", "     ", "     "];
        let expected: Vec<String> = shape.iter().map(|row| format!("      {row} ")).collect();
        assert_eq!(rows, expected);
        // Outside, and a character that the font does not have.
        let mut small = RgbImage8::new(3, 2);
        draw_text(&mut small, [1, 1], "\u{e9}\u{7}", 4, [1, 2, 3]);
        draw_text(&mut small, [u32::MAX - 2, 0], "x", 2, [1, 2, 3]);
        assert_eq!(small.data.len(), 18);
    }

    #[test]
    fn a_long_name_keeps_its_end() {
        assert_eq!(fitting("DSC_0001.jpg", 1, 72), "DSC_0001.jpg");
        assert_eq!(fitting("cam0/DSC_0001.jpg", 2, 120), "..0001.jpg");
        assert_eq!((fitting("abc", 2, 12), fitting("abc", 2, 0)), (".".to_owned(), String::new()));
    }
}
