//! The bars, and whether they were reached.

/// Every bar measured so far.
#[derive(Debug, Default)]
pub(crate) struct Bars(Vec<String>);

impl Bars {
    /// Notes a figure that must be at most so much.
    pub(crate) fn at_most(&mut self, what: &str, bar: f64, unit: &str, measured: f64) {
        let verdict = match measured <= bar {
            true => "reached",
            false => "NOT REACHED",
        };
        let wanted = format!("≤ {bar} {unit}");
        let measured = format!("{measured:.2} {unit}");
        let row = format!("{what:<70}  {wanted:<12}  {measured:<12}  {verdict}");
        self.0.push(row);
    }

    /// Prints all of them.
    pub(crate) fn print(&self) {
        println!("\n{:<70}  {:<12}  {:<12}", "bar", "wanted", "measured");
        for row in &self.0 {
            println!("{row}");
        }
    }
}

/// The value below which so many percent of all lie.
pub(crate) fn percentile(values: &mut [f64], percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    let place = (values.len() * percent).div_ceil(100).max(1) - 1;
    values.get(place).copied().unwrap_or(f64::NAN)
}
