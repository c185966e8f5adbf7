use std::fmt;

/// The method of a request, as a label. It has ten values, so that clients cannot create series.
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
    /// All of them.
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

    /// The value of the label `method`.
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

/// Case does not matter. Other methods are [`Unknown`](Method::Unknown).
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
