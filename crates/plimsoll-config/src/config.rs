use std::fmt;
use std::path::{Path, PathBuf};

use plimsoll_policy::PoliciesBuilder;
use plimsoll_spec::{Place, Places, Problem, Store, Units, text_of};

use crate::check::{Context, Definition, Plan, plan};
use crate::client::ClientSpec;
use crate::expand::expand;
use crate::gateway::GatewaySpec;
use crate::partner::PartnerSpec;
use crate::route::RouteSpec;
use crate::serve::ServeSpec;
use crate::source::Source;
use crate::spec::File;
use crate::uses::{AnswerSpec, Use};
use crate::{ConfigError, Format, effective};

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
/// `Display` prints YAML with every default filled in. It reads as the same configuration, except for passwords in the
/// addresses of stores, which are not printed.
#[derive(Clone, Debug)]
pub struct Config {
    /// The file itself, and the files that it includes.
    files: Vec<PathBuf>,
    pub(crate) spec: File,
    pub(crate) plan: Plan,
    warnings: Vec<Problem>,
}

impl Config {
    /// Reads a file. [Its name](Format::of) determines the format.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read or has mistakes. The error has all of them, each with its place: see
    /// [`ConfigError::lines`].
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let path = path.as_ref();
        Self::from_str(path, &text_of(path)?, Format::of(path))
    }

    /// Reads `text`. `path` is used in messages, and as the base of the paths in `include`.
    ///
    /// # Errors
    ///
    /// Returns all mistakes, each with its place: see [`ConfigError::lines`].
    pub fn from_str(
        path: impl AsRef<Path>,
        text: &str,
        format: Format,
    ) -> Result<Self, ConfigError> {
        let path = path.as_ref();
        let source = Source::read(path, text, format);
        let (read, problems) = read(&source);
        match (ConfigError::problems(&source.files, problems), read) {
            (None, Some((spec, plan, warnings))) => Ok(Self {
                files: source.files,
                spec,
                plan,
                warnings,
            }),
            (error, _) => Err(error.unwrap_or_else(|| {
                ConfigError::problem(path, Problem::new(Place::START, "nothing can be read"))
            })),
        }
    }

    /// Returns the effective configuration as JSON, on one line. Every default is filled in, all limiters are in
    /// `limits`, each with its `class`, and `asks` of each route lists its limits and providers. Later versions may add
    /// fields, but do not rename any.
    ///
    /// ```
    /// use plimsoll_config::{Config, Format};
    ///
    /// let config = Config::from_str("limits.yaml", "limits: { disk: { concurrency: 4 } }", Format::Yaml)?;
    /// assert_eq!(
    ///     config.to_json(),
    ///     r#"{"limits":{"disk":{"class":"resource","keyed":false,"kind":"concurrency","limit":4}}}"#
    /// );
    /// # Ok::<(), plimsoll_config::ConfigError>(())
    /// ```
    #[must_use]
    pub fn to_json(&self) -> String {
        effective::json(&self.spec, &self.plan).to_string()
    }

    /// Returns the same configuration with all limits in memory, and none in stores.
    ///
    /// ```
    /// use plimsoll::Clock;
    /// use plimsoll_config::{Config, Format};
    ///
    /// # #[cfg(feature = "redis")] {
    /// let text = "stores: { shared: { url: 'redis://nowhere.invalid' } }
    /// limits: { api: { rate: 1/s, store: shared } }";
    /// let config = Config::from_str("limits.yaml", text, Format::Yaml)?.in_memory();
    /// let api = config.build(&Clock::system())?.limiter("api").unwrap();
    /// assert!(api.try_acquire(1.into()).is_ok());
    /// # }
    /// # Ok::<(), plimsoll_config::ConfigError>(())
    /// ```
    #[must_use]
    pub fn in_memory(&self) -> Self {
        let mut config = self.clone();
        config.spec.forget_stores();
        for definition in &mut config.plan.definitions {
            definition.limiter.common.forget_store();
            definition.stored = false;
        }
        config
    }

    /// Returns the same configuration for recorded requests, such as lines of an access log: a limit whose key the
    /// record lacks is skipped, and does not refuse the request.
    ///
    /// ```
    /// use plimsoll_config::uses::WithoutKey;
    /// use plimsoll_config::{Config, Format};
    ///
    /// let config = Config::from_str("limits.yaml", "limits: { user: { rate: 1/s, key: header:x-user } }", Format::Yaml)?;
    /// assert_eq!(config.for_records().use_of("user").unwrap().without_key, WithoutKey::Skip);
    /// # Ok::<(), plimsoll_config::ConfigError>(())
    /// ```
    #[must_use]
    pub fn for_records(&self) -> Self {
        let mut config = self.clone();
        config.spec.skip_without_key();
        config
    }

    /// Returns the files that it was read from: the file itself, and the files that it includes.
    #[must_use]
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// The error for a problem in a configuration that has passed the checks.
    pub(crate) fn error(&self, problem: Problem) -> ConfigError {
        let place = problem.place();
        let file = self.files.get(place.file).or(self.files.first());
        let file = file.map_or(Path::new(""), PathBuf::as_path);
        ConfigError::problem(file, problem.in_file(0))
    }

    /// Returns warnings about settings that are valid but probably not intended, one line each, in the format of
    /// [errors](ConfigError::lines).
    ///
    /// ```
    /// use plimsoll_config::{Config, Format};
    ///
    /// let text = "limiters: { a: { kind: token_bucket, burst: 5, refill: 100, every: 1s, style: interval } }";
    /// let config = Config::from_str("limits.yaml", text, Format::Yaml)?;
    /// let warning = config.warnings().next().unwrap();
    /// assert!(warning.starts_with("limits.yaml:1:45: limiters.a.burst: with `style: interval` 100 tokens come at once and 5 fit"));
    /// # Ok::<(), plimsoll_config::ConfigError>(())
    /// ```
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        let line = |problem: &Problem| {
            let file = self.files.get(problem.place().file);
            let file = file.map_or(Path::new(""), PathBuf::as_path);
            format!("{}:{problem}", file.display())
        };
        self.warnings.iter().map(line)
    }

    /// Returns the names of the limiters, in the order of the file.
    pub fn limiters(&self) -> impl Iterator<Item = &str> {
        self.spec.all().map(|(_, name, _)| name)
    }

    /// Returns the use of each limiter by requests, by name, in the order of the file.
    pub fn uses(&self) -> impl Iterator<Item = (&str, &Use)> {
        self.spec.all().map(|(_, name, limit)| (name, &limit.uses))
    }

    /// Returns the use of the limiter with this name by requests.
    #[must_use]
    pub fn use_of(&self, name: &str) -> Option<&Use> {
        self.spec.limit(name).map(|limit| &limit.uses)
    }

    /// Returns the metadata of the limiter with this name, which its refusals and grants carry.
    #[must_use]
    pub fn metadata_of(&self, name: &str) -> Option<plimsoll::Metadata> {
        // The file was checked.
        self.spec.limit(name)?.limiter.common.about().ok()?
    }

    /// Returns the names of the providers, in the order of the file.
    pub fn providers(&self) -> impl Iterator<Item = &str> {
        self.spec.providers.iter().map(|(name, _)| name)
    }

    /// Returns the weights of a provider and the limiter of each, in the order of the file. Empty if there is no such
    /// provider.
    pub fn provided(&self, provider: &str) -> impl Iterator<Item = (&str, &str)> {
        let provider = self.spec.providers.get(provider);
        let weights = provider.into_iter().flat_map(|provider| provider.0.iter());
        weights.flat_map(|(weight, words)| {
            let words = words.as_slice().iter();
            words.map(move |limiter| (weight, limiter.0.as_str()))
        })
    }

    /// Returns the routes, in the order of the file, with the names of their limits.
    #[must_use]
    pub fn route_specs(&self) -> &[RouteSpec] {
        &self.plan.routes
    }

    /// Returns the settings for the address of a client.
    #[must_use]
    pub fn client(&self) -> ClientSpec {
        let header = self.spec.client.as_ref();
        let header = header.map(|client| client.header.to_ascii_lowercase());
        let prefix = self.spec.ipv6_prefix.unwrap_or(IPV6_PREFIX);
        ClientSpec {
            proxies: self.spec.proxies.clone(),
            ipv6_prefix: u8::try_from(prefix).unwrap_or(128),
            header,
        }
    }

    /// Returns the response to refused requests, unless the limit or the route has one of its own.
    #[must_use]
    pub const fn answer(&self) -> Option<&AnswerSpec> {
        self.spec.answer.as_ref()
    }

    /// Returns the gateway, if the file has one.
    #[must_use]
    pub const fn gateway(&self) -> Option<&GatewaySpec> {
        self.spec.gateway.as_ref()
    }

    /// Returns the settings of `plimsoll serve`, if the file has any.
    #[must_use]
    pub const fn serve(&self) -> Option<&ServeSpec> {
        self.spec.serve.as_ref()
    }

    /// Returns the partners that the program calls, in the order of the file.
    pub fn partners(&self) -> impl Iterator<Item = (&str, &PartnerSpec)> {
        self.spec.partners.iter()
    }

    /// Returns a builder for policies of handlers in the program. The section `policies` and `ipv6_prefix` of the file
    /// are its defaults.
    ///
    /// ```
    /// use plimsoll_config::{Config, Format};
    /// use plimsoll_policy::Policy;
    ///
    /// let text = "policies: { max_soft_violations: 1, lockout: 60s, fallback: none }";
    /// let config = Config::from_str("limits.yaml", text, Format::Yaml)?;
    /// let policies = config.policies().handler(1_u32, Policy::per_second(1.0)).build()?;
    /// let peer = std::net::Ipv4Addr::LOCALHOST;
    /// assert!(policies.evaluate(1_u32, peer)?.is_allowed());
    /// assert!(policies.evaluate(1_u32, peer)?.retry_after_ms() > 59_000);
    /// assert!(policies.evaluate(2_u32, peer)?.is_allowed()); // without a limit
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn policies(&self) -> PoliciesBuilder {
        let settings = self.spec.policies.clone().unwrap_or_default();
        let Ok(builder) = settings.builder() else {
            unreachable!("it was checked")
        };
        match self.spec.ipv6_prefix {
            Some(prefix) => builder.ipv6_prefix(u8::try_from(prefix).unwrap_or(128)),
            None => builder,
        }
    }

    /// Returns the number of routes.
    #[must_use]
    pub fn routes(&self) -> usize {
        self.spec.routes.len()
    }

    /// The store of a limiter, if it is in one.
    pub(crate) fn store_of(&self, definition: &Definition) -> Option<&Store> {
        let store = definition.limiter.common.store.as_ref()?;
        self.spec.stores.get(&store.0)
    }

    pub(crate) fn definition(&self, id: &str) -> Option<&Definition> {
        self.plan.definition(id)
    }
}

/// The default IPv6 prefix of a client: the network that one customer usually has.
const IPV6_PREFIX: u32 = 64;

/// A checked file: its content, the plan for building it, and warnings.
type Checked = (File, Plan, Vec<Problem>);

/// Reads a text as far as possible, and collects all its mistakes.
fn read(source: &Source) -> (Option<Checked>, Vec<Problem>) {
    let Some(root) = &source.root else {
        return (None, source.problems.clone());
    };
    // Places refer to the file as it is written, before short forms are expanded.
    let (long, mut problems) = expand(root);
    let read = plimsoll_spec::read::<File>(&long, Units::Required);
    problems.extend(read.problems);
    // A variable that could not be substituted has its mistake already.
    let unset = |problem: &Problem| {
        source
            .problems
            .iter()
            .any(|it| it.place() == problem.place())
    };
    problems.retain(|problem| !unset(problem));
    problems.extend(source.problems.iter().cloned());
    let Some(mut file) = read.value else {
        return (None, problems);
    };
    file.fill();
    let places = Places::of(root);
    let context = Context::new(&file, (&source.files, &places), &read.broken, problems);
    let plan = plan(&context);
    let (problems, warnings) = context.into_problems();
    (Some((file, plan, warnings)), problems)
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        effective::write(&self.spec, &self.plan, f)
    }
}
