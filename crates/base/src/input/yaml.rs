//! Parses YAML and JSON. Errors name the file, the line, the field and the expected value.
//!
//! The parser reports the position of an error. A second pass over the text, made only after an
//! error, finds the path of the field at this position.

use serde::de::DeserializeOwned;
use serde_saphyr::granit_parser::{Event, Parser};
use serde_saphyr::{Error, MessageFormatter as _, UserMessageFormatter};

use super::is_alike;

/// The deepest nesting for which field paths are computed. The files of this program nest six
/// levels, and the limit bounds the memory of the paths.
const DEPTH_MAX: usize = 32;

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
    serde_saphyr::from_str(text).map_err(|error| fault(text, file, error.without_snippet()))
}

/// The line of the field with this path, such as `policies[2].name`, or of the nearest field around
/// it.
pub fn line_of(text: &str, field: &str) -> Option<u64> {
    let nodes = nodes(text);
    let mut path = field;
    loop {
        if let Some(node) = nodes.iter().rev().find(|node| node.field == path) {
            return Some(node.line);
        }
        path = &path[..path.rfind(['.', '['])?];
    }
}

/// Whether the text has this field at the top.
pub fn has_field(text: &str, field: &str) -> bool {
    nodes(text).iter().any(|node| node.field == field)
}

fn fault(text: &str, file: &str, error: &Error) -> YamlError {
    let place = error.location().map(|location| (location.line(), location.column()));
    let nodes = nodes(text);
    let node =
        nodes.iter().rfind(|node| place.is_some_and(|place| (node.line, node.column) <= place));
    let exact = node.filter(|node| Some((node.line, node.column)) == place);
    let (mut field, problem) = match exact {
        Some(node) => (node.field.clone(), problem(error, node)),
        None => (String::new(), problem(error, &Node::default())),
    };
    if let Error::ExpectedStringKeyForExternallyTaggedEnum { .. } = error {
        field = node.map_or(String::new(), |node| node.field.clone());
    }
    let mut line = place.map(|(line, _)| line).filter(|line| *line > 0);
    if let Error::SerdeMissingField { field: name, .. } = error {
        // The position is that of the last field of the mapping.
        let around =
            node.map_or("", |node| if node.is_mapping { &node.field } else { &node.around });
        line = nodes.iter().rfind(|node| node.field == around).map(|node| node.line).or(line);
        field = if around.is_empty() { (*name).into() } else { format!("{around}.{name}") };
    }
    YamlError::new(file, line, &field, problem)
}

fn problem(error: &Error, node: &Node) -> String {
    let got = match &node.value {
        Some(value) => format!(", got {:?}", value.chars().take(80).collect::<String>()),
        None => String::new(),
    };
    match error {
        Error::InvalidScalar { ty: "u32", .. } if is_digits(node) => {
            format!("expected at most {}{got}", u32::MAX)
        }
        Error::InvalidScalar { ty: "u64", .. } if is_digits(node) => {
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
        Error::ExpectedMappingEndAfterEnumVariantValue { .. } => {
            let (Some(first), Some(second)) = (&node.first_key, &node.value) else {
                return "expected one field".into();
            };
            format!("give {first} or {second}, not both")
        }
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

fn is_digits(node: &Node) -> bool {
    node.value.as_ref().is_some_and(|value| value.bytes().all(|byte| byte.is_ascii_digit()))
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

/// A key or a value of a text, and its place.
#[derive(Debug, Default)]
struct Node {
    line: u64,
    column: u64,
    /// The path, such as `policies[2].name`. That of a key is the path of its value.
    field: String,
    /// The path of the mapping or list that it is in.
    around: String,
    is_mapping: bool,
    /// The text of a key or of a single value.
    value: Option<String>,
    /// Of a key, the first key of its mapping.
    first_key: Option<String>,
}

/// A mapping or a list that is open.
struct Frame {
    field: String,
    /// In a list, the number of values so far.
    index: Option<usize>,
    /// In a mapping, the key whose value is next.
    key: Option<String>,
    first_key: Option<String>,
}

impl Frame {
    /// The path of the next value.
    fn next_field(&self) -> String {
        match (self.index, &self.key) {
            (Some(index), _) => format!("{}[{index}]", self.field),
            (None, Some(key)) if self.field.is_empty() => key.clone(),
            (None, Some(key)) => format!("{}.{key}", self.field),
            (None, None) => self.field.clone(),
        }
    }
}

/// The keys and values of a text, in their order, up to the first syntax error.
fn nodes(text: &str) -> Vec<Node> {
    let mut nodes = Vec::new();
    let mut open: Vec<Frame> = Vec::new();
    for event in Parser::new_from_str(text) {
        let Ok((event, span)) = event else { break };
        let opened = matches!(event, Event::SequenceStart(..) | Event::MappingStart(..));
        let is_mapping = matches!(event, Event::MappingStart(..));
        let value = match &event {
            Event::Scalar(value, ..) => Some(value.to_string()),
            _ => None,
        };
        match event {
            Event::SequenceEnd | Event::MappingEnd => {
                open.pop();
                close_value(&mut open);
            }
            Event::Scalar(..)
            | Event::Alias(_)
            | Event::SequenceStart(..)
            | Event::MappingStart(..) => {
                let around = open.last().map_or(String::new(), |frame| frame.field.clone());
                let (line, column) = (span.start.line() as u64, span.start.col() as u64 + 1);
                let is_key = |frame: &&mut Frame| frame.index.is_none() && frame.key.is_none();
                if let Some(frame) = open.last_mut().filter(is_key) {
                    let key = value.clone().unwrap_or_default();
                    let first_key =
                        Some(frame.first_key.get_or_insert_with(|| key.clone()).clone());
                    frame.key = Some(key);
                    let field = frame.next_field();
                    nodes.push(Node {
                        line,
                        column,
                        field,
                        around,
                        is_mapping: false,
                        value,
                        first_key,
                    });
                } else {
                    let field = open.last().map_or(String::new(), Frame::next_field);
                    if opened {
                        let index = matches!(event, Event::SequenceStart(..)).then_some(0);
                        let frame =
                            Frame { field: field.clone(), index, key: None, first_key: None };
                        open.push(frame);
                    } else {
                        close_value(&mut open);
                    }
                    nodes.push(Node {
                        line,
                        column,
                        field,
                        around,
                        is_mapping,
                        value,
                        first_key: None,
                    });
                }
            }
            _ => {}
        }
        if open.len() > DEPTH_MAX {
            break;
        }
    }
    nodes
}

/// Moves the innermost open mapping or list past a value.
fn close_value(open: &mut [Frame]) {
    if let Some(frame) = open.last_mut() {
        frame.key = None;
        frame.index = frame.index.map(|index| index + 1);
    }
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
}
