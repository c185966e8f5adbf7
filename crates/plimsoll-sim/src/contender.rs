use std::fmt;
use std::sync::Arc;

use plimsoll::adaptive::{Limit, Sample};
use plimsoll_spec::{Fields, Node, Read, Units, limit_at, scalar};

/// A limit to put between traffic and a server: a name, and a function that makes it.
///
/// Every run makes a new limit, so a contender can be used in any number of runs.
///
/// ```
/// use plimsoll_sim::Contender;
///
/// assert_eq!(Contender::named("fixed=48")?.name(), "fixed=48");
/// let unknown = Contender::named("orakle").unwrap_err();
/// assert_eq!(unknown.to_string(), "unknown limit \"orakle\", did you mean `oracle`?");
/// # Ok::<(), plimsoll_sim::UnknownLimit>(())
/// ```
#[derive(Clone)]
pub struct Contender {
    name: String,
    /// `None` for the oracle, which depends on the simulation.
    make: Option<Arc<Make>>,
}

type Make = dyn Fn() -> Box<dyn Limit> + Send + Sync;

/// An error of [`Contender::named`]: no limit has this name. Its message suggests the nearest name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownLimit(String);

/// The limits without an algorithm.
const PLAIN: [Row; 2] = [("none", Contender::none), ("oracle", Contender::oracle)];
type Row = (&'static str, fn() -> Contender);

/// The name, the algorithm and the parameters of each limit. All have the same initial limit and the same range, for a fair
/// comparison, except
/// `latency_gradient`, whose defaults belong to its queue.
const ALGORITHMS: [(&str, &str, &str); 8] = [
    ("verdict", "verdict", ""),
    ("aimd", "aimd", "{ min: 1, max: 1000 }"),
    ("vegas", "vegas", ""),
    ("gradient2", "gradient2", "{ min: 1, max: 1000 }"),
    (
        "windowed_aimd",
        "windowed",
        "{ delegate: { algorithm: aimd, min: 1, max: 1000 } }",
    ),
    (
        "windowed_vegas",
        "windowed",
        "{ delegate: { algorithm: vegas } }",
    ),
    (
        "windowed_gradient2",
        "windowed",
        "{ delegate: { algorithm: gradient2, min: 1, max: 1000 } }",
    ),
    ("latency_gradient", "latency_gradient", ""),
];

impl Contender {
    /// A custom limit. `make` is called for every run, and once for each process of a simulation with several.
    ///
    /// ```
    /// use plimsoll::adaptive::Aimd;
    /// use plimsoll_sim::Contender;
    ///
    /// let careful = Contender::new("careful", || {
    ///     Box::new(Aimd::builder().max(50).build().expect("a valid limit"))
    /// });
    /// assert_eq!(careful.name(), "careful");
    /// ```
    pub fn new(
        name: impl Into<String>,
        make: impl Fn() -> Box<dyn Limit> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            make: Some(Arc::new(make)),
        }
    }

    /// A contender without a limit, which admits every request.
    #[must_use]
    pub fn none() -> Self {
        Self::fixed_as("none", u64::MAX)
    }

    /// A fixed limit on concurrent requests, with the name `fixed=N`. 0 counts as 1.
    #[must_use]
    pub fn fixed(limit: u64) -> Self {
        Self::fixed_as(&format!("fixed={limit}"), limit)
    }

    /// The oracle: the best fixed limit of each phase, with every change of the workers known at once. It is searched for once for
    /// each simulation, which takes many runs.
    #[must_use]
    pub fn oracle() -> Self {
        Self {
            name: "oracle".to_owned(),
            make: None,
        }
    }

    /// The limit of files without `limit`.
    pub(crate) fn default_limit() -> Self {
        let (name, algorithm, parameters) = ALGORITHMS[0];
        Self::algorithm(name, algorithm, parameters)
    }

    fn algorithm(name: &str, algorithm: &'static str, parameters: &'static str) -> Self {
        Self::new(name, move || {
            match plimsoll_spec::limit(algorithm, parameters) {
                Ok(limit) => limit,
                Err(error) => unreachable!("a table of algorithms that exist: {error}"),
            }
        })
    }

    /// Reads an algorithm from a file: a map with its name in `algorithm`, and its parameters.
    pub(crate) fn described(node: &Node) -> Read<Self> {
        limit_at(node, Units::Required)?;
        let name = Fields::any(node, "an algorithm")?.required("algorithm", scalar::text)?;
        let node = node.clone();
        Ok(Self::new(name, move || {
            match limit_at(&node, Units::Required) {
                Ok(limit) => limit,
                Err(_) => unreachable!("it was read before"),
            }
        }))
    }

    /// Returns the limit with this name: an algorithm such as `verdict`, `aimd` or `vegas`, or `none`, `oracle`, or `fixed=N`.
    ///
    /// # Errors
    ///
    /// Returns an error if no limit has this name, or `N` is 0 or not a number.
    pub fn named(name: &str) -> Result<Self, UnknownLimit> {
        if let Some((_, make)) = PLAIN.iter().find(|(known, _)| *known == name) {
            return Ok(make());
        }
        let known = ALGORITHMS.iter().find(|(known, ..)| *known == name);
        if let Some((name, algorithm, parameters)) = known {
            return Ok(Self::algorithm(name, algorithm, parameters));
        }
        let number = name.strip_prefix("fixed=").map(str::parse::<u64>);
        match number {
            Some(Ok(limit)) if limit > 0 => Ok(Self::fixed(limit)),
            _ => Err(UnknownLimit(name.to_owned())),
        }
    }

    /// All limits that need only a name: the algorithms, `none` and `oracle`.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let algorithms = ALGORITHMS
            .iter()
            .map(|(name, algorithm, parameters)| Self::algorithm(name, algorithm, parameters));
        algorithms
            .chain(PLAIN.iter().map(|(_, make)| make()))
            .collect()
    }

    /// The name of the limit, as reports show it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes a new limit. `None` for the oracle.
    pub(crate) fn make(&self) -> Option<Box<dyn Limit>> {
        self.make.as_ref().map(|make| make())
    }

    fn fixed_as(name: &str, limit: u64) -> Self {
        Self::new(name, move || Box::new(Fixed(limit.max(1))))
    }
}

impl fmt::Debug for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Contender").field(&self.name).finish()
    }
}

impl fmt::Display for UnknownLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use plimsoll_spec::{quote, scalar::nearest};

        let known = ALGORITHMS.iter().map(|(name, ..)| *name);
        let known = known.chain(PLAIN.iter().map(|(name, _)| *name));
        let known = known.chain(["fixed=N"]);
        write!(
            f,
            "unknown limit {}{}",
            quote(&self.0),
            nearest(&self.0, known)
        )
    }
}

impl std::error::Error for UnknownLimit {}

#[derive(Debug)]
struct Fixed(u64);

impl Limit for Fixed {
    fn limit(&self) -> u64 {
        self.0
    }

    fn sample(&mut self, _sample: &Sample) {}
}
