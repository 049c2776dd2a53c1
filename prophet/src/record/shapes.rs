//! Shapes by number while we run, and by a text that says all about them in files.
//!
//! A [`ShapeId`] means something to one run only: it is the place of a shape in the order in which shapes were first seen.
//! What lasts is the key, such as `cpu_millis=4000,memory_bytes=8589934592,pods=1` or
//! `accelerators=1,cpu_millis=4000,pods=1;kind=nvidia.com/gpu;admits=g4dn.xlarge|g4dn.2xlarge`.

use std::collections::HashMap;

use embedder::{AcceleratorKind, BucketSet, Catalog, Resource, Resources, Shape};

use super::ShapeId;

/// Shapes that a run may hold: five times what a cluster of a million pods was seen to have. A job that asks for a
/// slightly different amount each time must not fill the memory.
const SHAPES_MAX: usize = 10_000;

/// The shapes of a run, each by its [`ShapeId`].
///
/// A shape names buckets by their place in one catalog. When the catalog changes, start anew and replay the history.
#[derive(Clone, Debug, Default)]
pub struct Shapes {
    ids: HashMap<Shape, ShapeId>,
    by_id: Vec<Shape>,
    /// Keys that were read: most lines of a history have the same.
    read: HashMap<String, ShapeId>,
}

impl Shapes {
    /// The number of a shape, and whether it was seen for the first time; `None` when it is new and there is no room
    /// for another.
    pub fn intern(&mut self, shape: &Shape) -> Option<(ShapeId, bool)> {
        let shape = canonical(shape);
        if let Some(id) = self.ids.get(&shape) {
            return Some((*id, false));
        }
        let id = ShapeId::try_from(self.by_id.len()).ok().filter(|_| self.by_id.len() < SHAPES_MAX)?;
        self.ids.insert(shape.clone(), id);
        self.by_id.push(shape);
        Some((id, true))
    }

    /// As [`Shapes::intern`], by the key; `None`, too, when it cannot be read. The catalog must always be the same.
    pub(super) fn intern_key(&mut self, key: &str, catalog: &Catalog) -> Option<(ShapeId, bool)> {
        if let Some(id) = self.read.get(key) {
            return Some((*id, false));
        }
        let interned = self.intern(&parse_shape_key(key, catalog).ok()?)?;
        // Different keys may be one shape, so that there may be more of them.
        if self.read.len() < SHAPES_MAX {
            self.read.insert(key.into(), interned.0);
        }
        Some(interned)
    }

    /// The shape of a number.
    pub fn get(&self, id: ShapeId) -> Option<&Shape> {
        self.by_id.get(id as usize)
    }

    /// How many shapes there are.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there is none yet.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }
}

/// Without a kind where it means nothing, so that one key is one shape.
fn canonical(shape: &Shape) -> Shape {
    let mut shape = shape.clone();
    if shape.asks.accelerators == 0 {
        shape.accelerator_kind = AcceleratorKind::default();
    }
    shape
}

/// The text of a shape that files use. What it asks nothing of is left out, as is the kind where it asks for no
/// accelerators, and the buckets where all admit it.
pub fn shape_key(shape: &Shape, catalog: &Catalog) -> String {
    let asks = Resource::ALL.into_iter().zip(shape.asks.components()).filter(|(_, amount)| *amount > 0);
    let asks: Vec<String> = asks.map(|(resource, amount)| format!("{}={amount}", resource.label())).collect();
    let mut key = asks.join(",");
    if shape.asks.accelerators > 0 {
        key.push_str(";kind=");
        key.push_str(&escaped(shape.accelerator_kind.as_str()));
    }
    if shape.admits != BucketSet::all() {
        let admitting = catalog.buckets().iter().enumerate().filter(|(id, _)| shape.admits.contains(*id));
        let names: Vec<String> = admitting.map(|(_, bucket)| escaped(&bucket.name)).collect();
        key.push_str(";admits=");
        key.push_str(&names.join("|"));
    }
    key
}

/// Why a text is no shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeKeyError {
    /// A part that is not `resource=amount`, such as `cpu_millis=4000`.
    #[error("expected RESOURCE=AMOUNT in a shape, got {0:?}")]
    Ask(String),
    /// A part after `;` that is neither `kind=` nor `admits=`.
    #[error("expected kind= or admits= in a shape, got {0:?}")]
    Part(String),
    /// Accelerators without their kind.
    #[error("a shape with accelerators needs kind=, got {0:?}")]
    NoKind(String),
}

/// The shape of a text. A bucket that the catalog does not have is left out.
///
/// # Errors
/// The part that cannot be read.
pub fn parse_shape_key(key: &str, catalog: &Catalog) -> Result<Shape, ShapeKeyError> {
    let mut parts = key.split(';');
    let asks = parse_asks(parts.next().unwrap_or_default())?;
    let (mut kind, mut admits) = (None, BucketSet::all());
    for part in parts {
        if let Some(name) = part.strip_prefix("kind=") {
            kind = Some(AcceleratorKind::new(&unescaped(name)));
        } else if let Some(names) = part.strip_prefix("admits=") {
            let id = |name: &str| {
                let name = unescaped(name);
                catalog.buckets().iter().position(|bucket| bucket.name == name)
            };
            admits = BucketSet::only(names.split('|').filter_map(id));
        } else {
            return Err(ShapeKeyError::Part(part.into()));
        }
    }
    if asks.accelerators > 0 && kind.is_none() {
        return Err(ShapeKeyError::NoKind(key.into()));
    }
    Ok(canonical(&Shape { asks, accelerator_kind: kind.unwrap_or_default(), admits }))
}

fn parse_asks(text: &str) -> Result<Resources, ShapeKeyError> {
    let mut asks = [0; 5];
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let fault = || ShapeKeyError::Ask(part.into());
        let (label, amount) = part.split_once('=').ok_or_else(fault)?;
        let at = Resource::ALL.iter().position(|resource| resource.label() == label).ok_or_else(fault)?;
        asks[at] = amount.parse().map_err(|_| fault())?;
    }
    Ok(Resources::of(asks))
}

/// What separates parts and names may not stand in a name.
const ESCAPES: [(char, &str); 3] = [('%', "%25"), (';', "%3B"), ('|', "%7C")];

fn escaped(name: &str) -> String {
    ESCAPES.iter().fold(name.to_owned(), |text, (from, to)| text.replace(*from, to))
}

fn unescaped(text: &str) -> String {
    ESCAPES.iter().rev().fold(text.to_owned(), |text, (to, from)| text.replace(from, &to.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::samples::catalog;

    const GPU: Resources =
        Resources { accelerators: 1, cpu_millis: 4_000, memory_bytes: 8 << 30, ephemeral_bytes: 0, pods: 1 };

    #[track_caller]
    fn check(shape: &Shape, key: &str) {
        let catalog = catalog(&["a", "b", "odd|;%7C"]);
        assert_eq!(shape_key(shape, &catalog), key);
        assert_eq!(parse_shape_key(key, &catalog).as_ref(), Ok(shape));
    }

    #[test]
    fn a_key_says_all_about_a_shape() {
        let kind = AcceleratorKind::new(AcceleratorKind::NVIDIA);
        check(
            &Shape { asks: GPU, accelerator_kind: kind, admits: BucketSet::only([0, 2]) },
            "accelerators=1,cpu_millis=4000,memory_bytes=8589934592,pods=1;kind=nvidia.com/gpu;admits=a|odd%7C%3B%257C",
        );
        let plain = Resources { cpu_millis: 500, ..Resources::default() };
        check(&Shape::new(plain, AcceleratorKind::default()), "cpu_millis=500,pods=1");
        let nowhere = Shape { admits: BucketSet::none(), ..Shape::new(plain, AcceleratorKind::default()) };
        check(&nowhere, "cpu_millis=500,pods=1;admits=");
    }

    #[test]
    fn a_bucket_that_vanished_is_left_out() {
        let shape = parse_shape_key("pods=1;admits=gone|b", &catalog(&["a", "b"])).unwrap();
        assert_eq!(shape.admits, BucketSet::only([1]));
    }

    #[test]
    fn what_is_no_shape_is_refused_with_the_part_at_fault() {
        let refused = |key: &str| parse_shape_key(key, &catalog(&["a"])).unwrap_err().to_string();
        assert_eq!(refused("cpu=4"), "expected RESOURCE=AMOUNT in a shape, got \"cpu=4\"");
        assert_eq!(refused("pods=one"), "expected RESOURCE=AMOUNT in a shape, got \"pods=one\"");
        assert_eq!(refused("pods=1;zone=x"), "expected kind= or admits= in a shape, got \"zone=x\"");
        assert_eq!(
            refused("accelerators=1"),
            "a shape with accelerators needs kind=, got \"accelerators=1\""
        );
    }

    #[test]
    fn shapes_are_numbered_as_they_are_seen_and_bounded() {
        let mut shapes = Shapes::default();
        let shape = |cpu_millis: u64, kind: &str| {
            Shape::new(Resources { cpu_millis, ..Resources::default() }, AcceleratorKind::new(kind))
        };
        assert_eq!(shapes.intern(&shape(7, "x")), Some((0, true)));
        assert_eq!(
            shapes.intern(&shape(7, "y")),
            Some((0, false)),
            "the kind of no accelerators means nothing"
        );
        for cpu_millis in 1..SHAPES_MAX as u64 {
            assert!(shapes.intern(&shape(10 + cpu_millis, "x")).is_some_and(|(_, new)| new));
        }
        assert_eq!(shapes.intern(&shape(5, "x")), None);
        assert_eq!(shapes.intern(&shape(11, "x")), Some((1, false)));
        assert_eq!((shapes.len(), shapes.is_empty()), (SHAPES_MAX, false));
    }
}
