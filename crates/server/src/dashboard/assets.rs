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
