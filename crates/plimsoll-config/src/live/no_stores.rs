//! Without the feature `redis` there are no stores: a file that names one is refused when it is checked.

use plimsoll::Clock;

use super::gates::Built;
use crate::check::Definition;
use crate::{Config, ConfigError};

/// No stores.
#[derive(Clone, Default)]
pub(crate) struct Stores {}

impl Stores {
    pub(super) fn of(
        _config: &Config,
        _before: &Config,
        _stores: &Self,
        _clock: &Clock,
    ) -> Result<Self, ConfigError> {
        Ok(Self {})
    }

    pub(super) fn build(&self, _definition: &Definition) -> Result<Built, String> {
        Err("there are no stores".to_owned())
    }
}
