//! Medians, percentiles, and numbers as a table writes them.

use std::time::Duration;

/// The value below which `share` of the samples lie; zero of none.
pub(crate) fn percentile(samples: &mut [Duration], share: f64) -> Duration {
    samples.sort_unstable();
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a few thousand samples"
    )]
    let at = (samples.len().saturating_sub(1) as f64 * share).round() as usize;
    samples.get(at).copied().unwrap_or_default()
}

/// The middle one; of none, nothing.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Values one after another, with so many digits.
pub(super) fn list(values: &[f64], digits: usize) -> String {
    values.iter().map(|value| format!("{value:.digits$}")).collect::<Vec<_>>().join(", ")
}

/// In microseconds.
pub(super) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle_and_a_percentile_lies_near_its_share() {
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
        let mut samples: Vec<_> = (1..=101).rev().map(Duration::from_micros).collect();
        assert_eq!(percentile(&mut samples, 0.5), Duration::from_micros(51));
        assert_eq!(percentile(&mut samples, 0.99), Duration::from_micros(100));
        assert_eq!(percentile(&mut [], 0.5), Duration::ZERO);
    }
}
