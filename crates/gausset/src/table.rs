//! The one table printer: aligned columns, for people.

/// How a column is aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Rows of `name  value`, values in one column.
pub(crate) fn facts(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    rows.iter().map(|(name, value)| format!("{name:width$}  {value}\n")).collect()
}

/// A table with a header. Rows shorter than the header end there.
pub(crate) fn columns(header: &[(&str, Align)], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        let (title, _) = header[column];
        cells.chain([title.chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let line = |cells: &[&str]| {
        let padded = cells.iter().zip(&widths).zip(header).map(|((cell, &width), (_, align))| match align {
            Align::Left => format!("{cell:width$}"),
            Align::Right => format!("{cell:>width$}"),
        });
        let line = padded.collect::<Vec<_>>().join("  ");
        format!("{}\n", line.trim_end())
    };
    let titles: Vec<&str> = header.iter().map(|(title, _)| *title).collect();
    let mut out = line(&titles);
    for row in rows {
        out += &line(&row.iter().map(String::as_str).collect::<Vec<_>>());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_below_each_other() {
        let rows = [vec!["a".to_owned(), "1.00".to_owned()], vec!["long".to_owned(), "12.00".to_owned()]];
        let table = columns(&[("name", Align::Left), ("dB", Align::Right)], &rows);
        assert_eq!(table, "name     dB\na      1.00\nlong  12.00\n");
    }

    #[test]
    fn facts_have_their_values_in_one_column() {
        assert_eq!(facts(&[("a", "1".to_owned()), ("long", "2".to_owned())]), "a     1\nlong  2\n");
    }
}
