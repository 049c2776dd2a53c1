//! The files that commands read: their paths, catalogs, prices and settings; and names of instance
//! types.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use base::input::{alike, read_text};
use clap::builder::{PathBufValueParser, TypedValueParser};
use instances::{CatalogFile, PriceRules, families, instance_types};
use simulator::SimulationSettings;
use traces::{Mapping, MappingFault};

/// Reads a catalog.
pub(super) fn catalog(path: &Path) -> anyhow::Result<CatalogFile> {
    catalog_with(path, None)
}

/// Reads a catalog, whose prices are these, if given.
pub(super) fn catalog_with(
    path: &Path,
    prices: Option<&PriceRules>,
) -> anyhow::Result<CatalogFile> {
    Ok(CatalogFile::parse_with(&text(path)?, &path.display().to_string(), prices)?)
}

/// A mapping of columns, as it was given.
///
/// # Errors
/// The text is no mapping.
pub(super) fn columns(text: &str) -> Result<String, MappingFault> {
    text.parse::<Mapping>().map(|_| text.to_owned())
}

/// Reads prices.
pub(super) fn prices(path: &Path) -> anyhow::Result<PriceRules> {
    Ok(PriceRules::parse(&text(path)?, &path.display().to_string())?)
}

/// Parses the name of an instance type of AWS.
pub(super) fn instance_type(name: &str) -> Result<String, String> {
    if instances::instance_type(name).is_some() {
        return Ok(name.into());
    }
    let family = name.split_once('.').map(|(family, _)| family);
    let all = || instance_types().iter();
    let mut near = alike(name, all().map(|known| known.name));
    if near.is_empty() {
        let of_family = all().filter(|known| Some(known.family()) == family);
        near = of_family.map(|known| known.name).collect();
    }
    Err(format!("{} Describe any other type with --catalog", not_known("instance type", &near)))
}

/// Parses the name of a family of AWS's instance types.
pub(super) fn family(name: &str) -> Result<String, String> {
    let all = families();
    if all.contains(&name) && instances::family(name).is_empty() {
        return Err("no price of this family is known".into());
    }
    if all.contains(&name) {
        return Ok(name.into());
    }
    let begins: Vec<&str> = all.iter().copied().filter(|known| known.starts_with(name)).collect();
    let near = if begins.is_empty() { alike(name, all.into_iter()) } else { begins };
    Err(not_known("family", &near))
}

/// Parses the name of an instance type of AWS, or of a family.
pub(super) fn type_or_family(name: &str) -> Result<String, String> {
    if name.contains('.') {
        instances::instance_type(name).map(|known| known.name.into()).ok_or_else(|| {
            let near = alike(name, instance_types().iter().map(|known| known.name));
            not_known("instance type", &near)
        })
    } else if families().contains(&name) {
        Ok(name.into())
    } else {
        family(name)
    }
}

fn not_known(what: &str, near: &[&str]) -> String {
    let unknown = format!("AWS has no {what} of this name");
    if near.is_empty() {
        unknown + "."
    } else {
        format!("{unknown}: did you mean {}?", near.join(", "))
    }
}

/// Parses an address to listen on: an IP address or a name, and a port.
pub(super) fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let resolved = text.to_socket_addrs().map(Iterator::collect::<Vec<_>>).unwrap_or_default();
    // A name such as localhost has several addresses, of which clients try IPv4, too.
    let found = resolved.iter().find(|address| address.is_ipv4()).or(resolved.first());
    found.copied().ok_or_else(|| {
        "expected the address of this machine and a port, such as 127.0.0.1:8090 or localhost:8090".into()
    })
}

/// Parses a share, such as `5%` or `0.05`. `None` if the text is none.
pub(super) fn share(text: &str) -> Option<f64> {
    let (number, unit) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    let parsed: Option<f64> = number.parse().ok();
    parsed.map(|number| number / unit).filter(|share| share.is_finite())
}

/// Reads settings.
pub(super) fn settings(path: &Path) -> anyhow::Result<SimulationSettings> {
    Ok(SimulationSettings::parse(&text(path)?, &path.display().to_string())?)
}

/// Reads a text file.
pub(super) fn text(path: &Path) -> anyhow::Result<String> {
    read_text(path).with_context(|| format!("failed to read {}", path.display()))
}

/// Parses the path of a file to read; `-` is standard input.
pub(super) fn file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().map(
        |path| {
            if path == Path::new("-") { "/dev/stdin".into() } else { path }
        },
    )
}
