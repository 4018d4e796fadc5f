//! Aligned tables.

use jiff::Timestamp;

use super::{Cell, Paint, Row, Tone};

const GAP: &str = "  ";

/// A table with a header.
pub struct Table {
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table with these columns.
    pub fn new(columns: &[&str]) -> Table {
        let header = columns.iter().map(|name| Cell::toned(Tone::Dim, name));
        Table { rows: vec![header.collect()] }
    }

    /// A table of things, as lists show them.
    pub fn of<T: Row>(things: &[T], now: Timestamp) -> Table {
        let mut table = Table::new(T::COLUMNS);
        for thing in things {
            table.row(thing.cells(now));
        }
        table
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// As it is printed. Columns are as wide as their widest cell: ids are whole, so that they can be copied.
    pub fn render(&self, paint: Paint) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(Cell::width).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let last = row.len().saturating_sub(1);
            for (column, cell) in row.iter().enumerate() {
                if column == last {
                    text.push_str(&cell.render(paint));
                } else {
                    text.push_str(&cell.padded(paint, widths[column]));
                    text.push_str(GAP);
                }
            }
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["ID", "STATUS", "ERROR"]);
        table.row([Cell::new("evt_01JX9M9M7S7A"), Cell::status("held"), Cell::maybe(None)]);
        table.row([
            Cell::new("evt_2"),
            Cell::status("dead_letter"),
            Cell::clipped(Some("a\nlong error"), 7),
        ]);
        table
    }

    #[test]
    fn columns_line_up_and_nothing_trails() {
        assert_eq!(
            table().render(Paint(false)),
            "ID                STATUS       ERROR\n\
             evt_01JX9M9M7S7A  held         -\n\
             evt_2             dead_letter  a\\nlong…\n"
        );
    }

    #[test]
    fn colour_does_not_move_columns() {
        let coloured = table().render(Paint(true));
        assert!(coloured.contains("\u{1b}[31mdead_letter\u{1b}[0m  "));
        let mut plain = coloured;
        for code in ["\u{1b}[0m", "\u{1b}[2m", "\u{1b}[31m", "\u{1b}[33m"] {
            plain = plain.replace(code, "");
        }
        assert_eq!(plain, table().render(Paint(false)));
    }
}
