//! Formatting of tables with aligned columns.

use std::borrow::Cow;

use gausset_io::text::escape_controls;

use crate::lines::Lines;

/// Alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnAlign {
    /// For words.
    Left,
    /// For numbers.
    Right,
}

/// Formats rows of `name  value` with all values in one column.
pub(crate) fn facts(rows: &[(&str, String)]) -> Lines {
    let names: Vec<_> = rows.iter().map(|(name, _)| escape_controls(name)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    names.iter().zip(rows).map(|(name, (_, value))| format!("{name:width$}  {value}")).collect()
}

/// Formats a table with a header. Rows may be shorter than the header.
pub(crate) fn columns(header: &[(&str, ColumnAlign)], rows: &[Vec<String>]) -> Lines {
    // Escaped before their widths are measured, or the columns would not line up.
    let rows: Vec<Vec<_>> =
        rows.iter().map(|row| row.iter().map(|cell| escape_controls(cell)).collect()).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        let (title, _) = header[column];
        cells.chain([title.chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let line = |cells: &[Cow<'_, str>]| {
        let padded = cells.iter().zip(&widths).zip(header).map(|((cell, &width), (_, align))| match align {
            ColumnAlign::Left => format!("{cell:width$}"),
            ColumnAlign::Right => format!("{cell:>width$}"),
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let titles = header.iter().map(|(title, _)| Cow::Borrowed(*title)).collect();
    [titles].iter().chain(&rows).map(|row: &Vec<_>| line(row)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_below_each_other() {
        let rows = [vec!["a".to_owned(), "1.00".to_owned()], vec!["long".to_owned(), "12.00".to_owned()]];
        let table = columns(&[("name", ColumnAlign::Left), ("dB", ColumnAlign::Right)], &rows);
        assert_eq!(table.as_str(), "name     dB\na      1.00\nlong  12.00\n");
    }

    #[test]
    fn a_cell_is_as_wide_as_it_is_shown_and_stays_in_its_row() {
        let rows = [vec!["a\n\u{202e}".to_owned(), "1".to_owned()], vec!["b".to_owned(), "2".to_owned()]];
        let table = columns(&[("name", ColumnAlign::Left), ("n", ColumnAlign::Right)], &rows);
        assert_eq!(table.as_str(), "name         n\na\\n\\u{202e}  1\nb            2\n");
    }

    #[test]
    fn facts_have_their_values_in_one_column() {
        let table = facts(&[("a", "1".to_owned()), ("long", "2".to_owned())]);
        assert_eq!(table.as_str(), "a     1\nlong  2\n");
    }
}
