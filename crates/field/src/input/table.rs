//! Tables of samples: rows `x y z value`, separated by commas, semicolons, tabs or blanks; a header line is skipped.

use gausset_io::text::quote;

use crate::error::ContentError;
use crate::fit::Samples;
use crate::input::checks::ReadRequest;

/// Reads samples.
pub(crate) fn read(bytes: &[u8], wanted: &ReadRequest<'_>) -> Result<Samples, ContentError> {
    let mut samples = Samples::default();
    rows::<4>(bytes, wanted, |[x, y, z, value]| {
        samples.points.push([x, y, z]);
        samples.values.push(value);
    })?;
    Ok(samples)
}

/// Reads points.
pub(crate) fn read_points(bytes: &[u8], wanted: &ReadRequest<'_>) -> Result<Vec<[f64; 3]>, ContentError> {
    let mut points = Vec::new();
    rows::<3>(bytes, wanted, |point| points.push(point))?;
    Ok(points)
}

/// The separator: the first one in the first line that is not a comment.
fn delimiter(bytes: &[u8]) -> u8 {
    let is_row = |line: &&[u8]| !line.trim_ascii().is_empty() && !line.starts_with(b"#");
    let line = bytes.split(|b| *b == b'\n').find(is_row).unwrap_or(bytes);
    [b',', b';', b'\t'].into_iter().find(|d| line.contains(d)).unwrap_or(b' ')
}

fn rows<const N: usize>(
    bytes: &[u8],
    wanted: &ReadRequest<'_>,
    mut each: impl FnMut([f64; N]),
) -> Result<(), ContentError> {
    let delimiter = delimiter(bytes);
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .delimiter(delimiter)
        .comment(Some(b'#'))
        .trim(csv::Trim::All)
        .from_reader(wanted.stoppable(bytes));
    let mut record = csv::ByteRecord::new();
    let mut count = 0;
    let mut is_first = true;
    loop {
        let position = reader.position().line();
        match reader.read_byte_record(&mut record) {
            Ok(false) => break,
            Ok(true) => {}
            Err(error) => {
                let what = format_args!("not a row ({error})");
                return Err(ContentError::unread(format_args!("line {position}"), what));
            }
        }
        let line = record.position().map_or(position, csv::Position::line);
        // Consecutive blanks make empty fields.
        let fields = record.iter().filter(|field| delimiter != b' ' || !field.is_empty());
        let numbers: Vec<Option<f64>> = fields
            .take(N)
            .map(|field| std::str::from_utf8(field).ok().and_then(|text| text.trim().parse().ok()))
            .collect();
        if numbers.is_empty() || record.iter().all(<[u8]>::is_empty) {
            continue;
        }
        let is_header = std::mem::take(&mut is_first) && numbers.iter().all(Option::is_none);
        if is_header {
            continue;
        }
        let row: Option<Vec<f64>> = numbers.iter().copied().collect();
        let Some(row) = row.and_then(|row| <[f64; N]>::try_from(row).ok()) else {
            let columns = if N == 4 { "x y z value" } else { "x y z" };
            let found: Vec<_> = record.iter().take(N + 1).map(String::from_utf8_lossy).collect();
            let found = quote(&found.join(" "));
            return Err(ContentError::unexpected(format_args!("line {line}"), "not a row", columns, found));
        };
        if !row.iter().all(|v| v.is_finite()) {
            let (place, found) = (format_args!("line {line}"), format_args!("{row:?}"));
            return Err(
                ContentError::unexpected(place, "not finite", "numbers", found).with_advice("remove it")
            );
        }
        count += 1;
        wanted.check_count(count)?;
        each(row);
    }
    if count == 0 {
        return Err(ContentError::NoRows);
    }
    Ok(())
}
