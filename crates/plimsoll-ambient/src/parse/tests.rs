use std::path::PathBuf;

use proptest::prelude::*;

use super::*;

#[test]
fn limits_of_both_versions() {
    assert_eq!(number_or_max("max\n"), Some(None));
    assert_eq!(number_or_max("536870912\n"), Some(Some(536_870_912)));
    assert_eq!(number_or_max("-1\n"), None);
    assert_eq!(number_or_max(""), None);
    assert_eq!(v1_limit("536870912\n"), Some(Some(536_870_912)));
    // With pages of 4 KiB, and of 64 KiB.
    assert_eq!(v1_limit("9223372036854771712\n"), Some(None));
    assert_eq!(v1_limit("9223372036854710272\n"), Some(None));
    assert_eq!(v1_limit("max\n"), None);
}

#[test]
fn quotas_of_both_versions() {
    assert_eq!(cpu_max("max 100000\n"), Some(None));
    assert_eq!(cpu_max("250000 100000\n"), Some(Some(2.5)));
    for wrong in [
        "", "max", "250000", "0 100000", "250000 0", "max 0", "a b", "1 2 3",
    ] {
        assert_eq!(cpu_max(wrong), None, "{wrong:?}");
    }
    assert_eq!(v1_quota("-1\n"), Some(None));
    assert_eq!(v1_quota("50000\n"), Some(Some(50_000)));
    assert_eq!(v1_quota("max\n"), None);
}

#[test]
fn a_line_of_a_stat_file_is_found_by_its_whole_key() {
    let text = "anon 10\ntotal_inactive_file 7\ninactive_file 237568\ninactive_file_more 1\n";
    assert_eq!(stat(text, "inactive_file"), Some(237_568));
    assert_eq!(stat(text, "total_inactive_file"), Some(7));
    assert_eq!(stat(text, "anon "), None);
    assert_eq!(stat("usage_usec\nuser_usec 1\n", "usage_usec"), None);
}

#[test]
fn memory_of_machine_and_process() {
    let meminfo = "MemTotal:       24684100 kB\nMemFree:        18398036 kB\n";
    assert_eq!(mem_total(meminfo), Some(24_684_100 * 1024));
    assert_eq!(mem_total("MemFree: 1 kB\n"), None);
    assert_eq!(mem_total("MemTotal: 18446744073709551615 kB\n"), None);
    assert_eq!(resident_pages("765 432 404 5 0 123 0\n"), Some(432));
    assert_eq!(resident_pages("765\n"), None);
}

#[test]
fn processors_a_process_may_run_on() {
    let status = |list: &str| format!("Name:\tcat\nCpus_allowed:\t3\nCpus_allowed_list:\t{list}\n");
    assert_eq!(allowed_cores(&status("0-1")), Some(2));
    assert_eq!(allowed_cores(&status("0-3,8,10-11")), Some(7));
    assert_eq!(allowed_cores(&status("5")), Some(1));
    for wrong in ["", "3-1", "0-18446744073709551615", "a", "1,,2", "-"] {
        assert_eq!(allowed_cores(&status(wrong)), None, "{wrong:?}");
    }
}

#[test]
fn busy_is_everything_but_idling_and_waiting_for_disks() {
    let text = "cpu  100 20 30 5000 400 5 6 7 80 9\n\
                cpu0 50 10 15 2500 200 2 3 4 40 5\n\
                cpu1 50 10 15 2500 200 3 3 3 40 4\n\
                intr 18503284 0 0\nctxt 114947279\n";
    assert_eq!(machine_ticks(text), Some((100 + 20 + 30 + 5 + 6 + 7, 2)));
    // As before Linux 2.6.
    assert_eq!(machine_ticks("cpu 1 2 3 4\ncpu0 1 2 3 4\n"), Some((6, 1)));
    assert_eq!(machine_ticks("cpu 1 2 3\ncpu0 1 2 3\n"), None);
    assert_eq!(machine_ticks("cpu 1 2 3 4 5\n"), None);
    assert_eq!(machine_ticks("intr 1\n"), None);
}

#[test]
fn cgroups_a_process_is_in() {
    let text =
        "12:cpu,cpuacct:/docker/ab\n4:memory:/docker/ab:c\n1:name=systemd:/\n0::/user.slice\n";
    let of = |controller| {
        let found = memberships(text).find(|member| member.has(controller));
        found.map(|member| member.path)
    };
    assert_eq!(of("memory"), Some("/docker/ab:c"));
    assert_eq!(of("cpuacct"), Some("/docker/ab"));
    assert_eq!(of("pids"), None);
    assert_eq!(of(""), Some("/user.slice"));
    let v2 = memberships(text).find(Membership::is_v2);
    assert_eq!(v2.map(|member| member.path), Some("/user.slice"));
    assert_eq!(memberships("7::/x\n0:memory:/x\n0::x\n:\n").count(), 0);
}

#[test]
fn mounts_of_cgroups() {
    let text = "23 1 0:21 / /proc rw - proc proc rw\n\
        35 31 0:32 /docker/ab /sys/fs/cgroup/memory rw,relatime shared:9 master:1 - cgroup cgroup rw,memory\n\
        33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
        41 31 0:38 / /mnt/with\\040space\\134 rw - cgroup2 cgroup2 rw\n";
    let found: Vec<_> = mounts(text).collect();
    assert_eq!(found.len(), 3);
    assert!(found[0].has("memory") && !found[0].is_v2());
    assert_eq!(found[0].root, PathBuf::from("/docker/ab"));
    assert!(found[1].has("cpu") && found[1].has("cpuacct") && !found[1].has("memory"));
    assert!(found[2].is_v2() && !found[2].has("memory"));
    assert_eq!(found[2].point, "/mnt/with space\\");
}

#[test]
fn what_is_no_escape_stays_as_it_is() {
    for text in ["\\", "a\\04", "\\999", "\\777", "\\é40", "\\+12"] {
        assert_eq!(unescape(text), text);
    }
}

/// Anything, and things that are nearly right.
fn contents() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "max",
        "-1",
        "0",
        "18446744073709551616",
        "9223372036854771712",
        " ",
        "\n",
        ":",
        "-",
        ",",
        "/",
        "\\",
        "\\040",
        "cpu",
        "cpu0",
        "MemTotal:",
        "kB",
        "inactive_file",
        "usage_usec",
        "Cpus_allowed_list:",
        "memory",
        "cgroup",
        "cgroup2",
        " - ",
        "é",
        "\0",
    ]);
    prop_oneof![
        any::<String>(),
        prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat()),
        any::<Vec<u8>>().prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
    ]
}

proptest! {
    #[test]
    fn no_contents_make_a_parser_panic(text in contents()) {
        let _ = number(&text);
        let _ = number_or_max(&text);
        let _ = v1_limit(&text);
        let _ = v1_quota(&text);
        if let Some(Some(cores)) = cpu_max(&text) {
            prop_assert!(cores.is_finite() && cores > 0.0);
        }
        let _ = stat(&text, "inactive_file");
        let _ = mem_total(&text);
        let _ = resident_pages(&text);
        let _ = allowed_cores(&text);
        let _ = machine_ticks(&text);
        prop_assert!(memberships(&text).all(|member| member.path.starts_with('/')));
        let _ = mounts(&text).count();
        let _ = unescape(&text);
    }

    #[test]
    fn what_is_well_formed_is_read(limit in 1..V1_UNLIMITED, quota in 1..1_000_000_u64, ticks in any::<[u32; 8]>()) {
        prop_assert_eq!(number_or_max(&format!("{limit}\n")), Some(Some(limit)));
        prop_assert_eq!(v1_limit(&format!("{limit}\n")), Some(Some(limit)));
        prop_assert_eq!(cpu_max(&format!("{quota} 100000\n")), Some(cores(quota, 100_000)));
        let [user, nice, system, idle, iowait, irq, softirq, steal] = ticks.map(u64::from);
        let line = format!("cpu {user} {nice} {system} {idle} {iowait} {irq} {softirq} {steal} 0 0\ncpu0 0\n");
        let busy = user + nice + system + irq + softirq + steal;
        prop_assert_eq!(machine_ticks(&line), Some((busy, 1)));
    }
}
