use std::fmt;

/// The method of a request, as a label. It has ten values, so that clients cannot create series.
///
/// Any `&str` converts into it. Work without a method, such as a job, is [`Unknown`](Self::Unknown). Pass a method to
/// [`Metered::try_acquire`](crate::Metered::try_acquire) or [`Observer::watch`](crate::Observer::watch).
///
/// ```
/// use plimsoll_observe::Method;
///
/// assert_eq!(Method::from("get").as_str(), "GET");
/// assert_eq!(Method::from("BREW").as_str(), "UNKNOWN");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
#[non_exhaustive]
pub enum Method {
    /// `GET`
    Get,
    /// `HEAD`
    Head,
    /// `POST`
    Post,
    /// `PUT`
    Put,
    /// `PATCH`
    Patch,
    /// `DELETE`
    Delete,
    /// `OPTIONS`
    Options,
    /// `CONNECT`
    Connect,
    /// `TRACE`
    Trace,
    /// Any other method, and work without a method.
    #[default]
    Unknown,
}

impl Method {
    /// All methods, in the order of the variants.
    pub const ALL: [Self; 10] = [
        Self::Get,
        Self::Head,
        Self::Post,
        Self::Put,
        Self::Patch,
        Self::Delete,
        Self::Options,
        Self::Connect,
        Self::Trace,
        Self::Unknown,
    ];

    /// Returns the value of the label `method`: the name in upper case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
            Self::Options => "OPTIONS",
            Self::Connect => "CONNECT",
            Self::Trace => "TRACE",
            Self::Unknown => "UNKNOWN",
        }
    }
}

/// Case is ignored. Other methods are [`Unknown`](Method::Unknown).
impl From<&str> for Method {
    fn from(word: &str) -> Self {
        Self::ALL
            .into_iter()
            .find(|method| word.eq_ignore_ascii_case(method.as_str()))
            .unwrap_or_default()
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
