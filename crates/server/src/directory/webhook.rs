//! Webhooks and the catalogue of types, opened and cached.

use std::collections::HashMap;
use std::sync::Arc;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::{Map, Value};
use wakepost_domain::event_type::EventType;
use wakepost_domain::limits::truncate;
use wakepost_domain::webhook::{Webhook, WebhookSecrets};
use wakepost_domain::{TenantId, WebhookId};
use wakepost_store::moves::WebhookRecord;
use wakepost_store::vault::{Slot, TenantKey};
use wakepost_store::{Result, StoreError};

use super::Directory;

/// A webhook as it is stored, its secrets sealed.
pub fn sealed_webhook(webhook: &Webhook, key: &TenantKey) -> WebhookRecord {
    let secrets = serde_json::to_vec(&webhook.secrets).expect("secrets are plain data");
    WebhookRecord {
        id: webhook.id,
        tenant: webhook.tenant,
        lane: webhook.lane,
        config: webhook.config.clone(),
        secrets: key.seal(Slot::WebhookSecrets(webhook.id), &secrets),
        circuit: webhook.circuit.clone(),
        notices: webhook.notices.clone(),
        shut_until: webhook.shut_until(),
        due_at: webhook.due_at(),
        version: webhook.version,
    }
}

/// A tenant's types, with their schemas compiled.
#[derive(Default)]
pub struct Catalogue {
    types: HashMap<String, KnownType>,
}

/// A type of the catalogue.
pub struct KnownType {
    /// The type.
    pub event_type: EventType,
    /// Its schemas, by version.
    schemas: HashMap<String, Validator>,
}

impl Catalogue {
    fn of(types: Vec<EventType>) -> Catalogue {
        let known = |event_type: EventType| {
            let schemas = event_type.spec.versions.iter().filter_map(|(name, version)| {
                // What cannot be compiled was refused when it was registered, unless an older server took it.
                let compiled = schema(version.schema.as_ref()?).inspect_err(|why| {
                    tracing::warn!(
                        event_type = event_type.name,
                        version = name,
                        why,
                        "a schema is not used"
                    );
                });
                Some((name.clone(), compiled.ok()?))
            });
            let schemas = schemas.collect();
            (event_type.name.clone(), KnownType { event_type, schemas })
        };
        Catalogue { types: types.into_iter().map(known).collect() }
    }

    /// A type by its name.
    pub fn get(&self, name: &str) -> Option<&KnownType> {
        self.types.get(name)
    }

    /// All types, by name.
    pub fn all(&self) -> Vec<&EventType> {
        let mut all: Vec<_> = self.types.values().map(|known| &known.event_type).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }
}

impl KnownType {
    /// What is wrong with a subject: where, and why. Nothing is checked where the version has no schema.
    pub fn problem(&self, version: Option<&str>, object: &Value) -> Option<(String, String)> {
        misfit(self.schemas.get(version?)?, object)
    }
}

/// The longest complaint about a value, which may quote it.
const MISFIT_BYTES_MAX: usize = 500;

/// Where a value does not fit its schema, and why not.
pub fn misfit(schema: &Validator, value: &Value) -> Option<(String, String)> {
    let error = schema.validate(value).err()?;
    let path = error.instance_path().to_string().replace('/', ".");
    let why = truncate(&error.to_string(), MISFIT_BYTES_MAX).to_owned();
    Some((path.trim_start_matches('.').to_owned(), why))
}

/// Compiles a schema. It fetches nothing, its patterns cannot explode, and neither can its references.
pub fn schema(schema: &Value) -> std::result::Result<Validator, String> {
    let draft = Draft::default().detect(schema);
    Weight { root: schema, draft, within: Vec::new(), depth: 0 }.of(schema)?;
    let mut nameless = schema.clone();
    if let Some(fields) = nameless.as_object_mut()
        && fields.get(draft.id_keyword()).is_some_and(Value::is_string)
    {
        // Nobody refers to it by its name, and what it refers to must be what was weighed.
        fields.remove(draft.id_keyword());
    }
    jsonschema::options()
        .with_pattern_options(PatternOptions::regex())
        .build(&nameless)
        .map_err(|error| error.to_string())
}

/// How large a schema may be once every reference is written out. References that refer to references double with each
/// step, and so does the time that a subject takes to be checked.
const WEIGHT_MAX: usize = 20_000;
/// How deep it may be then: the stack of whoever compiles it or checks a subject grows with it.
const DEPTH_MAX: usize = 200;
/// Words that hold data, not schemas.
const DATA: [&str; 4] = ["const", "default", "enum", "examples"];
/// Words that hold schemas by names of the author's own, which are no words.
const NAMED: [&str; 6] =
    ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"];

/// Weighs a schema with its references written out.
struct Weight<'a> {
    root: &'a Value,
    /// Which version of the language the whole is in.
    draft: Draft,
    /// The references that are being followed.
    within: Vec<&'a str>,
    depth: usize,
}

impl<'a> Weight<'a> {
    fn of(&mut self, value: &'a Value) -> std::result::Result<usize, String> {
        if self.depth == DEPTH_MAX {
            return Err(format!(
                "must be at most {DEPTH_MAX} levels deep once its references are written out"
            ));
        }
        self.depth += 1;
        let weight = match value {
            Value::Object(fields) => self.of_words(value, fields)?,
            Value::Array(items) => self.of_all(items.iter())?,
            _ => 1,
        };
        self.depth -= 1;
        Ok(weight)
    }

    fn of_words(
        &mut self,
        value: &'a Value,
        fields: &'a Map<String, Value>,
    ) -> std::result::Result<usize, String> {
        self.check_words(value, fields)?;
        let mut weight = 1;
        if let Some(place) = fields.get("$ref").and_then(Value::as_str) {
            weight += self.referred(place)?;
        }
        for (name, part) in fields {
            weight += match part {
                _ if DATA.contains(&name.as_str()) => 0,
                Value::Object(named) if NAMED.contains(&name.as_str()) => {
                    self.of_all(named.values())?
                }
                part => self.of(part)?,
            };
            bounded(weight)?;
        }
        Ok(weight)
    }

    fn of_all(
        &mut self,
        parts: impl Iterator<Item = &'a Value>,
    ) -> std::result::Result<usize, String> {
        let mut weight = 1;
        for part in parts {
            weight += self.of(part)?;
            bounded(weight)?;
        }
        Ok(weight)
    }

    /// A name for the whole, and the language it is in, change nothing; one for a part changes what its references mean.
    fn check_words(
        &self,
        value: &'a Value,
        fields: &Map<String, Value>,
    ) -> std::result::Result<(), String> {
        let is_root = std::ptr::eq(value, self.root);
        let own = self.draft.id_keyword();
        let words = ["$dynamicRef", "$recursiveRef", "$anchor", "$dynamicAnchor", "$id", own];
        let is_used = |word: &&str| fields.get(*word).is_some_and(Value::is_string);
        let is_harmless = |word: &&str| is_root && ["$id", own].contains(word);
        let other_draft = self.draft.detect(value) != self.draft;
        let odd = words.into_iter().find(|word| is_used(word) && !is_harmless(word));
        match odd.or(other_draft.then_some("another $schema")) {
            Some(word) => Err(format!("must not use {word} inside")),
            None => Ok(()),
        }
    }

    fn referred(&mut self, place: &'a str) -> std::result::Result<usize, String> {
        // What is written with % may be read in two ways.
        let pointer = place.strip_prefix('#').filter(|pointer| !pointer.contains('%'));
        let pointer = pointer.ok_or("must refer only to parts of itself, without %: #/…")?;
        let target = self.root.pointer(pointer).ok_or_else(|| format!("{place} leads nowhere"))?;
        if self.within.contains(&place) || std::ptr::eq(target, self.root) {
            return Err(format!("must not refer to itself: {place}"));
        }
        self.within.push(place);
        let weight = self.of(target);
        self.within.pop();
        weight
    }
}

fn bounded(weight: usize) -> std::result::Result<(), String> {
    match weight > WEIGHT_MAX {
        true => {
            Err(format!("must have at most {WEIGHT_MAX} parts once its references are written out"))
        }
        false => Ok(()),
    }
}

impl Directory {
    /// All webhooks of a tenant, newest first.
    pub async fn webhooks(&self, tenant: TenantId) -> Result<Arc<[Arc<Webhook>]>> {
        if let Some(found) = self.webhooks.get(&tenant) {
            return Ok(found);
        }
        let seen = self.webhooks.generation();
        let mut all = Vec::new();
        for record in self.store.webhooks(tenant).await? {
            all.push(Arc::new(self.open_webhook(record).await?));
        }
        let all: Arc<[Arc<Webhook>]> = all.into();
        self.webhooks.put(seen, tenant, all.clone());
        Ok(all)
    }

    /// One of a tenant's webhooks.
    pub async fn webhook(&self, tenant: TenantId, id: WebhookId) -> Result<Option<Arc<Webhook>>> {
        Ok(self.webhooks(tenant).await?.iter().find(|webhook| webhook.id == id).cloned())
    }

    /// A webhook as it is stored, opened.
    pub async fn open_webhook(&self, record: WebhookRecord) -> Result<Webhook> {
        let key = self.vault.key(record.tenant).await?;
        let secrets = key.open(Slot::WebhookSecrets(record.id), &record.secrets)?;
        let damaged = |_| StoreError::Corrupt(format!("secrets of {}", record.id));
        let secrets: WebhookSecrets = serde_json::from_slice(&secrets).map_err(damaged)?;
        Ok(Webhook {
            id: record.id,
            tenant: record.tenant,
            lane: record.lane,
            config: record.config,
            secrets,
            circuit: record.circuit,
            notices: record.notices,
            version: record.version,
        })
    }

    /// A tenant's own types.
    pub async fn catalogue(&self, tenant: TenantId) -> Result<Arc<Catalogue>> {
        if let Some(found) = self.catalogues.get(&tenant) {
            return Ok(found);
        }
        let seen = self.catalogues.generation();
        let found = Arc::new(Catalogue::of(self.store.event_types(tenant).await?));
        self.catalogues.put(seen, tenant, found.clone());
        Ok(found)
    }

    /// A webhook or a type of a tenant changed.
    pub fn forget_webhooks(&self, tenant: TenantId) {
        self.webhooks.forget(&tenant);
        self.catalogues.forget(&tenant);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wakepost_domain::event_type::{EventTypeSpec, Version};

    use super::*;

    fn catalogue(schema: Value) -> Catalogue {
        let version = Version { schema: Some(schema), ..Version::default() };
        let versions = [("1".to_owned(), version)].into();
        let spec = EventTypeSpec { versions, ..EventTypeSpec::default() };
        Catalogue::of(vec![EventType { name: "order.created".to_owned(), spec }])
    }

    #[test]
    fn a_subject_that_does_not_fit_is_told_where() {
        let schema = json!({"type": "object", "required": ["id"],
            "properties": {"lines": {"type": "array", "items": {"properties": {"n": {"type": "integer"}}}}}});
        let catalogue = catalogue(schema);
        let known = catalogue.get("order.created").unwrap();
        assert_eq!(known.problem(Some("1"), &json!({"id": 1})), None);
        assert_eq!(known.problem(None, &json!(7)), None);
        let (path, _) = known.problem(Some("1"), &json!({"id": 1, "lines": [{"n": "x"}]})).unwrap();
        assert_eq!(path, "lines.0.n");
        let (path, why) = known.problem(Some("1"), &json!({})).unwrap();
        assert_eq!(path, "");
        assert!(why.contains("id"), "{why}");
    }

    #[test]
    fn a_schema_fetches_nothing_and_its_patterns_do_not_explode() {
        assert!(schema(&json!({"$ref": "http://127.0.0.1:1/schema.json"})).is_err());
        assert!(schema(&json!({"type": "nonsense"})).is_err());
        assert!(
            schema(&json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}})).is_err()
        );
        assert!(schema(&json!({"properties": {"child": {"$ref": "#"}}})).is_err());
        let mut defs = Map::new();
        defs.insert("d0".to_owned(), json!({"type": "object"}));
        for level in 1..40 {
            let inner = json!({"$ref": format!("#/$defs/d{}", level - 1)});
            defs.insert(format!("d{level}"), json!({"allOf": [inner, inner]}));
        }
        assert!(
            schema(&json!({"$ref": "#/$defs/d3", "$defs": defs})).is_err(),
            "all of it is weighed"
        );
        let plain = json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}});
        assert!(schema(&plain).unwrap().is_valid(&json!({})));
        let validator = schema(&json!({"type": "string", "pattern": "^(a+)+$"})).unwrap();
        assert!(!validator.is_valid(&json!("a".repeat(5000) + "b")));
    }

    /// A value within a value within a value.
    fn nested(name: &str, depth: usize) -> Value {
        (0..depth).fold(json!({}), |inner, _| json!({name: inner}))
    }

    #[test]
    fn what_is_weighed_is_what_is_compiled() {
        let twice = |place: &str| json!({"allOf": [{"$ref": place}, {"$ref": place}]});
        let holes = [
            // A property may have the name of a word that holds data.
            json!({"properties": {"default": twice("#")}}),
            json!({"properties": {"const": twice("#/$defs/enum")},
                "$defs": {"enum": {"properties": {"const": twice("#/$defs/enum")}}}}),
            // References are decoded.
            json!({"$ref": "#/$defs/a%62", "$defs": {"a%62": {}, "ab": twice("#/$defs/a%62")}}),
            // A part with a name of its own is what the references in it are read from.
            json!({"$schema": "http://json-schema.org/draft-04/schema#", "definitions": {"a": {}},
                "not": {"id": "http://x.example/y", "definitions": {"a": twice("#/definitions/a")},
                    "allOf": [{"$ref": "#/definitions/a"}]}}),
            json!({"$defs": {"a": {}}, "not": {"$schema": "http://json-schema.org/draft-04/schema#",
                "id": "y", "$defs": {"a": twice("#/$defs/a")}, "allOf": [{"$ref": "#/$defs/a"}]}}),
        ];
        for hole in holes {
            assert!(schema(&hole).is_err(), "{hole}");
        }
        let data = json!({"default": {"$ref": "#", "$id": "x"}, "enum": [{"$anchor": "x"}]});
        assert!(schema(&data).is_ok(), "data has no words");
    }

    #[test]
    fn a_schema_has_a_name_that_nobody_goes_by() {
        let meta = "http://json-schema.org/draft-07/schema";
        let named = json!({"$schema": meta, "$id": meta, "$ref": "#/definitions/nonNegativeInteger",
            "definitions": {"nonNegativeInteger": {"type": "string"}}});
        let compiled = schema(&named).unwrap();
        assert!(compiled.is_valid(&json!("x")) && !compiled.is_valid(&json!(1)));
    }

    #[test]
    fn references_cannot_exhaust_the_stack() {
        let chain = |word: &str, length: usize| {
            let part = |n: usize| match n {
                0 => json!({"type": "object"}),
                n => json!({"not": {"$ref": format!("#/{word}/a{}", n - 1)}}),
            };
            let parts: Map<_, _> = (0..length).map(|n| (format!("a{n}"), part(n))).collect();
            json!({"$ref": format!("#/{word}/a{}", length - 1), word: parts})
        };
        for word in ["$defs", "default"] {
            let why = schema(&chain(word, 5000)).unwrap_err();
            assert!(why.contains("levels deep"), "{why}");
        }
        let deepest = chain("default", DEPTH_MAX / 2 - 1);
        let compiled = schema(&deepest).unwrap();
        misfit(&compiled, &nested("a", 120));
    }
}
