//! Parses YAML and JSON. Errors name the file, the line, the field and the expected value.

use std::{fmt, iter};

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_path_to_error::{Segment, Track};
use serde_saphyr::options::{DuplicateKeyPolicy, NonFiniteFloatPolicy};
use serde_saphyr::{Error, Location, MessageFormatter as _, Spanned, UserMessageFormatter};

use super::is_alike;

/// An error in a YAML or JSON file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct YamlError {
    /// The file, the line and the path of the field, as far as they are known.
    place: String,
    /// The problem of the field.
    problem: String,
}

impl YamlError {
    /// An error in `field` of `file`. Without a line or with an empty field, the message has none.
    pub fn new(file: &str, line: Option<u64>, field: &str, problem: String) -> Self {
        let line = line.map_or(String::new(), |line| format!(":{line}"));
        let field = if field.is_empty() { String::new() } else { format!(": {field}") };
        Self { place: format!("{file}{line}{field}"), problem }
    }
}

/// Parses a text. `file` stands for the file in errors.
///
/// # Errors
/// A syntax error, an unknown or missing field, or a value of the wrong type.
pub fn parse<T: DeserializeOwned>(text: &str, file: &str) -> Result<T, YamlError> {
    if text.trim().is_empty() {
        return Err(YamlError::new(file, None, "", "the file is empty".into()));
    }
    let mut track = Track::new();
    let parsed = serde_saphyr::with_deserializer_from_str(text, |deserializer| {
        T::deserialize(serde_path_to_error::Deserializer::new(deserializer, &mut track))
    });
    parsed.map_err(|error| {
        let path: String = track.path().iter().map(step).collect();
        fault(text, file, &path, error.without_snippet())
    })
}

/// The line of the field with this path, such as `policies[2].name`, or of the nearest field around
/// it.
pub fn line_of(text: &str, field: &str) -> Option<u64> {
    let root = values(text)?;
    let path = format!(".{field}");
    let ends = path.rmatch_indices(['.', '[']).map(|(end, _)| end);
    let around = ends.filter(|end| *end > 0).map(|end| &path[..end]);
    iter::once(path.as_str()).chain(around).find_map(|path| line_at(&root, path))
}

/// Whether the text has this field at the top.
pub fn has_field(text: &str, field: &str) -> bool {
    values(text).is_some_and(|root| line_at(&root, &format!(".{field}")).is_some())
}

/// The error of a file. `path` is that of the value that was being parsed.
fn fault(text: &str, file: &str, path: &str, error: &Error) -> YamlError {
    let root = values(text);
    let line_at = |path: &str| line_at(root.as_ref()?, path);
    let location = error.location();
    let value = location.and_then(|location| value_at(text, location));
    let value = value.as_deref();
    let line = location.map(|location| location.line()).filter(|line| *line > 0);
    let (line, field) = match error {
        // The parser often finds a syntax error after the field that contains it.
        Error::ExternalMessage { .. } => (line, String::new()),
        // The position is that of the last field of the mapping.
        Error::SerdeMissingField { field, .. } => {
            (line_at(path).or(line), format!("{path}.{field}"))
        }
        Error::DuplicateMappingKey { key: Some(key), .. } => (line, format!("{path}.{key}")),
        Error::SerdeUnknownVariant { variant, .. } => {
            let field = format!("{path}.{variant}");
            let is_field = line_at(&field).is_some();
            (line, if is_field { field } else { path.into() })
        }
        Error::ExpectedMappingEndAfterEnumVariantValue { .. } => {
            (line, format!("{}.{}", variant_of(path).0, value.unwrap_or_default()))
        }
        _ => (line, path.into()),
    };
    let field = field.strip_prefix('.').unwrap_or(&field);
    YamlError::new(file, line, field, problem(error, path, value))
}

fn problem(error: &Error, path: &str, value: Option<&str>) -> String {
    let got = match value {
        Some(value) => format!(", got {:?}", value.chars().take(80).collect::<String>()),
        None => String::new(),
    };
    let is_digits = value.is_some_and(|value| value.bytes().all(|byte| byte.is_ascii_digit()));
    match error {
        Error::InvalidScalar { ty: "u32", .. } if is_digits => {
            format!("expected at most {}{got}", u32::MAX)
        }
        Error::InvalidScalar { ty: "u64", .. } if is_digits => {
            format!("expected at most {}{got}", u64::MAX)
        }
        Error::InvalidScalar { ty, .. } => format!("expected {}{got}", kind(ty)),
        Error::SerdeInvalidType { expected, .. } | Error::SerdeInvalidValue { expected, .. } => {
            format!("expected {}{got}", kind(expected))
        }
        Error::SerdeInvalidLength { len, expected, .. } => {
            format!("expected {}, got {len}", kind(expected))
        }
        Error::Unexpected { expected, .. } => format!("expected {}{got}", kind(expected)),
        Error::SerdeMissingField { .. } => "is missing".into(),
        Error::SerdeUnknownField { field, expected, .. } => {
            match expected.iter().find(|name| is_alike(name, field)) {
                Some(name) => format!("unknown field: did you mean {name}?"),
                None => format!("unknown field; the fields here are {}", expected.join(", ")),
            }
        }
        Error::SerdeUnknownVariant { variant, expected, .. } => {
            format!("expected {}, got {variant:?}", expected.join(" or "))
        }
        Error::DuplicateMappingKey { .. } => "the field occurs twice".into(),
        Error::ExpectedMappingEndAfterEnumVariantValue { .. } => match value {
            Some(second) => format!("give {} or {second}, not both", variant_of(path).1),
            None => "expected one field".into(),
        },
        Error::ExpectedStringKeyForExternallyTaggedEnum { .. } => "expected a field in it".into(),
        Error::MultipleDocuments { .. } => "a second document starts here: give one".into(),
        Error::NullIntoString { .. } => "expected a value, got null".into(),
        Error::ExternalMessage { msg, .. } if msg.contains("<document start>") => {
            "text follows the end of the document".into()
        }
        Error::Message { msg, .. } => msg.clone(),
        other => UserMessageFormatter.format_message(other).into_owned(),
    }
}

/// The kind of value in words, from the name of a Rust type or serde's words for it.
fn kind(name: &str) -> &str {
    match name {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "i8" | "i16" | "i32" | "i64" => "a whole number",
        "floating point" | "f32" | "f64" => "a number",
        "a tuple of size 2" => "a list of 2 values",
        "boolean" | "a boolean" | "bool" => "true or false",
        "string" | "a string" | "string scalar" => "a single value",
        "sequence start" | "a sequence" | "sequence" => "a list",
        "mapping start" | "a map" | "mapping" => "a mapping of fields",
        _ if name.starts_with("struct ") => "a mapping of fields",
        _ if name.starts_with("enum ") => "one of its values",
        other => other,
    }
}

/// A step of a path, such as `.policies[2].name`. The empty path is that of the whole text.
fn step(segment: &Segment) -> String {
    match segment {
        Segment::Map { key } | Segment::Enum { variant: key } => format!(".{key}"),
        Segment::Seq { index } => format!("[{index}]"),
        Segment::Unknown => String::new(),
    }
}

/// The path around the variant of an enum, and the name of the variant.
fn variant_of(path: &str) -> (&str, &str) {
    path.rsplit_once('.').unwrap_or(("", path))
}

/// The single value or the key at a location. With the tag, a null is a text, too.
fn value_at(text: &str, location: Location) -> Option<String> {
    let span = location.span();
    let start = usize::try_from(span.byte_offset()?).ok()?;
    let length = usize::try_from(span.byte_len()?).ok().filter(|length| *length > 0)?;
    let written = text.get(start..start.checked_add(length)?)?;
    serde_saphyr::from_str(&format!("!!str {written}")).ok()
}

/// The fields of a mapping or the values of a list, each after its step. A single value has none.
#[derive(Default)]
struct Values(Vec<(String, Spanned<Values>)>);

/// The values of a text, or `None` if it has a syntax error.
fn values(text: &str) -> Option<Spanned<Values>> {
    let options = serde_saphyr::options! {
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
    };
    serde_saphyr::from_str_with_options(text, options).ok()
}

/// The line where the value with this path begins.
fn line_at(value: &Spanned<Values>, path: &str) -> Option<u64> {
    if path.is_empty() {
        return Some(value.referenced.line()).filter(|line| *line > 0);
    }
    let Values(values) = &value.value;
    values.iter().find_map(|(step, value)| line_at(value, path.strip_prefix(step.as_str())?))
}

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValuesVisitor)
    }
}

struct ValuesVisitor;

impl<'de> Visitor<'de> for ValuesVisitor {
    type Value = Values;

    fn expecting(&self, to: &mut fmt::Formatter) -> fmt::Result {
        to.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Values, E> {
        Ok(Values::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<Values, E> {
        Ok(Values::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<Values, E> {
        Ok(Values::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<Values, E> {
        Ok(Values::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Values, E> {
        Ok(Values::default())
    }

    fn visit_str<E>(self, _: &str) -> Result<Values, E> {
        Ok(Values::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Values, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element()? {
            values.push((format!("[{}]", values.len()), value));
        }
        Ok(Values(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut mapping: A) -> Result<Values, A::Error> {
        let mut values = Vec::new();
        while let Some((key, value)) = mapping.next_entry::<String, _>()? {
            values.push((format!(".{key}"), value));
        }
        Ok(Values(values))
    }
}

/// A value as YAML.
///
/// # Errors
/// The value cannot be written as YAML, such as a map whose keys are maps.
pub fn to_yaml(value: &impl serde::Serialize) -> Result<String, serde_saphyr::ser::Error> {
    serde_saphyr::to_string(value)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "the fields are only parsed")]
    struct File {
        count: Option<u32>,
        #[serde(default)]
        rules: Vec<BTreeMap<String, f64>>,
        choice: Option<Choice>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "snake_case")]
    #[expect(dead_code, reason = "the fields are only parsed")]
    enum Choice {
        Quantile(f64),
        Costs { wait: f64, idle: f64 },
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(parse::<File>(text, "f").unwrap_err().to_string(), expected);
    }

    #[test]
    fn errors_name_line_field_and_value() {
        check("", "f: the file is empty");
        check("count: -1\n", "f:1: count: expected a whole number, 0 or more, got \"-1\"");
        check("count: x\n", "f:1: count: expected a whole number, 0 or more, got \"x\"");
        check("rules:\n- {a: 1}\n- b: x\n", "f:3: rules[1].b: expected a number, got \"x\"");
        check("{\"rules\": [{\"a\":\n[]}]}", "f:2: rules[0].a: expected a single value");
        check("count: 1\ncount: 2\n", "f:2: count: the field occurs twice");
        check("Count: 1\n", "f:1: Count: unknown field: did you mean count?");
        check("cont: 1\n", "f:1: cont: unknown field: did you mean count?");
        check("size: 1\n", "f:1: size: unknown field; the fields here are count, rules, choice");
        check(
            "choice: {quantile: 0.9, costs: {wait: 1, idle: 1}}\n",
            "f:1: choice.costs: give quantile or costs, not both",
        );
        check("choice:\n  costs: {wait: 1}\n", "f:2: choice.costs.idle: is missing");
        check("choice: {best: 1}\n", "f:1: choice.best: expected quantile or costs, got \"best\"");
        check("choice:\n  costs: {}\n", "f:2: choice.costs.wait: is missing");
        check("choice: {}\n", "f:1: choice: expected a field in it");
        check("count: 5000000000\n", "f:1: count: expected at most 4294967295, got \"5000000000\"");
        check("rules: 1\n", "f:1: rules: expected a list, got \"1\"");
        check("- 1\n", "f:1: expected a mapping of fields");
    }

    #[test]
    fn the_line_of_a_field_is_found_by_its_path() {
        let text = "count: 1\nrules:\n- {a: 1}\n- a: 1\n  b: 2\n";
        let lines = |path| line_of(text, path);
        assert_eq!(
            (lines("count"), lines("rules[1].b"), lines("rules[0].a")),
            (Some(1), Some(5), Some(3))
        );
        assert_eq!((lines("rules[1].c"), lines("other")), (Some(4), None));
    }

    #[test]
    fn lines_are_found_for_keys_with_dots_and_beside_numbers_that_are_not_finite() {
        let text = "rules:\n- {a: .nan}\n- a.b: 1\n  a.b[c]: 1e400\n";
        assert_eq!(line_of(text, "rules[1].a.b"), Some(3));
        assert_eq!(line_of(text, "rules[1].a.b[c]"), Some(4));
        assert!(has_field(text, "rules") && !has_field(text, "rule"));
    }
}
