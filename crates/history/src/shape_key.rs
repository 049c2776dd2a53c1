//! Converts a shape to its key, the text that files contain, and back.
//!
//! A [`ShapeId`](demand::record::ShapeId) identifies a shape within one process only, so files
//! contain the key instead. Examples are `cpu_millis=4000,memory_bytes=8589934592,pods=1` and
//! `accelerators=1,cpu_millis=4000,pods=1;kind=nvidia.com/gpu;admits=g4dn.xlarge|g4dn.2xlarge`.

use demand::record::canonical;
use embedder::{
    AcceleratorKind, BucketSet, CapacityType, Catalog, Devices, Resource, Resources, Shape,
};

/// The key of a shape.
///
/// The key omits resources and devices that the shape does not request, the accelerator kind if it
/// requests no accelerators, and the buckets if they are those that admit a pod without
/// constraints: all on-demand buckets, or all buckets if none is on demand.
pub fn shape_key(shape: &Shape, catalog: &Catalog) -> String {
    let requests = Resource::ALL
        .into_iter()
        .zip(shape.requests.components())
        .filter(|(_, amount)| *amount > 0);
    let requests: Vec<String> =
        requests.map(|(resource, amount)| format!("{}={amount}", resource.label())).collect();
    let mut key = requests.join(",");
    let devices = catalog.devices().iter().enumerate();
    let devices = devices.map(|(at, name)| (name, shape.requests.devices.get(at)));
    let devices: Vec<String> = devices
        .filter(|(_, amount)| *amount > 0)
        .map(|(name, amount)| format!("{}={amount}", escaped(name)))
        .collect();
    if !devices.is_empty() {
        key.push_str(";devices=");
        key.push_str(&devices.join("|"));
    }
    if shape.requests.accelerators > 0 {
        key.push_str(";kind=");
        key.push_str(&escaped(shape.accelerator_kind.as_str()));
    }
    let unnamed = unnamed(catalog);
    if (0..catalog.len()).any(|id| shape.admits.contains(id) != unnamed.contains(id)) {
        let admitting =
            catalog.buckets().iter().enumerate().filter(|(id, _)| shape.admits.contains(*id));
        let names: Vec<String> = admitting.map(|(_, bucket)| escaped(&bucket.name)).collect();
        key.push_str(";admits=");
        key.push_str(&names.join("|"));
    }
    key
}

/// The buckets of a shape whose key names none.
///
/// Spot buckets are not among them, because only pods that tolerate interruption get one. So a spot
/// group that is new to a cluster gets no share of the arrivals that were recorded before, nor do
/// the arrivals of builds for which spot buckets admitted every pod.
fn unnamed(catalog: &Catalog) -> BucketSet {
    let on_demand = |&id: &usize| catalog.buckets()[id].capacity_type == CapacityType::OnDemand;
    let ids: Vec<usize> = (0..catalog.len()).filter(on_demand).collect();
    if ids.is_empty() { BucketSet::all() } else { set(ids, catalog) }
}

/// The set of these buckets, in the one form in which a set of all buckets has.
fn set(ids: Vec<usize>, catalog: &Catalog) -> BucketSet {
    let set = BucketSet::only(ids);
    if (0..catalog.len()).all(|id| set.contains(id)) { BucketSet::all() } else { set }
}

/// Why a text is not the key of a shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeKeyError {
    /// A part that is not `resource=amount`, such as `cpu_millis=4000`.
    #[error("expected RESOURCE=AMOUNT in a shape, got {0:?}")]
    PodRequest(String),
    /// A device that is not `name=amount`, such as `vpc.amazonaws.com/efa=1`.
    #[error("expected NAME=AMOUNT after devices= in a shape, got {0:?}")]
    Device(String),
    /// A part after `;` that is none of `kind=`, `devices=` and `admits=`.
    #[error("expected kind=, devices= or admits= in a shape, got {0:?}")]
    Part(String),
    /// Accelerators without their kind.
    #[error("a shape with accelerators needs kind=, got {0:?}")]
    NoKind(String),
}

/// The shape of a key, with the buckets of the catalog that its names denote
/// ([`Catalog::named`]).
///
/// # Errors
/// Returns an error with the part that cannot be parsed.
pub fn parse_shape_key(key: &str, catalog: &Catalog) -> Result<Shape, ShapeKeyError> {
    let mut parts = key.split(';');
    let mut requests = parse_requests(parts.next().unwrap_or_default())?;
    let (mut kind, mut admits) = (None, unnamed(catalog));
    for part in parts {
        if let Some(name) = part.strip_prefix("kind=") {
            kind = Some(AcceleratorKind::new(&unescaped(name)));
        } else if let Some(devices) = part.strip_prefix("devices=") {
            requests.devices = parse_devices(devices, catalog)?;
        } else if let Some(names) = part.strip_prefix("admits=") {
            let ids = names.split('|').flat_map(|name| catalog.named(&unescaped(name)));
            admits = set(ids.collect(), catalog);
        } else {
            return Err(ShapeKeyError::Part(part.into()));
        }
    }
    if requests.accelerators > 0 && kind.is_none() {
        return Err(ShapeKeyError::NoKind(key.into()));
    }
    Ok(canonical(&Shape { requests, accelerator_kind: kind.unwrap_or_default(), admits }))
}

/// The amounts of devices. A device that is no longer on offer is omitted.
fn parse_devices(text: &str, catalog: &Catalog) -> Result<Devices, ShapeKeyError> {
    let mut devices = Devices::NONE;
    for device in text.split('|') {
        let fault = || ShapeKeyError::Device(device.into());
        let (name, amount) = device.rsplit_once('=').ok_or_else(fault)?;
        let amount = amount.parse().map_err(|_| fault())?;
        let name = unescaped(name);
        if let Some(at) = catalog.devices().iter().position(|device| *device == name) {
            devices.set(at, amount);
        }
    }
    Ok(devices)
}

fn parse_requests(text: &str) -> Result<Resources, ShapeKeyError> {
    let mut requests = [0; 5];
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let fault = || ShapeKeyError::PodRequest(part.into());
        let (label, amount) = part.split_once('=').ok_or_else(fault)?;
        let at = Resource::ALL
            .iter()
            .position(|resource| resource.label() == label)
            .ok_or_else(fault)?;
        requests[at] = amount.parse().map_err(|_| fault())?;
    }
    Ok(Resources::of(requests))
}

/// Characters that separate parts and names, and `%`, each with its escape within a name.
const ESCAPES: [(char, &str); 3] = [('%', "%25"), (';', "%3B"), ('|', "%7C")];

fn escaped(name: &str) -> String {
    ESCAPES.iter().fold(name.to_owned(), |text, (from, to)| text.replace(*from, to))
}

fn unescaped(text: &str) -> String {
    ESCAPES
        .iter()
        .rev()
        .fold(text.to_owned(), |text, (to, from)| text.replace(from, &to.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::catalog;

    const GPU: Resources = Resources {
        devices: embedder::Devices::NONE,
        accelerators: 1,
        cpu_millis: 4_000,
        memory_bytes: 8 << 30,
        ephemeral_bytes: 0,
        pods: 1,
    };

    #[track_caller]
    fn check(shape: &Shape, key: &str) {
        let catalog = catalog(&["a", "b", "odd|;%7C"]);
        assert_eq!(shape_key(shape, &catalog), key);
        assert_eq!(parse_shape_key(key, &catalog).as_ref(), Ok(shape));
    }

    #[test]
    fn a_key_holds_all_properties_of_a_shape() {
        let kind = AcceleratorKind::new(AcceleratorKind::NVIDIA);
        check(
            &Shape { requests: GPU, accelerator_kind: kind, admits: BucketSet::only([0, 2]) },
            "accelerators=1,cpu_millis=4000,memory_bytes=8589934592,pods=1;kind=nvidia.com/gpu;admits=a|odd%7C%3B%257C",
        );
        let plain = testkit::cpus(500);
        check(&testkit::shape(plain), "cpu_millis=500,pods=1");
        let nowhere = Shape { admits: BucketSet::none(), ..testkit::shape(plain) };
        check(&nowhere, "cpu_millis=500,pods=1;admits=");
    }

    /// Checks the key of a shape that these buckets admit, and the buckets of that key.
    #[track_caller]
    fn check_admits(buckets: &[&str], admits: BucketSet, key: &str) {
        let catalog = catalog(buckets);
        let plain = testkit::cpus(500);
        let shape = Shape { admits, ..testkit::shape(plain) };
        assert_eq!(shape_key(&shape, &catalog), key);
        assert_eq!(parse_shape_key(key, &catalog), Ok(shape));
    }

    #[test]
    fn a_key_without_names_denotes_the_buckets_on_demand() {
        let plain = "cpu_millis=500,pods=1";
        check_admits(&["a", "b"], BucketSet::all(), plain);
        check_admits(&["a", "a/spot"], BucketSet::only([0]), plain);
        check_admits(&["a", "a/spot"], BucketSet::all(), &format!("{plain};admits=a|a/spot"));
        check_admits(&["a", "a/spot"], BucketSet::only([1]), &format!("{plain};admits=a/spot"));
        check_admits(&["a/spot", "b/spot"], BucketSet::all(), plain);
    }

    #[test]
    fn a_key_has_the_amounts_of_devices_by_name() {
        let buckets = catalog(&["a"]).buckets().to_vec();
        let names = ["hugepages-2Mi", "vpc.amazonaws.com/efa"].map(str::to_owned);
        let with = Catalog::with_devices(buckets, names.into()).unwrap();
        let mut requests = testkit::cpus(500);
        requests.devices.set(1, 4);
        let shape = testkit::shape(requests);
        let key = "cpu_millis=500,pods=1;devices=vpc.amazonaws.com/efa=4";
        assert_eq!(shape_key(&shape, &with), key);
        assert_eq!(parse_shape_key(key, &with), Ok(shape));
        let without = parse_shape_key(key, &catalog(&["a"])).unwrap();
        assert!(without.requests.devices.is_none());
        let invalid = parse_shape_key("pods=1;devices=efa", &with).unwrap_err().to_string();
        assert_eq!(invalid, "expected NAME=AMOUNT after devices= in a shape, got \"efa\"");
    }

    #[test]
    fn a_bucket_that_is_no_longer_on_offer_is_omitted() {
        let shape = parse_shape_key("pods=1;admits=gone|b", &catalog(&["a", "b"])).unwrap();
        assert_eq!(shape.admits, BucketSet::only([1]));
    }

    #[test]
    fn an_invalid_key_is_refused_with_the_invalid_part() {
        let refused = |key: &str| parse_shape_key(key, &catalog(&["a"])).unwrap_err().to_string();
        assert_eq!(refused("cpu=4"), "expected RESOURCE=AMOUNT in a shape, got \"cpu=4\"");
        assert_eq!(refused("pods=one"), "expected RESOURCE=AMOUNT in a shape, got \"pods=one\"");
        assert_eq!(
            refused("pods=1;zone=x"),
            "expected kind=, devices= or admits= in a shape, got \"zone=x\""
        );
        assert_eq!(
            refused("accelerators=1"),
            "a shape with accelerators needs kind=, got \"accelerators=1\""
        );
    }
}
