//! From what on something is wrong.

use std::time::Duration;

use wakepost_domain::alert::Thresholds;

/// Reads the thresholds. `number` reads a setting of `[alerts]`, and says what is wrong with it.
pub fn read(number: impl Fn(&str) -> Result<f64, String>) -> Result<Thresholds, String> {
    let within = |name: &str, least: f64, most: f64| {
        let value = number(name)?;
        match (least..=most).contains(&value) {
            true => Ok(value),
            false => Err(format!("alerts.{name} must be {least} to {most}, not {value}")),
        }
    };
    let share = |name: &str| within(name, 0.0, 100.0).map(|percent| percent / 100.0);
    let count = |name: &str| within(name, 0.0, 1e9).map(|count| count as u64);
    Ok(Thresholds {
        window_minutes: within("window_minutes", 1.0, 1440.0)? as i64,
        deliveries_min: count("deliveries_min")?,
        calm: Duration::from_secs(within("calm_s", 0.0, 86_400.0)? as u64),
        success: [share("success_warning")?, share("success_critical")?],
        first_attempt: [share("first_attempt_warning")?, share("first_attempt_critical")?],
        p50_ms: within("p50_ms", 0.0, 1e9)?,
        p99_ms: within("p99_ms", 0.0, 1e9)?,
        dead_letters: [count("dead_letters_warning")?, count("dead_letters_critical")?],
        retrying: count("retry_queue")?,
        failures_in_a_row: within("failures_in_a_row", 1.0, 1e6)? as u64,
        source_dead_letters: within("source_dead_letters", 1.0, 1e6)? as u64,
        suspicious: within("suspicious_replays", 1.0, 1e6)? as u64,
        secret_days: count("secret_days")?,
    })
}
