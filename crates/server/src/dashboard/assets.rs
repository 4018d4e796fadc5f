//! The files that pages use, from within the program.

use aws_lc_rs::digest;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};

const FILES: [(&str, &str, &str); 4] = [
    ("style.css", "text/css; charset=utf-8", include_str!("../../assets/style.css")),
    ("script.js", "text/javascript; charset=utf-8", include_str!("../../assets/script.js")),
    ("theme.js", "text/javascript; charset=utf-8", include_str!("../../assets/theme.js")),
    ("icon.svg", "image/svg+xml", include_str!("../../assets/icon.svg")),
];

/// One file. Its address names its version, so browsers may keep it for as long as they like.
pub async fn show(Path(name): Path<String>) -> Response {
    match FILES.iter().find(|(known, ..)| *known == name) {
        Some((_, kind, text)) => {
            let headers = [
                (header::CONTENT_TYPE, *kind),
                (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
                (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            ];
            (headers, *text).into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// A short name for these very files.
pub fn version() -> String {
    let mut all = digest::Context::new(&digest::SHA256);
    for (_, _, text) in FILES {
        all.update(text.as_bytes());
    }
    hex::encode(&all.finish().as_ref()[..6])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::FILES;

    /// What text needs against what is behind it (WCAG 2, level AA).
    const CONTRAST_MIN: f64 = 4.5;
    /// Text on surfaces, as the rules of the sheet put it there.
    const PAIRS: [(&str, &[&str]); 7] = [
        ("text", &["page", "rail", "card", "sunk", "accent-soft"]),
        ("quiet", &["page", "rail", "card", "sunk", "accent-soft", "held-soft"]),
        ("accent", &["page", "card", "sunk", "accent-soft"]),
        ("on-accent", &["accent"]),
        // The button of what cannot be taken back.
        ("card", &["dead"]),
        ("dead", &["page", "card", "sunk"]),
        ("held", &["card", "rail"]),
    ];
    const STATES: [&str; 6] = ["done", "running", "retrying", "held", "dead", "gone"];
    const SERIES: [&str; 3] = ["s0", "s1", "s2"];

    type Colours = BTreeMap<&'static str, [f64; 3]>;

    /// The colours of each block of the sheet that defines them: light, dark by the system, dark by choice.
    fn schemes() -> Vec<Colours> {
        let (.., sheet) = FILES[0];
        let blocks = sheet.split('}').filter(|block| block.contains("color-scheme:"));
        blocks.map(colours).collect()
    }

    fn colours(block: &'static str) -> Colours {
        let pairs =
            block.split(';').filter_map(|line| line.trim().strip_prefix("--")?.split_once(": #"));
        let channel = |hex: &str, at: usize| {
            let byte = u8::from_str_radix(&hex[at..at + 2], 16).expect("two hex digits");
            let part = f64::from(byte) / 255.0;
            if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        };
        pairs.map(|(name, hex)| (name, [0, 2, 4].map(|at| channel(hex, at)))).collect()
    }

    fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
        let light = |[red, green, blue]: [f64; 3]| 0.2126 * red + 0.7152 * green + 0.0722 * blue;
        let (one, other) = (light(one), light(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn every_text_can_be_read_in_both_schemes() {
        assert_eq!(contrast([0.0; 3], [1.0; 3]).round(), 21.0);
        let schemes = schemes();
        assert_eq!(schemes.len(), 3);
        assert_eq!(schemes[1], schemes[2], "dark is dark, whoever chose it");
        let mut pairs: Vec<(&str, String)> = Vec::new();
        for (text, surfaces) in PAIRS {
            pairs.extend(surfaces.iter().map(|surface| (text, (*surface).to_owned())));
        }
        for state in STATES {
            pairs.extend([(state, format!("{state}-soft")), ("text", format!("{state}-soft"))]);
        }
        pairs.extend(SERIES.map(|line| (line, "card".to_owned())));
        for colours in &schemes {
            for (text, surface) in &pairs {
                let found = contrast(colours[text], colours[surface.as_str()]);
                assert!(found >= CONTRAST_MIN, "{text} on {surface}: {found:.2}");
            }
        }
    }
}
