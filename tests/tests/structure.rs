//! The structure of the sources: no file and no folder of a crate imports another in a circle,
//! client libraries are used only where they may be, and lines of prose wrap at 100 columns.
//!
//! Imports are read from the syntax trees. A name that is re-exported counts as imported from the
//! file that defines it, because a `mod.rs` only lists what its folder offers. Test code is left
//! out.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemFn, ItemImpl, ItemMod, ItemUse, UseTree, Visibility};

/// The crates whose structure is checked, with the folder of their sources: those of `crates/`, and
/// those at the top.
fn crates() -> Vec<(String, String)> {
    let mut folders: Vec<String> =
        ["embedder", "placeholders", "prophet", "tests"].map(str::to_owned).into();
    for entry in fs::read_dir(workspace().join("crates")).unwrap() {
        folders.push(format!("crates/{}", entry.unwrap().file_name().to_str().unwrap()));
    }
    let name = |folder: &str| folder.rsplit('/').next().unwrap().to_owned();
    folders.iter().map(|folder| (name(folder), format!("{folder}/src"))).collect()
}

/// Where an external crate may be used, within the crates whose `Cargo.toml` has it.
const CLIENTS: [(&str, &[&str]); 5] = [
    (
        "kube",
        &[
            "crates/controller/src/actuate.rs",
            "crates/controller/src/observe/",
            "crates/controller/src/crd/",
            "crates/controller/src/explain/",
            "crates/controller/src/cluster/",
            "prophet/src/cli/",
            "tests/",
        ],
    ),
    ("aws_sdk_autoscaling", &["crates/controller/src/catalog/aws/", "tests/"]),
    ("aws_sdk_ec2", &["crates/controller/src/catalog/aws/", "tests/"]),
    ("ort", &["crates/demand/src/forecast/onnx/"]),
    ("rten", &["crates/demand/src/forecast/onnx/"]),
];

/// One crate's sources: its modules by path, with the names that each brings into scope.
struct Crate {
    name: String,
    modules: BTreeMap<Vec<String>, Module>,
}

struct Module {
    /// Relative to the crate's sources.
    file: PathBuf,
    /// Names in scope by `use`: the path that each stands for.
    names: BTreeMap<String, Vec<String>>,
    /// Paths that the code names, as they are written.
    paths: BTreeSet<Vec<String>>,
}

impl Crate {
    fn read(name: String, sources: &Path) -> Self {
        let mut read = Self { name, modules: BTreeMap::new() };
        for root in ["lib.rs", "main.rs"] {
            if sources.join(root).exists() {
                // The binary counts as a module of the library that nothing imports.
                let module = if root == "lib.rs" { vec![] } else { vec!["main".to_owned()] };
                read.file(sources, Path::new(root), &module);
            }
        }
        read
    }

    fn file(&mut self, sources: &Path, file: &Path, module: &[String]) {
        let text = fs::read_to_string(sources.join(file)).unwrap();
        let parsed = syn::parse_file(&text).unwrap();
        self.items(sources, file, module, &parsed.items);
    }

    fn items(&mut self, sources: &Path, file: &Path, module: &[String], items: &[Item]) {
        let mut reader = Reader::default();
        for item in items {
            reader.visit_item(item);
        }
        let Reader { names, paths, children } = reader;
        self.modules.insert(module.to_vec(), Module { file: file.into(), names, paths });
        for child in children {
            let name = child.ident.to_string();
            let path = [module, std::slice::from_ref(&name)].concat();
            if let Some((_, items)) = &child.content {
                self.items(sources, file, &path, items);
                continue;
            }
            let stem = file.file_stem().unwrap();
            let folder = file.parent().unwrap();
            let folder = if stem == "mod" || stem == "lib" || stem == "main" {
                folder.to_owned()
            } else {
                folder.join(stem)
            };
            let candidates = [folder.join(format!("{name}.rs")), folder.join(&name).join("mod.rs")];
            let found = candidates.iter().find(|file| sources.join(file).exists()).unwrap();
            self.file(sources, found, &path);
        }
    }

    /// The file that defines what a path names, seen from a module; `None` outside the crate.
    fn defines(&self, module: &[String], path: &[String], depth: usize) -> Option<&Path> {
        // A path that resolves to itself belongs to an external crate.
        if depth > 20 {
            return None;
        }
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => self.within(vec![], rest, depth),
            "self" => self.within(module.to_vec(), rest, depth),
            "super" => self.within(module.split_last()?.1.to_vec(), rest, depth),
            name if name == self.name && !self.modules[module].names.contains_key(name) => {
                self.within(vec![], rest, depth)
            }
            name => {
                let child = [module, &[name.to_owned()]].concat();
                if self.modules.contains_key(&child) {
                    return self.within(child, rest, depth);
                }
                let target = self.modules[module].names.get(name)?;
                let path = [target.as_slice(), rest].concat();
                (path != *self.modules[module].names.get(&path[0]).unwrap_or(&vec![])
                    || path[0] != *name)
                    .then(|| self.defines(module, &path, depth + 1))?
            }
        }
    }

    fn within(&self, module: Vec<String>, rest: &[String], depth: usize) -> Option<&Path> {
        let (mut module, mut rest) = (module, rest);
        while let Some((first, after)) = rest.split_first() {
            if first == "super" {
                module.pop();
                rest = after;
                continue;
            }
            let child = [module.as_slice(), std::slice::from_ref(first)].concat();
            if !self.modules.contains_key(&child) {
                break;
            }
            (module, rest) = (child, after);
        }
        let Some((name, after)) = rest.split_first() else {
            // Importing a module is no use of it: only the items that the code names count.
            return None;
        };
        let here = self.modules.get(&module)?;
        match here.names.get(name) {
            Some(target) => {
                let path = [target.as_slice(), after].concat();
                self.defines(&module, &path, depth + 1)
            }
            None => Some(&here.file),
        }
    }

    /// Which file imports which, with a name that it takes.
    fn imports(&self) -> BTreeMap<(PathBuf, PathBuf), BTreeSet<String>> {
        let mut imports: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
        for (path, module) in &self.modules {
            for used in &module.paths {
                let Some(target) = self.defines(path, used, 0) else { continue };
                if target != module.file {
                    let pair = (module.file.clone(), target.to_owned());
                    imports.entry(pair).or_default().insert(used.join("::"));
                }
            }
        }
        imports
    }
}

/// Collects what the items of one module import and name.
#[derive(Default)]
struct Reader<'ast> {
    names: BTreeMap<String, Vec<String>>,
    paths: BTreeSet<Vec<String>>,
    children: Vec<&'ast ItemMod>,
}

impl<'ast> Visit<'ast> for Reader<'ast> {
    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Mod(ItemMod { attrs, .. })
            | Item::Use(ItemUse { attrs, .. })
            | Item::Fn(ItemFn { attrs, .. })
            | Item::Impl(ItemImpl { attrs, .. })
                if is_test(attrs) => {}
            Item::Mod(module) => self.children.push(module),
            Item::Use(import) => self.import(import),
            _ => visit::visit_item(self, item),
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_test(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            self.paths
                .insert(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }
}

impl Reader<'_> {
    fn import(&mut self, import: &ItemUse) {
        let mut leaves = Vec::new();
        leaves_of(&import.tree, &mut Vec::new(), &mut leaves);
        // A re-export alone is no import.
        let private = matches!(import.vis, Visibility::Inherited);
        for (name, path) in leaves {
            if private {
                self.paths.insert(path.clone());
            }
            self.names.insert(name, path);
        }
    }
}

fn leaves_of(tree: &UseTree, before: &mut Vec<String>, leaves: &mut Vec<(String, Vec<String>)>) {
    match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            leaves_of(&path.tree, before, leaves);
            before.pop();
        }
        UseTree::Name(name) if name.ident == "self" => {
            leaves.push((before.last().unwrap().clone(), before.clone()));
        }
        UseTree::Name(name) => {
            let name = name.ident.to_string();
            leaves.push((name.clone(), [before.as_slice(), &[name]].concat()));
        }
        UseTree::Rename(rename) => {
            let path = [before.as_slice(), &[rename.ident.to_string()]].concat();
            leaves.push((rename.rename.to_string(), path));
        }
        UseTree::Glob(_) => leaves.push(("*".into(), before.clone())),
        UseTree::Group(group) => {
            group.items.iter().for_each(|tree| leaves_of(tree, before, leaves));
        }
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    })
}

fn workspace() -> PathBuf {
    match std::env::var("WS") {
        Ok(p) => p.into(),
        _ => Path::new(env!("CARGO_MANIFEST_DIR")).join(".."),
    }
}

/// By folder: which of its files and subfolders imports which other, with examples.
fn arrows(
    imports: &BTreeMap<(PathBuf, PathBuf), BTreeSet<String>>,
) -> BTreeMap<PathBuf, BTreeMap<(String, String), Vec<String>>> {
    let mut rooms: BTreeMap<PathBuf, BTreeMap<(String, String), Vec<String>>> = BTreeMap::new();
    for ((from, to), names) in imports {
        let [mut of, mut at] =
            [from, to].map(|file| file.iter().map(|part| part.to_str().unwrap().to_owned()));
        let mut folder = PathBuf::new();
        loop {
            let pair = (of.next().unwrap(), at.next().unwrap());
            if pair.0 != pair.1 {
                let names: Vec<_> = names.iter().map(String::as_str).collect();
                let example =
                    format!("{} -> {}: {}", from.display(), to.display(), names.join(", "));
                rooms.entry(folder).or_default().entry(pair).or_default().push(example);
                break;
            }
            folder.push(pair.0);
        }
    }
    rooms
}

/// The imports that are part of a circle: those from whose target the source can be reached.
fn circular(arrows: &BTreeMap<(String, String), Vec<String>>) -> Vec<String> {
    let mut reach: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (from, to) in arrows.keys() {
        reach.entry(from).or_default().insert(to);
    }
    loop {
        let mut grown = false;
        for from in reach.keys().copied().collect::<Vec<_>>() {
            let far: BTreeSet<&str> =
                reach[from].iter().filter_map(|to| reach.get(to)).flatten().copied().collect();
            let near = reach.get_mut(from).unwrap();
            let before = near.len();
            near.extend(far);
            grown |= near.len() > before;
        }
        if !grown {
            break;
        }
    }
    let back = |(from, to): &(String, String)| {
        reach.get(to.as_str()).is_some_and(|far| far.contains(from.as_str()))
    };
    arrows
        .iter()
        .filter(|(pair, _)| back(pair))
        .flat_map(|(_, examples)| examples.clone())
        .collect()
}

#[test]
fn nothing_imports_another_in_a_circle() {
    let mut found = Vec::new();
    for (name, sources) in crates() {
        let read = Crate::read(name, &workspace().join(&sources));
        for (folder, arrows) in arrows(&read.imports()) {
            let circular = circular(&arrows);
            if !circular.is_empty() {
                found.push(format!(
                    "in {}:\n  {}",
                    Path::new(&sources).join(folder).display(),
                    circular.join("\n  ")
                ));
            }
        }
    }
    assert!(found.is_empty(), "imports in a circle\n{}", found.join("\n"));
}

#[test]
fn clients_stay_in_their_rooms() {
    let mut found = Vec::new();
    for (name, sources) in crates() {
        let read = Crate::read(name, &workspace().join(&sources));
        for module in read.modules.values() {
            let file = format!("{sources}/{}", module.file.display());
            let used = |outside: &str| module.paths.iter().any(|path| path[0] == outside);
            for (outside, allowed) in CLIENTS {
                if used(outside) && !allowed.iter().any(|room| file.starts_with(room)) {
                    found.push(format!("{file} imports {outside}"));
                }
            }
        }
        for (from, to) in read.imports().keys().filter(|(_, to)| to.starts_with("cli")) {
            if !from.starts_with("cli") && !from.starts_with("main.rs") {
                found.push(format!("{} imports {}", from.display(), to.display()));
            }
        }
    }
    assert!(found.is_empty(), "in the wrong room:\n{}", found.join("\n"));
}

/// Files whose prose is checked: comments of Rust sources, and Markdown.
fn prose(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            // Build outputs and Python environments are not part of the project.
            if !["target", "node_modules", "shared"].contains(&name.as_str())
                && !name.starts_with('.')
            {
                prose(&path, found);
            }
        } else if path.extension().is_some_and(|kind| kind == "rs" || kind == "md") {
            found.push(path);
        }
    }
}

#[test]
fn lines_of_prose_wrap_at_100_columns() {
    let mut files = Vec::new();
    prose(&workspace(), &mut files);
    files.sort();
    let mut long = Vec::new();
    for file in files {
        let (text, is_rust) =
            (fs::read_to_string(&file).unwrap(), file.extension().is_some_and(|e| e == "rs"));
        let mut fenced = false;
        for (at, line) in text.lines().enumerate() {
            fenced ^= line.trim_start().starts_with("```");
            let is_code = fenced || line.starts_with("    ") || line.starts_with('|');
            let is_prose = if is_rust { line.trim_start().starts_with("//") } else { !is_code };
            if is_prose && line.chars().count() > 100 && !line.contains("://") {
                long.push(format!("{}:{}", file.display(), at + 1));
            }
        }
    }
    assert!(long.is_empty(), "longer than 100 columns:\n{}", long.join("\n"));
}
