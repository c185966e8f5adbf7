//! Each format, by lines as servers write them.

use std::time::Duration;

use plimsoll_replay::{DurationUnit, LogFormat, Logs, Record};

use crate::support::Dir;

/// What a record says, in one line.
fn said(record: &Record) -> String {
    let client = record
        .client()
        .map_or_else(|| "-".to_owned(), |it| it.to_string());
    let took = record
        .duration_nanos()
        .map_or_else(|| "-".to_owned(), |it| format!("{}us", it / 1000));
    let headers: Vec<String> = record
        .headers()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    format!(
        "{} {client} {} {} {} {took} [{}] {}",
        record.at_nanos() / 1_000_000,
        record.method(),
        record.target(),
        record.status(),
        record.host(),
        headers.join("; ")
    )
}

fn read(
    test: &str,
    text: &str,
    with: impl FnOnce(Logs) -> Logs,
) -> (Option<&'static str>, Vec<String>, u64) {
    let dir = Dir::new(test);
    let mut requests = with(dir.log(text)).open().expect("a log");
    let mut all = Vec::new();
    while let Some(record) = requests.next() {
        all.push(said(record));
    }
    let seen = requests.summaries().remove(0);
    (seen.format, all, seen.bad)
}

#[test]
fn combined_with_what_servers_append() {
    let text = "\
192.0.2.1 - - [15/Nov/2026:12:00:01 +0000] \"GET /a?x=1 HTTP/1.1\" 200 512
192.0.2.2 - frank [15/Nov/2026:12:00:02 +0000] \"POST /b HTTP/1.1\" 401 - \"https://example.com/\" \"curl/8 \\\"x\\\"\"
2001:db8::7 - - [15/Nov/2026:12:00:03 +0000] \"GET /c HTTP/2.0\" 200 7 \"-\" \"-\" 0.250
192.0.2.3 - - [15/Nov/2026:12:00:04 +0000] \"GET /d HTTP/1.1\" 200 7 \"-\" \"ua\" \"198.51.100.7, 10.0.0.1\" rt=1.500 uct=\"0.001\"
example.com:443 192.0.2.4 - - [15/Nov/2026:12:00:05 +0000] \"GET /e HTTP/1.1\" 200 7
192.0.2.5 - - [15/Nov/2026:12:00:06 +0000] \"GET /f HTTP/1.1\" 200 7 \"-\" \"-\" 17 \"router@file\" \"http://10.0.0.1:80\" 12ms
";
    let (format, all, bad) = read("combined", text, |it| it);
    assert_eq!((format, bad), (Some("combined"), 0));
    assert_eq!(
        all,
        [
            "1794744001500 192.0.2.1 GET /a?x=1 200 - [] ",
            "1794744002500 192.0.2.2 POST /b 401 - [] referer=https://example.com/; user-agent=curl/8 \\\"x\\\"",
            "1794744003000 192.0.2.3 GET /d 200 1500000us [] user-agent=ua; x-forwarded-for=198.51.100.7, 10.0.0.1",
            "1794744003250 2001:db8::7 GET /c 200 250000us [] ",
            "1794744005500 192.0.2.4 GET /e 200 - [example.com:443] ",
            "1794744006488 192.0.2.5 GET /f 200 12000us [] ",
        ]
    );
}

#[test]
fn whole_numbers_behind_combined_lines_are_durations_if_it_is_said() {
    let text =
        "192.0.2.1 - - [15/Nov/2026:12:00:01 +0000] \"GET / HTTP/1.1\" 200 512 \"-\" \"-\" 2500\n";
    let (_, plain, _) = read("whole-plain", text, |it| it);
    assert!(plain[0].contains(" 200 - ["), "{plain:?}");
    let (_, micros, _) = read("whole-micros", text, |it| {
        it.duration_unit(DurationUnit::Micros)
    });
    assert!(micros[0].contains(" 200 2500us ["), "{micros:?}");
}

#[test]
fn json_lines_of_caddy_traefik_envoy_and_nginx() {
    let caddy = r#"{"level":"info","ts":1794744001.25,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"10.0.0.9","remote_port":"41342","client_ip":"192.0.2.1","proto":"HTTP/2.0","method":"GET","host":"example.com","uri":"/a?b=c","headers":{"User-Agent":["curl/7.82.0"],"Accept":["*/*"]},"tls":{"resumed":false}},"bytes_read":3,"user_id":"","duration":0.25,"size":10900,"status":200,"resp_headers":{"Server":["Caddy"]}}"#;
    let traefik = r#"{"ClientAddr":"192.0.2.2:5020","ClientHost":"192.0.2.2","ClientPort":"5020","ClientUsername":"-","DownstreamContentSize":89,"DownstreamStatus":404,"Duration":12500000,"RequestContentSize":7,"RequestHost":"example.com","RequestMethod":"PUT","RequestPath":"/b","RequestProtocol":"HTTP/1.1","RouterName":"r","StartLocal":"2026-11-15T13:00:02+01:00","StartUTC":"2026-11-15T12:00:02.5Z","level":"info","msg":"","request_X-User":"anna","time":"2026-11-15T12:00:02Z"}"#;
    let istio = r#"{"authority":"example.com","bytes_received":0,"bytes_sent":135,"downstream_local_address":"10.0.0.1:80","downstream_remote_address":"192.0.2.3:56578","duration":4,"method":"GET","path":"/c","protocol":"HTTP/1.1","request_id":"84f1","response_code":418,"response_flags":"-","start_time":"2026-11-15T12:00:03.209Z","upstream_service_time":"4","user_agent":"curl","x_forwarded_for":null}"#;
    let gateway = r#"{"start_time":"2026-11-15T12:00:04.000Z","method":"GET","x-envoy-origin-path":"/d","protocol":"HTTP/1.1","response_code":"200","bytes_received":"0","bytes_sent":"5","duration":"7","x-forwarded-for":"192.0.2.9","user-agent":"-",":authority":"example.com","downstream_remote_address":"192.0.2.4:1"}"#;
    let nginx = r#"{"time_iso8601":"2026-11-15T13:00:05+01:00","remote_addr":"192.0.2.5","request":"DELETE /e HTTP/1.1","status":"204","body_bytes_sent":0,"request_time":"0.100"}"#;
    let text = [caddy, traefik, istio, gateway, nginx].join("\n");
    let (format, all, bad) = read("json", &text, |it| it);
    assert_eq!((format, bad), (Some("json"), 0));
    assert_eq!(
        all,
        [
            "1794744001000 192.0.2.1 GET /a?b=c 200 250000us [example.com] User-Agent=curl/7.82.0; Accept=*/*",
            "1794744002500 192.0.2.2 PUT /b 404 12500us [example.com] X-User=anna",
            "1794744003209 192.0.2.3 GET /c 418 4000us [example.com] x-request-id=84f1; user-agent=curl",
            "1794744004000 192.0.2.4 GET /d 200 7000us [example.com] x-forwarded-for=192.0.2.9",
            "1794744005400 192.0.2.5 DELETE /e 204 100000us [] ",
        ]
    );
}

#[test]
fn csv_with_a_header() {
    let text = "\u{feff}timestamp;client_ip;method;path;status;duration_ms;header:x-user\n\
                1794744001.5;192.0.2.1;GET;/a;200;500;anna\n\
                1794744002.0;192.0.2.2;POST;\"/b;\"\"c\"\"\";500;0;-\n\
                1794744003.0;192.0.2.3;POST\n";
    let (format, all, bad) = read("csv", text, |it| it);
    assert_eq!((format, bad), (Some("csv"), 1));
    assert_eq!(
        all,
        [
            "1794744001000 192.0.2.1 GET /a 200 500000us [] x-user=anna",
            "1794744002000 192.0.2.2 POST /b;\"c\" 500 0us [] ",
        ]
    );
}

#[test]
fn text_of_envoy() {
    let text = "[2026-11-15T12:00:01.250Z] \"GET /a HTTP/1.1\" 200 - 0 154 226 100 \"198.51.100.1,192.0.2.1\" \"curl/7\" \"cc21d9b0\" \"example.com\" \"10.0.35.28:80\"\n";
    let (format, all, bad) = read("envoy", text, |it| it);
    assert_eq!((format, bad), (Some("envoy"), 0));
    assert_eq!(
        all,
        [
            "1794744001250 192.0.2.1 GET /a 200 226000us [example.com] x-forwarded-for=198.51.100.1,192.0.2.1; user-agent=curl/7; x-request-id=cc21d9b0"
        ]
    );
}

#[test]
fn text_of_envoy_as_istio_extends_it() {
    // Requests inside of a mesh have no X-Forwarded-For, and had no client.
    let text = "[2026-11-15T12:00:01.250Z] \"GET /a HTTP/2\" 503 UF,URX upstream_reset - \"TLS error\" 1 95 300 - \"-\" \"curl/7\" \"id\" \"example.com\" \"10.0.0.9:80\" outbound|80||svc.ns 10.0.0.1:1 10.0.0.2:80 192.0.2.7:555 - default\n";
    let (format, all, bad) = read("istio", text, |it| it);
    assert_eq!((format, bad), (Some("envoy"), 0));
    assert_eq!(
        all,
        [
            "1794744001250 192.0.2.7 GET /a 503 300000us [example.com] user-agent=curl/7; x-request-id=id"
        ]
    );
}

#[test]
fn a_format_that_is_said_is_not_guessed() {
    let text = "1794744001.5 GET /a\n1794744002.5\n";
    let (format, all, _) = read("times", text, |it| it);
    assert_eq!(format, Some("times"));
    assert_eq!(
        all,
        [
            "1794744001500 - GET /a 0 - [] ",
            "1794744002500 - GET / 0 - [] "
        ]
    );
    let (format, all, bad) = read("forced", text, |it| it.format(LogFormat::Combined));
    assert_eq!((format, all.len(), bad), (Some("combined"), 0, 2));
}

#[test]
fn moments_and_durations_in_every_form_of_caddy() {
    // Caddy's `time_format` and `duration_format`. Dates with slashes and durations of several units were bad lines.
    let forms = [
        ("1794744001.25", "0.5"),
        ("1794744001250.0", "\"500ms\""),
        ("1794744001250000000", "\"0.5s\""),
        ("\"2026-11-15T12:00:01.250Z\"", "\"1m2.5s\""),
        ("\"2026-11-15T13:00:01.250+0100\"", "\"1h0m0.5s\""),
        ("\"2026/11/15 12:00:01.250\"", "\"250µs\""),
    ];
    let text: String = forms
        .iter()
        .map(|(ts, took)| format!("{{\"ts\":{ts},\"request\":{{\"method\":\"GET\",\"uri\":\"/\"}},\"duration\":{took}}}\n"))
        .collect();
    let (_, mut all, bad) = read("caddy", &text, |it| it.window(Duration::from_secs(7200)));
    all.sort();
    assert_eq!(bad, 0);
    assert_eq!(
        all,
        [
            "1794740400750 - GET / 0 3600500000us [] ",
            "1794743938750 - GET / 0 62500000us [] ",
            "1794744000750 - GET / 0 500000us [] ",
            "1794744000750 - GET / 0 500000us [] ",
            "1794744000750 - GET / 0 500000us [] ",
            "1794744001249 - GET / 0 250us [] ",
        ]
    );
}

#[test]
fn brackets_before_the_moment_are_not_the_moment() {
    // Addresses of IPv6 with a port and names of users with brackets made bad lines.
    let text = "\
[2001:db8::7]:4443 - - [15/Nov/2026:12:00:01 +0000] \"GET /a HTTP/1.1\" 200 1
192.0.2.1 - user[1] [15/Nov/2026:12:00:02 +0000] \"GET /b HTTP/1.1\" 200 1
192.0.2.1 - - [yesterday] \"GET /c HTTP/1.1\" 200 1 \"-\" \"[15/Nov/2026:12:00:02 +0000] \\\"GET /d\\\" 200\"
";
    let (_, all, bad) = read("brackets", text, |it| it);
    assert_eq!(
        all,
        [
            "1794744001500 2001:db8::7 GET /a 200 - [] ",
            "1794744002500 192.0.2.1 GET /b 200 - [] ",
        ]
    );
    assert_eq!(bad, 1, "the agent of the last line is not its moment");
}

#[test]
fn a_ratio_of_compression_is_not_a_duration() {
    // nginx' documentation appends "$gzip_ratio", which was read as seconds.
    let line = |last: &str| {
        format!(
            "192.0.2.1 - - [15/Nov/2026:12:00:01 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"-\" \"{last}\"\n"
        )
    };
    let (_, all, _) = read("ratio", &[line("3.21"), line("3.210")].concat(), |it| it);
    assert!(all[1].contains(" 200 - ["), "{all:?}");
    assert!(all[0].contains(" 200 3210000us ["), "{all:?}");
}

#[test]
fn the_mark_of_an_editor_before_the_first_line_is_no_part_of_it() {
    // The first line of JSON was a bad line, and that of a combined log had no client.
    let combined = "\u{feff}192.0.2.1 - - [15/Nov/2026:12:00:01 +0000] \"GET / HTTP/1.1\" 200 1\n";
    let (_, all, _) = read("mark-combined", combined, |it| it);
    assert_eq!(all, ["1794744001500 192.0.2.1 GET / 200 - [] "]);
    let json = "\u{feff}{\"ts\":1794744001.5,\"method\":\"GET\",\"uri\":\"/\"}\n";
    let (_, all, bad) = read("mark-json", json, |it| it.format(LogFormat::Json));
    assert_eq!((all.len(), bad), (1, 0));
}

#[test]
fn moments_of_lines_may_have_blanks() {
    // The time after a blank was not read, so the file was not a log.
    let text = "2026-11-15 12:00:01.5 GET /a\n2026-11-15 13:00:02.5 +0100 POST /b\n2026-11-15 12:00:03.5\n";
    let (format, all, bad) = read("blanks", text, |it| it);
    assert_eq!((format, bad), (Some("times"), 0));
    assert_eq!(
        all,
        [
            "1794744001500 - GET /a 0 - [] ",
            "1794744002500 - POST /b 0 - [] ",
            "1794744003500 - GET / 0 - [] ",
        ]
    );
}
