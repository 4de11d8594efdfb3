//! Tables of samples: rows of numbers, separated by commas, semicolons, tabs or blanks.
//!
//! A line of names before the rows decides which columns are taken: the coordinates (`column_names.rs`), and `value`,
//! `v`, `intensity` or `density`, or the only other column. The line may be a comment, as NumPy writes it. Without
//! names, the columns are `x y z value`, and exactly these. Names of which none is a coordinate are refused, unless they
//! only count the columns or the last is a value. In tables separated by semicolons or tabs, commas are decimal.
//!
//! Comments begin with `#`, those before the rows also with `%` (COMSOL, MATLAB) or `//`. Text is UTF-8, or UTF-16 with a
//! byte order mark, as Excel writes it.

use std::borrow::Cow;
use std::io::Read;

use gausset_io::text::{counted, quote};

use crate::error::ContentError;
use crate::fit::Samples;
use crate::input::checks::ReadRequest;
use crate::input::column_names::{self, plain_name};

/// Reads samples; a missing number is NaN.
pub(crate) fn read(bytes: &[u8], wanted: &ReadRequest<'_>) -> Result<Samples, ContentError> {
    let mut samples = Samples::default();
    rows(bytes, wanted, Purpose::Samples, |row| {
        samples.points.push([row[0], row[1], row[2]]);
        samples.values.push(row[3]);
    })?;
    Ok(samples)
}

/// Reads points; a column of values is ignored.
pub(crate) fn read_points(bytes: &[u8], wanted: &ReadRequest<'_>) -> Result<Vec<[f64; 3]>, ContentError> {
    let mut points = Vec::new();
    rows(bytes, wanted, Purpose::Points, |row| points.push([row[0], row[1], row[2]]))?;
    Ok(points)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Samples,
    Points,
}

impl Purpose {
    const fn columns(self) -> &'static str {
        match self {
            Self::Samples => "x y z value",
            Self::Points => "x y z",
        }
    }
}

/// The columns that are taken.
struct Columns {
    /// Places of x, y, z and the value, or of x, y, z.
    places: Vec<usize>,
    /// Number of columns.
    count: usize,
}

impl Columns {
    /// The columns by their names; `None` if they are taken in their order.
    fn named(
        names: &[String],
        purpose: Purpose,
        wanted: &ReadRequest<'_>,
    ) -> Result<Option<Self>, ContentError> {
        let axes = column_names::axes(names);
        let value = column_names::value(names);
        let [Some(x), Some(y), Some(z)] = axes else {
            let found = quote(&names.join(" "));
            let wrong = |what| ContentError::unexpected("header", what, purpose.columns(), found);
            if axes.iter().all(Option::is_none) {
                let is_last = value.is_some_and(|value| value + 1 == names.len());
                return match is_last || column_names::is_numbering(names) {
                    true => Ok(None),
                    false => Err(wrong("names no coordinates").with_advice("name the columns so")),
                };
            }
            let error = wrong("a coordinate is missing");
            return Err(error.with_advice("for samples in 2-D, add a column z of zeros"));
        };
        let mut places = vec![x, y, z];
        let mut others: Vec<usize> = (0..names.len()).filter(|i| !places.contains(i)).collect();
        if purpose == Purpose::Samples {
            let only = if let [only] = others[..] { Some(only) } else { None };
            let Some(value) = value.or(only) else {
                let (expected, found) = ("value, v, intensity or density", quote(&names.join(" ")));
                let error = ContentError::unexpected("header", "no column of values", expected, found);
                return Err(error.with_advice("name the column `value`"));
            };
            places.push(value);
            others.retain(|i| *i != value);
            if !others.is_empty() {
                let ignored: Vec<String> = others.iter().take(8).map(|i| quote(&names[*i])).collect();
                let value = quote(&names[value]);
                let ignored = ignored.join(", ");
                wanted.note(format_args!("header: the values are {value}; ignored: {ignored}"));
            }
        }
        Ok(Some(Self { places, count: names.len() }))
    }

    /// The columns of a table without names.
    fn unnamed(row: &[String], place: &str, purpose: Purpose) -> Result<Self, ContentError> {
        let count = row.len();
        let is_usable = match purpose {
            Purpose::Samples => count == 4,
            Purpose::Points => matches!(count, 3 | 4),
        };
        if is_usable {
            let places = if purpose == Purpose::Samples { vec![0, 1, 2, 3] } else { vec![0, 1, 2] };
            return Ok(Self { places, count });
        }
        let (what, columns) =
            (format!("{} without names", counted(count as u64, "column")), purpose.columns());
        let error = ContentError::unexpected(place, what, columns, quote(&shown(row)));
        Err(error.with_advice("name the columns in the first line"))
    }
}

/// The separator: the first of these in the first line that is not a comment.
fn delimiter(bytes: &[u8]) -> u8 {
    let is_row = |line: &&[u8]| !line.trim_ascii().is_empty() && !line.starts_with(b"#");
    let line = bytes.split(|b| *b == b'\n').find(is_row).unwrap_or(bytes);
    // Commas come last: in a table separated otherwise, they are decimal.
    [b';', b'\t', b','].into_iter().find(|d| line.contains(d)).unwrap_or(b' ')
}

/// The fields of a line. Consecutive blanks count as one.
fn fields<'a>(line: impl Iterator<Item = &'a [u8]>, delimiter: u8) -> Vec<String> {
    let is_field = |field: &&[u8]| delimiter != b' ' || !field.is_empty();
    let has_decimal_commas = matches!(delimiter, b';' | b'\t');
    let field = |field: &[u8]| {
        let text = String::from_utf8_lossy(field).trim().to_owned();
        if has_decimal_commas { with_decimal_point(text) } else { text }
    };
    line.filter(is_field).map(field).collect()
}

/// A number with a decimal comma as one with a point; other text is kept.
fn with_decimal_point(text: String) -> String {
    let is_candidate = text.matches(',').count() == 1 && !text.contains('.');
    let pointed = if is_candidate { text.replace(',', ".") } else { String::new() };
    if number(&pointed).is_some_and(f64::is_finite) { pointed } else { text }
}

fn plain_names(names: &[String]) -> Vec<String> {
    names.iter().map(|name| plain_name(name)).collect()
}

/// A table as UTF-8 without a byte order mark, in which all comments begin with `#`; and whether others were there.
fn plain_text(bytes: &[u8]) -> (Cow<'_, [u8]>, bool) {
    with_plain_comments(match bytes {
        [0xFF, 0xFE, rest @ ..] => Cow::Owned(from_utf16(rest, u16::from_le_bytes)),
        [0xFE, 0xFF, rest @ ..] => Cow::Owned(from_utf16(rest, u16::from_be_bytes)),
        [0xEF, 0xBB, 0xBF, rest @ ..] => Cow::Borrowed(rest),
        _ => Cow::Borrowed(bytes),
    })
}

fn from_utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Vec<u8> {
    let units = bytes.as_chunks().0.iter().map(|&pair| unit(pair));
    let text: String = char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
    text.into_bytes()
}

/// The text with `#` instead of `%` and `//` in the comments before the rows; and whether there were any.
fn with_plain_comments(text: Cow<'_, [u8]>) -> (Cow<'_, [u8]>, bool) {
    let (mut others, mut start) = (Vec::new(), 0);
    for line in text.split_inclusive(|b| *b == b'\n') {
        let blanks = line.len() - line.trim_ascii_start().len();
        match &line[blanks..] {
            [] | [b'#', ..] => {}
            [b'%', ..] => others.push((start + blanks, 1)),
            [b'/', b'/', ..] => others.push((start + blanks, 2)),
            _ => break,
        }
        start += line.len();
    }
    if others.is_empty() {
        return (text, false);
    }
    let mut text = text.into_owned();
    for (at, length) in others {
        text[at..at + length].fill(b' ');
        // The reader knows comments by the first character of a line.
        let line = text[..at].iter().rposition(|b| *b == b'\n').map_or(0, |end| end + 1);
        text[line] = b'#';
    }
    (Cow::Owned(text), true)
}

/// Names in the last comment before the rows, which may have another separator: COMSOL writes several blanks, because
/// units follow names after one.
fn names_in_comment(bytes: &[u8], delimiter: u8, may_have_wide_gaps: bool) -> Option<Vec<String>> {
    let lines = bytes.split(|b| *b == b'\n').map(<[u8]>::trim_ascii);
    let comments = lines.take_while(|line| line.is_empty() || line.starts_with(b"#"));
    let comment = comments.filter(|line| !line.is_empty()).last()?.trim_ascii_start();
    let text = comment.strip_prefix(b"#")?.trim_ascii();
    let split = |d: u8| fields(text.split(|b| *b == d), d);
    let wide = || {
        let text = String::from_utf8_lossy(text).replace('\t', "  ");
        let names = text.split("  ").map(str::trim).filter(|name| !name.is_empty());
        names.map(str::to_owned).collect()
    };
    let wide = if may_have_wide_gaps { wide() } else { Vec::new() };
    [wide, split(delimiter), split(b' ')]
        .into_iter()
        .map(|names| plain_names(&names))
        .find(|names| column_names::axes(names).iter().all(Option::is_some))
}

/// A number; what programs write for a missing one is NaN.
fn number(field: &str) -> Option<f64> {
    match field.trim_matches('"').trim() {
        "" | "NA" | "N/A" | "null" => Some(f64::NAN),
        text => text.parse().ok(),
    }
}

fn rows(
    bytes: &[u8],
    wanted: &ReadRequest<'_>,
    purpose: Purpose,
    mut each: impl FnMut(&[f64]),
) -> Result<(), ContentError> {
    let (text, has_other_comments) = plain_text(bytes);
    let bytes = &*text;
    let delimiter = delimiter(bytes);
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .delimiter(delimiter)
        .comment(Some(b'#'))
        .trim(csv::Trim::All)
        .from_reader(wanted.stoppable(bytes));
    let mut record = csv::ByteRecord::new();
    let mut columns = match names_in_comment(bytes, delimiter, has_other_comments) {
        Some(names) => Columns::named(&names, purpose, wanted)?,
        None => None,
    };
    let is_comment = columns.is_some();
    let (mut count, mut is_first, mut row) = (0, true, Vec::new());
    while let Some(place) = next_line(&mut reader, &mut record)? {
        if record.iter().all(<[u8]>::is_empty) {
            continue;
        }
        let mut fields = fields(record.iter(), delimiter);
        if std::mem::take(&mut is_first) {
            let is_name = |field: &String| !field.is_empty() && number(field).is_none();
            if fields.iter().any(is_name) && fields.iter().all(|f| f.is_empty() || is_name(f)) {
                columns = Columns::named(&plain_names(&fields), purpose, wanted)?;
                continue;
            }
        }
        // A comment that names another number of columns is only a comment.
        if count == 0 && is_comment && columns.as_ref().is_some_and(|taken| taken.count != fields.len()) {
            columns = None;
        }
        // A separator at the end of a line is no column.
        let most = columns.as_ref().map_or(4, |columns| columns.count);
        if fields.len() == most + 1 && fields.last().is_some_and(String::is_empty) {
            fields.pop();
        }
        let taken = match &columns {
            Some(taken) => taken,
            None => columns.insert(Columns::unnamed(&fields, &place, purpose)?),
        };
        take_row(&fields, taken, purpose, &mut row, &place)?;
        count += 1;
        wanted.check_count(count)?;
        each(&row);
    }
    if count == 0 { Err(ContentError::NoRows) } else { Ok(()) }
}

/// Reads the next record; its line, or `None` at the end.
fn next_line(
    reader: &mut csv::Reader<impl Read>,
    record: &mut csv::ByteRecord,
) -> Result<Option<String>, ContentError> {
    let position = reader.position().line();
    match reader.read_byte_record(record) {
        Ok(false) => Ok(None),
        Ok(true) => Ok(Some(format!("line {}", record.position().map_or(position, csv::Position::line)))),
        Err(error) => {
            let what = format_args!("not a row ({error})");
            Err(ContentError::unread(format_args!("line {position}"), what))
        }
    }
}

/// The numbers of the taken columns of a row.
fn take_row(
    fields: &[String],
    taken: &Columns,
    purpose: Purpose,
    row: &mut Vec<f64>,
    place: &str,
) -> Result<(), ContentError> {
    let wrong = |what: &str| ContentError::unexpected(place, what, purpose.columns(), quote(&shown(fields)));
    if fields.len() != taken.count {
        return Err(wrong(&format!("not a row of {}", counted(taken.count as u64, "column"))));
    }
    row.clear();
    row.extend(taken.places.iter().map_while(|i| number(&fields[*i])));
    if row.len() != taken.places.len() {
        return Err(wrong("not a row"));
    }
    if row.iter().any(|v| v.is_infinite()) {
        return Err(wrong("not finite").with_advice("remove it"));
    }
    Ok(())
}

/// The first fields of a row, for a message.
fn shown(fields: &[String]) -> String {
    fields.iter().take(9).cloned().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(bytes: &[u8]) -> Samples {
        read(bytes, &ReadRequest::default()).unwrap()
    }

    #[test]
    fn text_of_excel_in_two_bytes_a_character_is_read() {
        let text = "x\ty\tz\tvalue\r\n1,5\t2\t3\t4\r\n5\t6\t7\t8\r\n";
        let units: Vec<u16> = std::iter::once(0xFEFF).chain(text.encode_utf16()).collect();
        for order in [u16::to_le_bytes, u16::to_be_bytes] {
            let found = samples(&units.iter().flat_map(|unit| order(*unit)).collect::<Vec<u8>>());
            assert_eq!(found.points, [[1.5, 2.0, 3.0], [5.0, 6.0, 7.0]]);
            assert_eq!(found.values, [4.0, 8.0]);
        }
        let marked = [b"\xEF\xBB\xBF".as_slice(), text.as_bytes()].concat();
        assert_eq!(samples(&marked).values, [4.0, 8.0]);
    }

    #[test]
    fn comments_before_the_rows_begin_with_a_percent_sign_or_two_slashes_as_well() {
        let rows = "1,2,3,4\n5,6,7,8\n";
        for head in [
            "% Model: x.mph\n% X                       Y    Z   T (K)\n",
            "// made by hand\n\n//x,y,z,value\n",
            "  % a note\n# x y z value\n",
            "%\n",
        ] {
            let found = samples(format!("{head}{rows}").as_bytes());
            assert_eq!((found.points[1], found.values), ([5.0, 6.0, 7.0], vec![4.0, 8.0]), "{head}");
        }
        let several = samples(b"% X     Y    Z   T (K)   value (1/m)\n1 2 3 9 4\n");
        assert_eq!(several.values, [4.0]);
        let named = samples(b"% value,z,y,x\n4,3,2,1\n");
        assert_eq!((named.points[0], named.values[0]), ([1.0, 2.0, 3.0], 4.0));
        let line = read(b"% a\n// b\n1,2,3,4\n1,2,x,4\n", &ReadRequest::default()).unwrap_err().to_string();
        assert!(line.starts_with("line 4: "), "{line}");
    }
}
