//! Files that users give: their kind, their text, and what is wrong in them.
//!
//! ```text
//! alike.rs   names that were probably meant
//! header.rs  the header of a CSV file
//! kind.rs    what a file is that is not plain text
//! text.rs    a text file of bounded size
//! yaml.rs    YAML and JSON, with errors that name file, line and field
//! ```

mod alike;
mod header;
mod kind;
mod text;
mod yaml;

pub(crate) use alike::is_alike;
pub use alike::{alike, instead_of};
pub use header::{header_faults, other_separator};
pub use kind::FileKind;
pub use text::{is_a_folder, read_text};
pub use yaml::{YamlError, has_field, line_of, parse, to_yaml};
