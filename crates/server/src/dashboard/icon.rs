//! Small pictures of the rail, as strokes in a square of sixteen.

/// The strokes of a picture.
pub fn strokes(name: &str) -> &'static str {
    match name {
        "overview" => "M2 13V9h3v4M6.5 13V3h3v10M11 13V6h3v7",
        "inbox" => "M2 9l2.5-6h7L14 9v4H2V9zm0 0h3.5l1 2h3l1-2H14",
        "jobs" => {
            "M8 1.8v2.4M8 11.8v2.4M1.8 8h2.4M11.8 8h2.4M8 5.2a2.8 2.8 0 100 5.6 2.8 2.8 0 000-5.6z"
        }
        "approvals" => "M2 8.5l4 4 8-9",
        "dead" => "M3.5 3.5l9 9M12.5 3.5l-9 9",
        "sources" => "M8 2v7M5 6.5L8 9.5l3-3M2.5 11v2.5h11V11",
        "webhooks" => "M8 9.5v-7M5 5l3-3 3 3M2.5 11v2.5h11V11",
        "types" => "M2.5 4h11M2.5 8h11M2.5 12h7",
        "tenants" => "M2.5 13.5v-9l4-2v11M6.5 13.5v-8l7 2v6zM2 13.5h12",
        "keys" => "M5.2 5.2a2.8 2.8 0 100 5.6 2.8 2.8 0 000-5.6zM8 8h6v2.6M11.4 8v2",
        "audit" => "M4 2h6l3 3v9H4zM6 7.5h5M6 10.5h5",
        _ => "M3 8h10",
    }
}
