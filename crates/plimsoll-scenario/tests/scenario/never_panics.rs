//! Whatever a file holds, running it ends with a report or an error: no panic, no hang, no overflow.

use plimsoll_scenario::run_str;
use proptest::prelude::*;

const FILES: [&str; 5] = [
    include_str!("../../../../examples/scenarios/api_quota.yaml"),
    include_str!("../../../../examples/scenarios/burst_smoothed.yaml"),
    include_str!("../../../../examples/scenarios/two_limits.yaml"),
    include_str!("../../../../examples/scenarios/worker_pool.yaml"),
    include_str!("../traces.yaml"),
];

/// What is put in the place of something else, to get past the parser and into the limiters.
const PIECES: [&str; 24] = [
    "0",
    "1",
    "4294967295",
    "18446744073709551615",
    "-1",
    "1ms",
    "213503d",
    "36500d",
    "none",
    "granted",
    "pending",
    "try",
    "acquire",
    "reserve",
    "take_up_to",
    "cancel",
    "release",
    "lifo",
    "oldest",
    "greedy",
    "critical",
    "[",
    "}",
    "*a",
];

fn words(text: &str) -> Vec<&str> {
    text.split_inclusive(|c: char| !c.is_alphanumeric() && c != '_')
        .collect()
}

proptest! {
    #[test]
    fn arbitrary_text(text in any::<String>()) {
        let _ = run_str("f.yaml", &text);
    }

    #[test]
    fn text_of_the_characters_yaml_is_made_of(text in "[-?:,\\[\\]{}#&*!|>'\"%@`~ \\n\\ta1]{0,200}") {
        let _ = run_str("f.yaml", &text);
    }

    #[test]
    fn a_file_with_words_exchanged(
        file in prop::sample::select(&FILES[..]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(&PIECES[..])), 1..4),
    ) {
        let mut words = words(file).into_iter().map(str::to_owned).collect::<Vec<_>>();
        for (index, piece) in changes {
            let word = index.get_mut(&mut words);
            let end = word.pop().unwrap_or(' ');
            *word = format!("{piece}{end}");
        }
        let _ = run_str("f.yaml", &words.concat());
    }

    #[test]
    fn a_file_with_bytes_lost_or_doubled(
        file in prop::sample::select(&FILES[..]),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0usize..40, any::<bool>()), 1..6),
    ) {
        let mut text: Vec<char> = file.chars().collect();
        for (start, length, double) in cuts {
            let start = start.index(text.len());
            let end = (start + length).min(text.len());
            let part: Vec<char> = text[start..end].to_vec();
            text.splice(start..end, if double { [part.clone(), part].concat() } else { Vec::new() });
            if text.is_empty() {
                break;
            }
        }
        let _ = run_str("f.yaml", &String::from_iter(text));
    }
}
