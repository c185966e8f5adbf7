use std::fmt;
use std::path::{Path, PathBuf};

use plimsoll_scenario::reader::{Read, text_of};

use crate::check::{Definition, Plan, plan};
use crate::place::Places;
use crate::spec::{File, Limiter, Store};
use crate::{ConfigError, Format, de, effective};

/// A configuration file that has been read and checked.
///
/// ```
/// use plimsoll_config::{Config, Format};
///
/// let config = Config::from_str("limits.yaml", "limiters: { api: { kind: concurrency, limit: 4 } }", Format::Yaml)?;
/// assert_eq!(config.limiters().collect::<Vec<_>>(), ["api"]);
///
/// let error = Config::from_str("limits.yaml", "limiters: { api: { kind: concurency } }", Format::Yaml).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     r#"limits.yaml:1:26: limiters.api.kind: unknown word "concurency", did you mean `concurrency`?"#
/// );
/// # Ok::<(), plimsoll_config::ConfigError>(())
/// ```
///
/// Printed, it is YAML in which every default is filled in, and which reads as the same configuration; but for passwords
/// in the addresses of stores, which are not printed.
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) file: PathBuf,
    pub(crate) spec: File,
    pub(crate) plan: Plan,
}

impl Config {
    /// Reads a file, in the format that [its name](Format::of) says.
    ///
    /// # Errors
    ///
    /// If it cannot be opened, or something in it is wrong.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let path = path.as_ref();
        Self::from_str(path, &text_of(path)?, Format::of(path))
    }

    /// Reads `text`; `path` is only for the messages.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong in it, with its place.
    pub fn from_str(
        path: impl AsRef<Path>,
        text: &str,
        format: Format,
    ) -> Result<Self, ConfigError> {
        let path = path.as_ref();
        let (spec, plan) =
            read(text, format).map_err(|problem| ConfigError::problem(path, problem))?;
        Ok(Self {
            file: path.to_owned(),
            spec,
            plan,
        })
    }

    /// The names of the limiters, in the order of the file.
    pub fn limiters(&self) -> impl Iterator<Item = &str> {
        self.spec.limiters.iter().map(|(name, _)| name)
    }

    /// The names of the providers, in the order of the file.
    pub fn providers(&self) -> impl Iterator<Item = &str> {
        self.spec.providers.iter().map(|(name, _)| name)
    }

    /// How many routes there are.
    #[must_use]
    pub fn routes(&self) -> usize {
        self.spec.routes.len()
    }

    /// The store that keeps a limiter, if one does.
    pub(crate) fn store_of(&self, definition: &Definition) -> Option<&Store> {
        let store = definition.limiter.common.store.as_ref()?;
        self.spec.stores.get(&store.0)
    }

    pub(crate) fn definition(&self, id: &str) -> Option<&Definition> {
        let index = self.plan.by_id.get(id)?;
        self.plan.definitions.get(*index)
    }
}

fn read(text: &str, format: Format) -> Read<(File, Plan)> {
    let root = format.tree(text)?;
    let mut file: File = de::read(&root)?;
    file.limiters.values_mut().for_each(Limiter::fill);
    let plan = plan(&file, &Places::of(&root))?;
    Ok((file, plan))
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        effective::write(self, f)
    }
}
