//! What a source hides of its payloads from everybody but those who may read the raw bytes.

use serde_json::Value;

/// What stands in place of a hidden value.
pub const REDACTED: &str = "[redacted]";
/// How many rules a source may have.
pub const RULES_MAX: usize = 64;
/// How long a rule may be.
pub const RULE_BYTES_MAX: usize = 500;
/// A hidden text shorter than this is part of many a text by chance; only a text that is the same is hidden with it.
const PART_BYTES_MIN: usize = 4;
/// Beyond so many hidden values they are not looked for one by one: every text counts as showing one.
const VALUES_MAX: usize = 1000;

/// The rules of a source, read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Redaction(Vec<Vec<Step>>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// This member or element.
    Name(String),
    /// All of them.
    Every,
}

impl Step {
    fn read(text: &str) -> Step {
        match text {
            "*" => Step::Every,
            text => Step::Name(text.replace("~1", "/").replace("~0", "~")),
        }
    }

    fn meets(&self, other: &Step) -> bool {
        self == other || *self == Step::Every || *other == Step::Every
    }
}

/// The steps of a rule: a JSON pointer (RFC 6901) in which `*` stands for all members or elements. The empty pointer is
/// the whole payload.
fn steps(rule: &str) -> Result<Vec<Step>, &'static str> {
    let escapes_are_known = rule.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    match rule {
        "" => Ok(Vec::new()),
        _ if rule.len() > RULE_BYTES_MAX => Err("must have at most 500 bytes"),
        _ if rule.chars().any(char::is_control) => Err("must have no control characters"),
        _ if !rule.starts_with('/') || !escapes_are_known => {
            Err("must be a JSON pointer, such as /customer/email or /items/*/price")
        }
        _ => Ok(rule.split('/').skip(1).map(Step::read).collect()),
    }
}

impl Redaction {
    /// Reads rules; of one that is none, its place and why.
    pub fn read(rules: &[String]) -> Result<Redaction, (usize, &'static str)> {
        let read = |(index, rule): (usize, &String)| steps(rule).map_err(|why| (index, why));
        rules.iter().enumerate().map(read).collect::<Result<_, _>>().map(Redaction)
    }

    /// The rule that hides all.
    pub fn everything() -> Redaction {
        Redaction(vec![Vec::new()])
    }

    /// Whether there is nothing to hide.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it hides what a JSON pointer shows, or a part of that.
    pub fn covers(&self, pointer: &str) -> bool {
        let Ok(path) = steps(pointer) else { return false };
        self.0.iter().any(|rule| rule.iter().zip(&path).all(|(a, b)| a.meets(b)))
    }

    /// Hides what the rules say, and answers what that was. A payload without members to point at, such as text that
    /// is no JSON, is hidden whole: nobody knows where in it the value stands.
    pub fn apply(&self, payload: &mut Value) -> Hidden {
        let mut hidden = Hidden::default();
        match payload {
            _ if self.is_empty() => {}
            Value::Null => {}
            Value::Object(_) | Value::Array(_) => {
                for rule in &self.0 {
                    hide(payload, rule, &mut hidden);
                }
            }
            _ => hidden.take(payload),
        }
        hidden
    }
}

fn hide(value: &mut Value, rule: &[Step], hidden: &mut Hidden) {
    let Some((step, rest)) = rule.split_first() else {
        return hidden.take(value);
    };
    match (step, value) {
        (Step::Every, Value::Object(members)) => {
            members.values_mut().for_each(|member| hide(member, rest, hidden));
        }
        (Step::Every, Value::Array(elements)) => {
            elements.iter_mut().for_each(|element| hide(element, rest, hidden));
        }
        (Step::Name(name), Value::Object(members)) => {
            if let Some(member) = members.get_mut(name) {
                hide(member, rest, hidden);
            }
        }
        (Step::Name(name), Value::Array(elements)) => {
            // As in RFC 6901, `01` and `+1` are no places.
            let place = name.parse().ok().filter(|place: &usize| place.to_string() == *name);
            if let Some(element) = place.and_then(|place| elements.get_mut(place)) {
                hide(element, rest, hidden);
            }
        }
        _ => {}
    }
}

/// The values that were hidden, so that texts made from them can be hidden too.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hidden {
    values: Vec<String>,
    too_many: bool,
}

impl Hidden {
    /// Whether nothing was.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty() && !self.too_many
    }

    /// Whether a text shows one of them.
    pub fn is_in(&self, text: &str) -> bool {
        self.too_many
            || self.values.iter().any(|value| {
                text == value || value.len() >= PART_BYTES_MIN && text.contains(value.as_str())
            })
    }

    /// Hides a text that shows one of them.
    pub fn hide(&self, text: &mut String) {
        if self.is_in(text) {
            *text = REDACTED.to_owned();
        }
    }

    fn take(&mut self, value: &mut Value) {
        // A rule that meets what another has hidden already has nothing to add.
        if *value != REDACTED {
            self.note(&std::mem::replace(value, REDACTED.into()));
        }
    }

    fn note(&mut self, value: &Value) {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Array(elements) => return elements.iter().for_each(|each| self.note(each)),
            Value::Object(members) => return members.values().for_each(|each| self.note(each)),
            Value::Null | Value::Bool(_) => return,
        };
        if self.values.len() >= VALUES_MAX {
            self.too_many = true;
        } else if !text.is_empty() {
            self.values.push(text);
        }
    }
}

#[cfg(test)]
mod tests;
