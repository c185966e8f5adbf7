//! Whatever stands in a log, it is read to its end: every line is a request, a bad line, or nothing.

use plimsoll_replay::{LogFormat, Logs};
use proptest::prelude::*;

use crate::support::{Dir, config};

/// Lines that are nearly right, and lines that are not.
fn lines() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just("192.0.2.1 - - [15/Nov/2026:12:00:01 +0000] \"GET /a HTTP/1.1\" 200 5 \"-\" \"ua\" 0.5".to_owned()),
        Just("{\"ts\":1794744001.25,\"request\":{\"uri\":\"/\",\"headers\":{\"A\":[\"b\",1]}},\"duration\":0.5,\"status\":200}".to_owned()),
        Just("time,path,status,duration\n2026-11-15T12:00:01Z,/a,200,0.5".to_owned()),
        "[\\[\\]\"{}:,;0-9a-zA-Z/ .+\\\\-]{0,60}",
        "\\PC{0,40}",
    ];
    let mutated =
        (piece, any::<prop::sample::Index>(), any::<Option<u8>>()).prop_map(|(text, at, byte)| {
            let mut bytes = text.into_bytes();
            if let Some(byte) = byte
                && !bytes.is_empty()
            {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes.push(b'\n');
            bytes
        });
    prop::collection::vec(mutated, 0..12).prop_map(|lines| lines.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn nothing_in_a_log_panics_or_is_lost(text in lines(), format in prop::sample::select(LogFormat::ALL.to_vec())) {
        let dir = Dir::new("fuzz");
        let path = dir.file("a.log", &text);
        let Ok(mut requests) = Logs::of([&path]).format(format).open() else {
            return Ok(());
        };
        let (mut count, mut last) = (0, i64::MIN);
        while let Some(record) = requests.next() {
            prop_assert!(record.at_nanos() >= last);
            last = record.at_nanos();
            prop_assert!(!record.target().is_empty());
            count += 1;
        }
        let seen = requests.summaries().remove(0);
        prop_assert_eq!(seen.requests, count);
        let nothing = |line: &&[u8]| line.is_empty() || line.starts_with(b"#") || *line == b"\r";
        let of_text = text.split(|byte| *byte == b'\n').collect::<Vec<_>>();
        let of_text = &of_text[..of_text.len() - 1];
        prop_assert_eq!(seen.lines, of_text.len() as u64);
        let headers = u64::from(format == LogFormat::Csv && seen.requests > 0);
        let nothings = of_text.iter().filter(|line| nothing(line)).count() as u64;
        if format != LogFormat::Csv || headers == 1 {
            prop_assert_eq!(seen.requests + seen.bad + nothings + headers, seen.lines);
        }
        // And what is read can be replayed.
        let limits = "limits: { one: { rate: 1/s, key: client }, two: { concurrency: 1, queue: { bound: 3, timeout: 1s } } }\nroutes: [{ match: /**, limits: [one, two] }]";
        let replay = plimsoll_replay::Replay::new(config(limits), Logs::of([&path]).format(format));
        if let Ok(report) = replay.run() {
            prop_assert_eq!(report.admitted + report.refused, report.requests);
            let _ = (report.html(), report.json());
            for line in report.text().lines() {
                prop_assert!(line.chars().count() <= 80);
            }
        }
    }
}
