//! Flags of webhooks that have a form of their own.

use std::str::FromStr;

use wakepost_client::CircuitSettings;

/// `NAME: VALUE`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    pub name: String,
    pub value: String,
}

impl FromStr for Header {
    type Err = String;

    fn from_str(text: &str) -> Result<Header, String> {
        let (name, value) = text.split_once(':').ok_or("write NAME: VALUE")?;
        let (name, value) = (name.trim(), value.trim());
        if name.is_empty() || value.is_empty() {
            return Err("write NAME: VALUE".to_owned());
        }
        Ok(Header { name: name.to_owned(), value: value.to_owned() })
    }
}

/// `off`, or `failures=5,rate=0.5,min=20,window_s=3600,open_s=1800,close_after=2,disable_after_s=259200`, any of them.
pub fn circuit(text: &str) -> Result<CircuitSettings, String> {
    if text == "off" {
        return Ok(CircuitSettings { failures: Some(0), ..CircuitSettings::default() });
    }
    let usage = || {
        "write off, or some of failures=N,rate=N,min=N,window_s=N,open_s=N,close_after=N,\
         disable_after_s=N"
            .to_owned()
    };
    fn number<T: FromStr>(text: &str, usage: impl Fn() -> String) -> Result<Option<T>, String> {
        text.parse().map(Some).map_err(|_| usage())
    }
    let mut settings = CircuitSettings::default();
    for part in text.split(',') {
        let (name, value) = part.split_once('=').ok_or_else(usage)?;
        match name {
            "failures" => settings.failures = number(value, usage)?,
            "rate" => settings.rate = number(value, usage)?,
            "min" => settings.min = number(value, usage)?,
            "window_s" => settings.window_s = number(value, usage)?,
            "open_s" => settings.open_s = number(value, usage)?,
            "close_after" => settings.close_after = number(value, usage)?,
            "disable_after_s" => settings.disable_after_s = number(value, usage)?,
            _ => return Err(usage()),
        }
    }
    Ok(settings)
}

/// Settings as their flag has them.
pub fn circuit_words(settings: &CircuitSettings) -> String {
    let words = [
        settings.failures.map(|n| format!("failures={n}")),
        settings.rate.map(|n| format!("rate={n}")),
        settings.min.map(|n| format!("min={n}")),
        settings.window_s.map(|n| format!("window_s={n}")),
        settings.open_s.map(|n| format!("open_s={n}")),
        settings.close_after.map(|n| format!("close_after={n}")),
        settings.disable_after_s.map(|n| format!("disable_after_s={n}")),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circuits_are_read_and_written() {
        let all =
            "failures=5,rate=0.5,min=20,window_s=3600,open_s=1800,close_after=2,disable_after_s=9";
        for text in [all, "failures=3", "open_s=60,close_after=1"] {
            assert_eq!(circuit_words(&circuit(text).expect(text)), text);
        }
        assert_eq!(circuit_words(&circuit("off").expect("off")), "failures=0");
        for wrong in ["", "5", "failures=", "failures=-1", "rate=x", "patience=3", "failures=1,"] {
            assert!(circuit(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn headers_are_read_as_people_write_them() {
        let header = "X-Env:  staging: eu ".parse::<Header>().expect("a header");
        assert_eq!((header.name.as_str(), header.value.as_str()), ("X-Env", "staging: eu"));
        for wrong in ["", "X-Env", ": x", "X-Env:"] {
            assert!(wrong.parse::<Header>().is_err(), "{wrong}");
        }
    }
}
