//! The bars of the issue, and whether they were reached.

use crate::table::Table;

/// Every bar measured so far.
#[derive(Debug, Default)]
pub(crate) struct Bars {
    rows: Vec<[String; 4]>,
}

/// On which side of the bar a figure must lie.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Want {
    AtLeast(f64),
    AtMost(f64),
}

impl Bars {
    /// Notes a figure against its bar.
    pub(crate) fn hold(&mut self, what: impl Into<String>, want: Want, unit: &str, measured: f64) {
        let (sign, bar, reached) = match want {
            Want::AtLeast(bar) => ("≥", bar, measured >= bar),
            Want::AtMost(bar) => ("≤", bar, measured <= bar),
        };
        let verdict = if reached { "reached" } else { "NOT REACHED" };
        self.rows.push([
            what.into(),
            format!("{sign} {} {unit}", figure(bar)),
            format!("{} {unit}", figure(measured)),
            verdict.to_owned(),
        ]);
    }

    /// Prints all of them.
    pub(crate) fn print(&self) {
        crate::table::heading("bars");
        let mut table = Table::new(&["bar", "wanted", "measured", ""]);
        for row in &self.rows {
            table.row(row);
        }
        table.print();
    }
}

/// A figure with three digits that mean something.
fn figure(value: f64) -> String {
    match value.abs() {
        magnitude if magnitude >= 100.0 => format!("{value:.0}"),
        magnitude if magnitude >= 10.0 => format!("{value:.1}"),
        magnitude if magnitude >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}
