//! What is signed: a template over the method, the URL, the id, the time and the body.

use std::borrow::Cow;

use super::plan::Plan;
use crate::request::Request;
use crate::settings::ConfigError;
use crate::verdict::Why;

/// One piece of the template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece<'s> {
    Literal(&'s str),
    Method,
    Url,
    Id,
    Timestamp,
    Body,
}

/// A template such as `{id}.{timestamp}.{body}`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Content<'s>(Vec<Piece<'s>>);

impl<'s> Content<'s> {
    pub(super) fn read(template: &'s str) -> Result<Content<'s>, ConfigError> {
        let mut pieces = Vec::new();
        let mut rest = template;
        while let Some(open) = rest.find(['{', '}']) {
            let known = [
                ("{method}", Piece::Method),
                ("{url}", Piece::Url),
                ("{id}", Piece::Id),
                ("{timestamp}", Piece::Timestamp),
                ("{body}", Piece::Body),
            ];
            let (name, piece) =
                known.into_iter().find(|(name, _)| rest[open..].starts_with(name)).ok_or_else(
                    || {
                        let message = "may have {method}, {url}, {id}, {timestamp} and {body}, and no other braces";
                        ConfigError::new("content", message)
                    },
                )?;
            pieces.extend((open > 0).then_some(Piece::Literal(&rest[..open])));
            pieces.push(piece);
            rest = &rest[open + name.len()..];
        }
        pieces.extend((!rest.is_empty()).then_some(Piece::Literal(rest)));
        Ok(Content(pieces))
    }

    pub(super) fn has(&self, piece: Piece<'_>) -> bool {
        self.0.contains(&piece)
    }

    /// The bytes to sign, in order, none of them copied.
    pub(super) fn parts<'v>(&self, request: &Request<'v>, values: &'v Values<'v>) -> Vec<&'v [u8]>
    where
        's: 'v,
    {
        let part = |piece: &Piece<'s>| -> &'v [u8] {
            match *piece {
                Piece::Literal(text) => text.as_bytes(),
                Piece::Method => request.method.as_str().as_bytes(),
                Piece::Url => request.url.as_bytes(),
                Piece::Id => values.id.as_bytes(),
                Piece::Timestamp => values.timestamp.as_bytes(),
                Piece::Body => request.body,
            }
        };
        self.0.iter().map(part).collect()
    }
}

/// The id and time as the sender wrote them; empty where the template has no use for them.
#[derive(Default)]
pub(super) struct Values<'r> {
    id: Cow<'r, str>,
    timestamp: Cow<'r, str>,
}

impl<'r> Values<'r> {
    /// Finds what the template needs and nothing more, so that a forged request is not parsed for nothing.
    pub(super) fn find(plan: &Plan<'_>, request: &Request<'r>) -> Result<Values<'r>, Why> {
        let find = |piece, place: &Option<super::Place<'_>>| match place {
            Some(place) if plan.content.has(piece) => place.must_find(request),
            _ => Ok(Cow::Borrowed("")),
        };
        Ok(Values {
            id: find(Piece::Id, &plan.id)?,
            timestamp: find(Piece::Timestamp, &plan.timestamp)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_literals_and_known_names() {
        let content = Content::read("v0:{timestamp}:{body}").unwrap();
        let literal = Piece::Literal;
        let expected = vec![literal("v0:"), Piece::Timestamp, literal(":"), Piece::Body];
        assert_eq!(content.0, expected);
        assert_eq!(Content::read("").unwrap().0, vec![]);
        for bad in ["{Body}", "{", "}", "{{body}}", "{body", "{host}", "body}"] {
            assert!(Content::read(bad).is_err(), "{bad}");
        }
    }
}
