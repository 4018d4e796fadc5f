//! The generic provider: any sender whose scheme can be written down as settings.
//!
//! [`plan`] reads the settings, [`content`] puts together what is signed, and this file checks, maps and signs
//! by them. Nothing here knows any vendor.

mod content;
mod plan;

use std::borrow::Cow;

use wakepost_domain::Timestamp;
use wakepost_domain::envelope::Mapped;
use wakepost_domain::ports::Entropy;

use self::content::Piece;
use self::content::Values;
use self::plan::{Algorithm, Place, Plan, SETTINGS};
use crate::mapping::{self, MapError};
use crate::provider::{Facts, Keys, Provider, SecretNeed, SignedHeader};
use crate::request::{Request, SignedRequest};
use crate::sample::Sample;
use crate::settings::{self, ConfigError, Setting, Settings};
use crate::signature::{self, CANDIDATES_MAX};
use crate::verdict::{Check, Refusal, Verified, Why};
use crate::{basic, header, payload, standard};

/// Any sender, by configuration.
pub(crate) struct Generic;

impl Provider for Generic {
    fn name(&self) -> &'static str {
        "generic"
    }

    fn facts(&self) -> Facts {
        Facts { id_is_signed: false, secret: SecretNeed::Generated, ..Facts::usual("Generic") }
    }

    fn steps(&self, webhook_url: &str) -> Vec<String> {
        vec![format!("Give the sender the address {webhook_url} and the source's secret.")]
    }

    fn facts_for(&self, settings: &Settings) -> Facts {
        let Ok(plan) = Plan::read(settings) else {
            return self.facts();
        };
        Facts {
            signs_body: plan.signs_body(),
            id_is_signed: plan.signs_id(),
            signs_url: plan.signs(Piece::Url),
            secret: plan.algorithm.secret_need(),
            ..self.facts()
        }
    }

    fn settings(&self) -> &'static [Setting] {
        SETTINGS
    }

    fn check_config(
        &self,
        secret: Option<&str>,
        settings: &Settings,
    ) -> Result<Vec<String>, ConfigError> {
        let mut missing = settings::missing(SETTINGS, settings)?;
        let plan = Plan::read(settings)?;
        // Basic has a header of its own.
        missing.retain(|_| plan.header.is_none());
        match secret.filter(|secret| !secret.is_empty()) {
            Some(secret) => plan.algorithm.check_secret(secret)?,
            None => missing.insert(0, "secret".to_owned()),
        }
        Ok(missing)
    }

    fn signed_headers(&self, settings: &Settings) -> Vec<SignedHeader> {
        Plan::read(settings).map_or_else(|_| Vec::new(), |plan| plan.signed_headers())
    }

    fn verify(&self, request: &Request<'_>, check: &Check<'_>) -> Result<Verified, Refusal> {
        let plan = Plan::read(check.settings).map_err(Refusal::Unready)?;
        let name = plan.header().map_err(Refusal::Unready)?;
        let given = header::one(request.headers, name)?;
        let secret_index = match plan.algorithm {
            Algorithm::Token => {
                let token = given.strip_prefix(plan.prefix);
                let token = token.ok_or_else(|| Why::malformed(name, "the prefix and a token"))?;
                check.secret_that(|s| Ok(signature::equal(token.as_bytes(), s.as_bytes())))?
            }
            Algorithm::Basic => {
                let pair = basic::pair(given)
                    .ok_or_else(|| Why::malformed(name, "Basic and canonical base64"))?;
                check.secret_that(|s| Ok(signature::equal(&pair, s.as_bytes())))?
            }
            _ => verify_content(&plan, name, given, request, check)?,
        };
        // Only now: a stale request with a bad signature is first of all a forged one.
        let Some(place) = &plan.timestamp else {
            return Ok(Verified { secret_index, signed_at: None });
        };
        let text = place.must_find(request)?;
        let time = plan
            .unit
            .read(&text)
            .ok_or_else(|| Why::malformed(place.name(), plan.unit.expected()))?;
        check.fresh(time)?;
        Ok(Verified { secret_index, signed_at: plan.signs_timestamp().then_some(time) })
    }

    fn map(&self, request: &Request<'_>, settings: &Settings) -> Result<Vec<Mapped>, MapError> {
        let plan = Plan::read(settings).map_err(MapError::Settings)?;
        let pointers = [plan.id.as_ref(), plan.event_type.as_ref()]
            .map(|place| place.and_then(Place::pointer));
        let wants_json = pointers.iter().any(Option::is_some);
        // A body that claims to be JSON must be, or nobody could read it later; others are opaque.
        let claims_json = !request.body.is_empty() && header::says_json(request.headers);
        let [id, event_type] = match wants_json || claims_json {
            true => payload::pick_wanted(request.body, pointers)?,
            false => [None, None],
        };
        let id = id.or(header_at(&plan.id, request)?).filter(|id| !id.is_empty());
        let event_type = event_type.or(header_at(&plan.event_type, request)?);
        mapping::one(Mapped {
            dedup_key: id.map(Cow::into_owned),
            event_type: event_type.map_or_else(|| "event".to_owned(), Cow::into_owned),
            provider_request_id: header::request_id(request.headers),
            ..Mapped::default()
        })
    }

    fn is_public(&self, _: &str, settings: &Settings) -> bool {
        Plan::read(settings).is_ok_and(|plan| matches!(plan.algorithm, Algorithm::Ed25519))
    }

    fn generate_secret(&self, settings: &Settings, entropy: &dyn Entropy) -> Option<String> {
        match Plan::read(settings).ok()?.algorithm {
            Algorithm::Hmac(_) | Algorithm::Token => {
                Some(hex::encode(signature::random_key(entropy)))
            }
            Algorithm::Basic => Some(basic::generate_secret(entropy)),
            Algorithm::Ed25519 => None,
        }
    }

    fn sample_keys(&self, settings: &Settings, entropy: &dyn Entropy) -> Keys {
        match self.generate_secret(settings, entropy) {
            Some(secret) => Keys::shared(secret),
            None => standard::generate_key_pair(entropy),
        }
    }

    fn samples(&self) -> &'static [Sample] {
        SAMPLES
    }

    fn sign(
        &self,
        request: &mut SignedRequest,
        secret: &str,
        settings: &Settings,
        id: &str,
        now: Timestamp,
    ) -> Result<(), ConfigError> {
        let plan = Plan::read(settings)?;
        if let Some(Place::Header(name)) = plan.id {
            request.set(name, id)?;
        }
        if let Some(Place::Header(name)) = plan.timestamp {
            request.set(name, &plan.unit.write(now))?;
        }
        let text = match plan.algorithm {
            Algorithm::Token => format!("{}{secret}", plan.prefix),
            Algorithm::Basic => basic::value(secret),
            _ => sign_content(&plan, &request.as_request(), secret)?,
        };
        request.set(plan.header()?, &text)
    }
}

static SAMPLES: &[Sample] =
    &[Sample::json("event", include_str!("../../fixtures/generic/event.json"))];

/// Checks a signature over the content; finds the id and time first only if the content has them.
fn verify_content(
    plan: &Plan<'_>,
    name: &str,
    given: &str,
    request: &Request<'_>,
    check: &Check<'_>,
) -> Result<usize, Refusal> {
    let signatures: Vec<_> = plan.candidates(given).take(CANDIDATES_MAX + 1).collect();
    if signatures.is_empty() || signatures.len() > CANDIDATES_MAX {
        let expected = "one to 16 signatures with the configured prefix and encoding";
        return Err(Why::malformed(name, expected).into());
    }
    let values = Values::find(plan, request)?;
    let parts = plan.content.parts(request, &values);
    check.secret_that(|secret| match plan.algorithm {
        Algorithm::Hmac(hash) => {
            Ok(signature::hmac_fits(hash, secret.as_bytes(), &parts, &signatures))
        }
        _ => Ok(signature::ed25519_fits(&plan::public_key(secret)?, &parts, &signatures)),
    })
}

fn sign_content(
    plan: &Plan<'_>,
    request: &Request<'_>,
    secret: &str,
) -> Result<String, ConfigError> {
    let values = Values::find(plan, request)
        .map_err(|why| ConfigError::new("content", format!("cannot be put together: {why}")))?;
    let parts = plan.content.parts(request, &values);
    let bytes = match plan.algorithm {
        Algorithm::Hmac(hash) => signature::hmac(hash, secret.as_bytes(), &parts).as_ref().to_vec(),
        _ => signature::ed25519_pair(secret)
            .ok_or_else(|| ConfigError::new("secret", "must be a private key, whsk_…, to sign"))?
            .sign(&parts.concat())
            .as_ref()
            .to_vec(),
    };
    Ok(format!("{}{}", plan.prefix, plan.encoding.encode(&bytes)))
}

fn header_at<'r>(
    place: &Option<Place<'_>>,
    request: &Request<'r>,
) -> Result<Option<Cow<'r, str>>, Why> {
    match place {
        Some(Place::Header(name)) => {
            Ok(header::optional(request.headers, name)?.map(Cow::Borrowed))
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests;
