//! Text in left-aligned columns as kubectl prints them: every cell but the last of a row is padded.

use unicode_width::UnicodeWidthStr;

/// Formats rows, including the heading, as lines with `gap` blanks between columns.
pub(crate) fn aligned(rows: &[Vec<String>], gap: usize) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.width()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            text.push_str(cell);
            if column + 1 < row.len() {
                text.push_str(&" ".repeat(widths[column] + gap - cell.width()));
            }
        }
        text.push('\n');
    }
    text
}

/// The cells of a row.
pub(crate) fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_cell_is_not_padded() {
        let rows =
            [row(["NAME", "AGE", "LIMIT"]), row(["acme-org-hrq", "90s", "x: 1/2"]), row(["é", "1d", "y"])];
        let wanted = "NAME           AGE   LIMIT\nacme-org-hrq   90s   x: 1/2\né              1d    y\n";
        assert_eq!(aligned(&rows, 3), wanted);
        assert_eq!(aligned(&[], 3), "");
    }
}
