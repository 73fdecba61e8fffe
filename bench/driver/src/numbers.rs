//! Samples and what is read off them.

use std::time::Duration;

/// Times of single calls.
#[derive(Debug, Default, Clone)]
pub(crate) struct Samples {
    times: Vec<Duration>,
}

impl Samples {
    /// Adds one.
    pub(crate) fn push(&mut self, time: Duration) {
        self.times.push(time);
    }

    /// Adds all of another.
    pub(crate) fn extend(&mut self, other: Self) {
        self.times.extend(other.times);
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.times.len()
    }

    /// All times together.
    pub(crate) fn total(&self) -> Duration {
        self.times.iter().sum()
    }

    /// The time that `share` of the samples do not exceed; zero when there are none.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        let mut sorted = self.times.clone();
        sorted.sort_unstable();
        let last = sorted.len().saturating_sub(1);
        let index = (last as f64 * share).ceil() as usize;
        sorted.get(index).copied().unwrap_or_default()
    }

    /// The median.
    pub(crate) fn p50(&self) -> Duration {
        self.quantile(0.5)
    }

    /// What 99 of 100 do not exceed.
    pub(crate) fn p99(&self) -> Duration {
        self.quantile(0.99)
    }
}

/// Milliseconds with fractions.
pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Microseconds with fractions.
pub(crate) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// The lowest and highest of several figures.
pub(crate) fn spread(figures: &[f64]) -> (f64, f64) {
    let low = figures.iter().copied().fold(f64::INFINITY, f64::min);
    let high = figures.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_a_hundred_samples() {
        let mut samples = Samples::default();
        for millis in (1..=100).rev() {
            samples.push(Duration::from_millis(millis));
        }
        assert_eq!(samples.p50(), Duration::from_millis(51));
        assert_eq!(samples.p99(), Duration::from_millis(100));
        assert_eq!(Samples::default().p99(), Duration::ZERO);
    }
}
