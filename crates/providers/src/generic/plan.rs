//! The generic provider's settings, read into what they mean.

use std::borrow::Cow;

use aws_lc_rs::hmac::{self, HMAC_SHA1_FOR_LEGACY_USE_ONLY, HMAC_SHA256, HMAC_SHA512};
use http::HeaderName;

use super::content::{Content, Piece};
use crate::freshness::Unit;
use crate::provider::{SecretNeed, SignedHeader};
use crate::request::Request;
use crate::settings::{ConfigError, Setting, Settings, text};
use crate::signature::{self, Encoding};
use crate::verdict::Why;
use crate::{header, payload};

/// Every setting, in the order a person would fill them in.
pub(super) const SETTINGS: &[Setting] = &[
    Setting::required(
        "header",
        "Signature header",
        "The header that holds the signature, the token or the password; Authorization for basic.",
    )
    .example("X-Signature"),
    Setting::optional(
        "algorithm",
        "Algorithm",
        "hmac-sha1, hmac-sha256 (default), hmac-sha512, ed25519, token or basic. With ed25519 the secret is the public key; with basic it is user:password.",
    ),
    Setting::optional(
        "encoding",
        "Encoding",
        "How the signature is written: hex (default), base64 or base64url.",
    ),
    Setting::optional(
        "prefix",
        "Prefix",
        "What stands before each signature or the token, such as sha256= or Bearer with its space.",
    ),
    Setting::optional(
        "separator",
        "Separator",
        "What stands between signatures where the header may hold several, such as a comma.",
    ),
    Setting::optional(
        "content",
        "Signed content",
        "What is signed, over {method} {url} {id} {timestamp} {body}; {body} by default.",
    ),
    Setting::optional(
        "timestamp_header",
        "Timestamp header",
        "The header that holds the time of signing.",
    ),
    Setting::optional(
        "timestamp_pointer",
        "Timestamp pointer",
        "Where the body holds the time of signing, as a JSON pointer such as /sent_at.",
    ),
    Setting::optional(
        "timestamp_unit",
        "Timestamp unit",
        "How the time is written: s (default), ms or rfc3339.",
    ),
    Setting::optional(
        "id_header",
        "Id header",
        "The header that holds the event's id; without an id the body's hash tells repeats.",
    ),
    Setting::optional(
        "id_pointer",
        "Id pointer",
        "Where the body holds the event's id, as a JSON pointer such as /id.",
    ),
    Setting::optional(
        "type_header",
        "Type header",
        "The header that says what happened; without a type every event is called event.",
    ),
    Setting::optional(
        "type_pointer",
        "Type pointer",
        "Where the body says what happened, as a JSON pointer such as /type.",
    ),
];

/// How a request proves where it is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    Hmac(hmac::Algorithm),
    Ed25519,
    Token,
    Basic,
}

/// Where a value stands in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place<'s> {
    Header(&'s str),
    Pointer(&'s str),
}

/// The settings of one source.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan<'s> {
    pub(super) header: Option<&'s str>,
    pub(super) algorithm: Algorithm,
    pub(super) encoding: Encoding,
    pub(super) prefix: &'s str,
    separator: Option<&'s str>,
    pub(super) content: Content<'s>,
    pub(super) timestamp: Option<Place<'s>>,
    pub(super) unit: Unit,
    pub(super) id: Option<Place<'s>>,
    pub(super) event_type: Option<Place<'s>>,
}

impl<'s> Plan<'s> {
    /// Reads the settings; an error names the one that is malformed.
    pub(super) fn read(settings: &'s Settings) -> Result<Plan<'s>, ConfigError> {
        let algorithm = Algorithm::read(text(settings, "algorithm")?)?;
        let default_header = (algorithm == Algorithm::Basic).then_some("Authorization");
        let plan = Plan {
            header: header_name(settings, "header")?.or(default_header),
            algorithm,
            encoding: match text(settings, "encoding")? {
                None | Some("hex") => Encoding::Hex,
                Some("base64") => Encoding::Base64,
                Some("base64url") => Encoding::Base64Url,
                Some(_) => return Err(one_of("encoding", "hex, base64 or base64url")),
            },
            prefix: text(settings, "prefix")?.unwrap_or_default(),
            separator: text(settings, "separator")?,
            content: Content::read(text(settings, "content")?.unwrap_or("{body}"))?,
            timestamp: Place::read(settings, "timestamp_header", "timestamp_pointer")?,
            unit: match text(settings, "timestamp_unit")? {
                None | Some("s") => Unit::Seconds,
                Some("ms") => Unit::Millis,
                Some("rfc3339") => Unit::Rfc3339,
                Some(_) => return Err(one_of("timestamp_unit", "s, ms or rfc3339")),
            },
            id: Place::read(settings, "id_header", "id_pointer")?,
            event_type: Place::read(settings, "type_header", "type_pointer")?,
        };
        plan.check_content()?;
        Ok(plan)
    }

    /// The header that proves the request; a source without one can verify nothing yet.
    pub(super) fn header(&self) -> Result<&'s str, ConfigError> {
        self.header.ok_or_else(|| ConfigError::new("header", "is not set"))
    }

    /// The signatures in a header's value; those without the prefix, or badly encoded, are passed over.
    pub(super) fn candidates<'h>(&'h self, given: &'h str) -> impl Iterator<Item = Vec<u8>> + 'h {
        let whole = self.separator.is_none().then_some(given);
        let items = self.separator.into_iter().flat_map(|separator| given.split(separator));
        let trimmed = items.map(|item| item.trim_matches(' '));
        whole
            .into_iter()
            .chain(trimmed)
            .filter_map(|item| item.strip_prefix(self.prefix))
            .filter_map(|item| self.encoding.decode(item))
    }

    /// Whether the proof covers the body.
    pub(super) fn signs_body(&self) -> bool {
        self.signs(Piece::Body)
    }

    /// Whether the proof covers the id; the body's hash, where there is no other, is covered with the body.
    pub(super) fn signs_id(&self) -> bool {
        match self.id {
            Some(Place::Header(_)) => self.signs(Piece::Id),
            Some(Place::Pointer(_)) => self.signs(Piece::Id) || self.signs_body(),
            None => self.signs_body(),
        }
    }

    /// Whether the proof covers the time.
    pub(super) fn signs_timestamp(&self) -> bool {
        let in_body = matches!(self.timestamp, Some(Place::Pointer(_))) && self.signs_body();
        self.signs(Piece::Timestamp) || in_body
    }

    /// The headers that the proof is in or covers.
    pub(super) fn signed_headers(&self) -> Vec<SignedHeader> {
        let header = |name: &str, any_case| SignedHeader {
            name: name.to_ascii_lowercase().into(),
            any_case,
        };
        let over_content = matches!(self.algorithm, Algorithm::Hmac(_) | Algorithm::Ed25519);
        let in_hex = over_content && self.encoding == Encoding::Hex;
        // The scheme's name before a Basic password may be written in any case.
        let proof =
            self.header.map(|name| header(name, in_hex || self.algorithm == Algorithm::Basic));
        let covered = [(Piece::Id, self.id), (Piece::Timestamp, self.timestamp)];
        let covered = covered.into_iter().filter_map(|(piece, place)| match place {
            Some(Place::Header(name)) if self.signs(piece) => Some(header(name, false)),
            _ => None,
        });
        proof.into_iter().chain(covered).collect()
    }

    /// Whether the proof covers this.
    pub(super) fn signs(&self, piece: Piece<'_>) -> bool {
        let over_content = matches!(self.algorithm, Algorithm::Hmac(_) | Algorithm::Ed25519);
        over_content && self.content.has(piece)
    }

    /// Refuses a template with something in it that nothing says where to find.
    fn check_content(&self) -> Result<(), ConfigError> {
        let wanted = [(Piece::Id, "id", self.id), (Piece::Timestamp, "timestamp", self.timestamp)];
        for (piece, name, place) in wanted {
            if self.content.has(piece) && place.is_none() {
                let message =
                    format!("has {{{name}}}, but neither {name}_header nor {name}_pointer is set");
                return Err(ConfigError::new("content", message));
            }
        }
        Ok(())
    }
}

impl Algorithm {
    fn read(name: Option<&str>) -> Result<Algorithm, ConfigError> {
        Ok(match name {
            None | Some("hmac-sha256") => Algorithm::Hmac(HMAC_SHA256),
            Some("hmac-sha1") => Algorithm::Hmac(HMAC_SHA1_FOR_LEGACY_USE_ONLY),
            Some("hmac-sha512") => Algorithm::Hmac(HMAC_SHA512),
            Some("ed25519") => Algorithm::Ed25519,
            Some("token") => Algorithm::Token,
            Some("basic") => Algorithm::Basic,
            Some(_) => {
                let known = "hmac-sha1, hmac-sha256, hmac-sha512, ed25519, token or basic";
                return Err(one_of("algorithm", known));
            }
        })
    }

    /// Who makes the secret: a public key can only come from whoever holds the private one.
    pub(super) fn secret_need(self) -> SecretNeed {
        match self {
            Algorithm::Ed25519 => SecretNeed::Given,
            _ => SecretNeed::Generated,
        }
    }

    /// Refuses a secret that could never verify anything.
    pub(super) fn check_secret(self, secret: &str) -> Result<(), ConfigError> {
        match self {
            Algorithm::Ed25519 => public_key(secret).map(|_| ()),
            Algorithm::Basic if !secret.contains(':') => {
                Err(ConfigError::new("secret", "must be user:password for basic"))
            }
            _ => Ok(()),
        }
    }
}

impl<'s> Place<'s> {
    fn read(
        settings: &'s Settings,
        header: &str,
        pointer: &str,
    ) -> Result<Option<Place<'s>>, ConfigError> {
        let by_pointer = text(settings, pointer)?;
        if by_pointer.is_some_and(|text| !payload::is_pointer(text)) {
            return Err(ConfigError::new(pointer, "must be a JSON pointer, such as /data/id"));
        }
        match (header_name(settings, header)?, by_pointer) {
            (Some(_), Some(_)) => {
                Err(ConfigError::new(pointer, format!("cannot stand beside {header}")))
            }
            (Some(name), None) => Ok(Some(Place::Header(name))),
            (None, by_pointer) => Ok(by_pointer.map(Place::Pointer)),
        }
    }

    /// What to call it when something is wrong with it.
    pub(super) fn name(&self) -> &'s str {
        match *self {
            Place::Header(name) | Place::Pointer(name) => name,
        }
    }

    pub(super) fn pointer(&self) -> Option<&'s str> {
        match *self {
            Place::Pointer(pointer) => Some(pointer),
            Place::Header(_) => None,
        }
    }

    /// The value, which a signature depends on and which must therefore be there, once.
    pub(super) fn must_find<'r>(&self, request: &Request<'r>) -> Result<Cow<'r, str>, Why> {
        match *self {
            Place::Header(name) => header::one(request.headers, name).map(Cow::Borrowed),
            Place::Pointer(pointer) => match payload::pick(request.body, [pointer]) {
                Ok([Some(value)]) => Ok(value),
                Ok([None]) => Err(Why::malformed(pointer, "in the body as text or a whole number")),
                Err(_) => Err(Why::malformed("the body", "sound JSON, and the signature needs it")),
            },
        }
    }
}

/// An Ed25519 public key: 64 hex digits, or 32 bytes in base64, with or without `whpk_`.
pub(super) fn public_key(secret: &str) -> Result<[u8; 32], ConfigError> {
    let text = secret.strip_prefix("whpk_").unwrap_or(secret);
    let decoded = match text.len() {
        64 => Encoding::Hex.decode(text),
        _ => signature::decode_key(text).or_else(|| Encoding::Base64Url.decode(text)),
    };
    decoded.and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| {
        ConfigError::new("secret", "must be an Ed25519 public key: 32 bytes in hex or base64")
    })
}

fn header_name<'s>(settings: &'s Settings, field: &str) -> Result<Option<&'s str>, ConfigError> {
    match text(settings, field)? {
        Some(name) if HeaderName::try_from(name).is_err() => {
            Err(ConfigError::new(field, "must be the name of a header"))
        }
        name => Ok(name),
    }
}

fn one_of(field: &str, known: &str) -> ConfigError {
    ConfigError::new(field, format!("must be one of {known}"))
}
