//! Where traces go.

use crate::outbound::{AddressPolicy, Target};
use crate::telemetry::traces::{TraceSettings, read_headers};

/// Reads the settings; none without an endpoint.
pub fn read(
    endpoint: Option<String>,
    headers: &str,
    ratio: &str,
    service: String,
) -> Result<Option<TraceSettings>, String> {
    let Some(endpoint) = endpoint else { return Ok(None) };
    // It is the operator's own: any address, plain or not.
    Target::parse(&endpoint, &AddressPolicy::trusted())
        .map_err(|error| format!("otlp_endpoint {endpoint:?}: {error}"))?;
    let headers = read_headers(headers)
        .ok_or("otlp_headers must be name=value, separated by commas".to_owned())?;
    let parsed = ratio.parse().ok().filter(|ratio: &f64| (0.0..=1.0).contains(ratio));
    let ratio = parsed.ok_or_else(|| format!("otlp_sample_ratio must be 0 to 1, not {ratio:?}"))?;
    Ok(Some(TraceSettings { endpoint, headers, ratio, service }))
}

#[cfg(test)]
mod tests {
    #[test]
    fn traces_are_off_without_an_endpoint_and_wrong_settings_are_named() {
        let read = |endpoint: Option<&str>, headers, ratio| {
            let read = super::read(endpoint.map(str::to_owned), headers, ratio, "w".to_owned());
            read.map(|settings| settings.is_some())
        };
        assert_eq!(read(None, "rubbish", "9"), Ok(false));
        assert_eq!(read(Some("http://127.0.0.1:4318"), "a=b", "0.5"), Ok(true));
        assert!(read(Some("collector:4318"), "", "1").unwrap_err().contains("otlp_endpoint"));
        assert!(read(Some("http://c"), "rubbish", "1").unwrap_err().contains("otlp_headers"));
        assert!(read(Some("http://c"), "", "1.1").unwrap_err().contains("otlp_sample_ratio"));
    }
}
