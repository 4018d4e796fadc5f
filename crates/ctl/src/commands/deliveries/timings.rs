//! How long the steps of a try took, in words.

use serde_json::{Map, Value};

/// `dns 3 ms, connect 12 ms`, in the order of the wire; `None` if nothing was measured.
pub fn timings(timings: &Map<String, Value>) -> Option<String> {
    let mut steps: Vec<(&str, &Value)> =
        timings.iter().filter(|(_, took)| took.is_number()).map(|(k, v)| (k.as_str(), v)).collect();
    steps.sort_by_key(|(name, _)| place(name));
    let words: Vec<String> = steps.into_iter().map(|(name, took)| step(name, took)).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// Where a step comes in a request; what is not known, and the total, come last.
fn place(name: &str) -> usize {
    let order = ["dns", "connect", "tls", "first_byte"];
    order.iter().position(|known| name.starts_with(known)).unwrap_or(order.len())
}

fn step(name: &str, took: &Value) -> String {
    let (name, unit) = match name.rsplit_once('_') {
        Some((name, unit @ ("ms" | "us" | "s"))) => (name, unit.replace("us", "µs")),
        _ => (name, String::new()),
    };
    format!("{} {took} {unit}", name.replace('_', " ")).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn steps_are_told_in_the_order_of_the_wire() {
        let measured = json!({"total_ms": 40, "first_byte_ms": 31, "dns_ms": 2, "tls_ms": null,
            "connect_us": 900});
        let Value::Object(measured) = measured else { unreachable!("an object") };
        let said = "dns 2 ms, connect 900 µs, first byte 31 ms, total 40 ms";
        assert_eq!(timings(&measured).as_deref(), Some(said));
        assert_eq!(timings(&Map::new()), None);
    }
}
