//! Hints for the names that other libraries use.

/// A hint for a word of another library: the name here, and how to use it.
pub(super) fn instead(word: &str) -> Option<String> {
    let plain: String = word
        .to_ascii_lowercase()
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect();
    let said = match plain.as_str() {
        "leakybucket" | "gcra" | "leaky" => {
            "that is `token_bucket` here: `burst` is how much the bucket holds, `refill` and `every` how fast it leaks; \
             with a `queue` what does not fit waits"
        }
        "ratelimit" | "ratelimiter" | "rate" => {
            "a rate is `token_bucket` (evenly, with bursts), `fixed_window` or `sliding_window` (so many in a window) here"
        }
        "semaphore" | "bulkhead" | "maxinflight" | "inflight" | "maxconcurrency" | "slots" => {
            "that is `concurrency` here, with `limit`"
        }
        "slidingwindowlog" | "rollingwindow" | "rolling" => {
            "that is `sliding_log` here, with `limit` and `window`"
        }
        "slidingwindowcounter" => "that is `sliding_counter` here, with `limit` and `window`",
        "window" => {
            "a window is `fixed_window`, `sliding_window`, `sliding_counter` or `sliding_log` here"
        }
        "throttle" | "pacer" | "smooth" => {
            "an even pace is `smooth_bursty` here, with `rate` in permits a second"
        }
        "autoscale" | "auto" | "aimd" | "vegas" | "gradient" | "gradient2" | "verdict" => {
            "limits that are found are `kind: adaptive` here, with an `algorithm`"
        }
        "composite" | "chain" | "and" | "multi" => {
            "several limiters as one are `all` here, with `of`"
        }
        _ => return None,
    };
    Some(format!(": {said}"))
}
