//! Values by name.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Values with names, in the order of the file, with a lookup by name.
///
/// ```
/// use plimsoll_spec::{Count, Named, Units, document, read_one};
///
/// let root = document("{ live: 7, batch: 3 }", "weights")?;
/// let mut weights: Named<Count> = read_one(&root, Units::Required)?;
/// weights.push("spare".to_owned(), Count(1));
/// assert_eq!(weights.get("batch"), Some(&Count(3)));
/// assert_eq!(weights.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["live", "batch", "spare"]);
/// # Ok::<(), plimsoll_spec::Problem>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Named<T> {
    entries: Vec<(String, T)>,
    by_name: HashMap<String, usize>,
}

impl<T> Named<T> {
    /// Returns whether there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the value of this name. `None` if there is none.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&T> {
        let index = self.by_name.get(name)?;
        self.entries.get(*index).map(|(_, value)| value)
    }

    /// Returns the values, in the order of the file.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().map(|(_, value)| value)
    }

    /// Adds a value at the end. A value of the same name is replaced, in its place.
    pub fn push(&mut self, name: String, value: T) {
        match self.by_name.get(&name) {
            Some(index) => self.entries[*index].1 = value,
            None => {
                self.by_name.insert(name.clone(), self.entries.len());
                self.entries.push((name, value));
            }
        }
    }

    /// Returns the names and values, owned, in the order of the file.
    pub fn into_entries(self) -> impl Iterator<Item = (String, T)> {
        self.entries.into_iter()
    }

    /// Returns the names and values, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        let entries = self.entries.iter();
        entries.map(|(name, value)| (name.as_str(), value))
    }
}

impl<T> Default for Named<T> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            by_name: HashMap::new(),
        }
    }
}

impl<T: Serialize> Serialize for Named<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.len()))?;
        for (name, value) in self.iter() {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = Named<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of names")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Named<T>, A::Error> {
                let mut named = Named::default();
                while let Some((name, value)) = map.next_entry::<String, T>()? {
                    named.push(name, value);
                }
                Ok(named)
            }
        }

        deserializer.deserialize_map(Entries(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for Named<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Named{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "propertyNames": { "pattern": "^[A-Za-z0-9_.-]{1,64}$" },
            "additionalProperties": generator.subschema_for::<T>(),
        })
    }
}
