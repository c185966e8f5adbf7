//! What is read of cgroups: both versions, nested, with and without limits, whole and broken.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::io::ErrorKind;
use std::time::Duration;

use crate::tree::{MACHINE, Tree};
use plimsoll_ambient::{
    CgroupCpu, CgroupMemory, CpuReading, CpuSource, MachineCpu, MemoryReading, MemorySource,
    ProcessCpu, ProcessMemory,
};
use proptest::prelude::*;

const V2_MOUNT: &str =
    "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

/// Adds the files of a cgroup of version 2 with 100 MB in use, of which 10 MB are easy to reclaim.
fn v2_memory(tree: &Tree, path: &str, max: &str, current: u64) {
    let at = format!("sys/fs/cgroup{path}");
    let stat = format!("anon {current}\nfile 20000000\ninactive_file 10000000\nactive_file 1\n");
    tree.file(&format!("{at}/memory.max"), max)
        .file(&format!("{at}/memory.current"), format!("{current}\n"))
        .file(&format!("{at}/memory.stat"), stat);
}

fn read_memory(tree: &Tree) -> MemoryReading {
    CgroupMemory::detect_under(tree.root())
        .unwrap()
        .read()
        .unwrap()
}

fn read_cpu(tree: &Tree) -> CpuReading {
    CgroupCpu::detect_under(tree.root())
        .unwrap()
        .read()
        .unwrap()
}

#[test]
fn version_2_in_a_container_with_a_namespace_of_its_own() {
    let tree = Tree::new();
    tree.cgroups("0::/\n", V2_MOUNT);
    v2_memory(&tree, "", "536870912\n", 100_000_000);
    let reading = MemoryReading {
        used: 90_000_000,
        total: Some(536_870_912),
    };
    assert_eq!(read_memory(&tree), reading);
}

#[test]
fn version_2_without_a_limit_is_measured_against_the_machine() {
    let tree = Tree::new();
    tree.cgroups("0::/user.slice/app\n", V2_MOUNT);
    v2_memory(&tree, "/user.slice", "max\n", 900_000_000);
    v2_memory(&tree, "/user.slice/app", "max\n", 100_000_000);
    let reading = MemoryReading {
        used: 90_000_000,
        total: Some(MACHINE),
    };
    assert_eq!(read_memory(&tree), reading);
    let source = CgroupMemory::detect_under(tree.root()).unwrap();
    assert_eq!(source.limit(), Ok(None));
}

#[test]
fn the_least_limit_of_all_parents_counts_and_is_measured_where_it_is() {
    let tree = Tree::new();
    tree.cgroups("0::/kubepods/pod/container\n", V2_MOUNT);
    v2_memory(&tree, "/kubepods", "4000000000\n", 2_000_000_000);
    v2_memory(&tree, "/kubepods/pod", "300000000\n", 250_000_000);
    v2_memory(&tree, "/kubepods/pod/container", "max\n", 100_000_000);
    let reading = MemoryReading {
        used: 240_000_000,
        total: Some(300_000_000),
    };
    assert_eq!(read_memory(&tree), reading);

    // The limit is changed while the program runs.
    let mut source = CgroupMemory::detect_under(tree.root()).unwrap();
    tree.file(
        "sys/fs/cgroup/kubepods/pod/container/memory.max",
        "200000000\n",
    );
    let reading = MemoryReading {
        used: 90_000_000,
        total: Some(200_000_000),
    };
    assert_eq!(source.read(), Ok(reading));
}

#[test]
fn a_limit_above_what_the_machine_has_is_no_base_for_percentages() {
    let tree = Tree::new();
    tree.cgroups("0::/\n", V2_MOUNT);
    v2_memory(&tree, "", "99999999999999\n", 100_000_000);
    assert_eq!(read_memory(&tree).total, Some(MACHINE));
}

#[test]
fn where_memory_is_not_accounted_for_all_the_way_down_the_innermost_that_is_counts() {
    let tree = Tree::new();
    tree.cgroups("0::/slice/inner\n", V2_MOUNT);
    v2_memory(&tree, "/slice", "max\n", 700_000_000);
    tree.file("sys/fs/cgroup/slice/inner/cgroup.procs", "1\n");
    assert_eq!(read_memory(&tree).used, 690_000_000);
}

#[test]
fn the_root_cgroup_does_not_account_for_memory_and_the_error_says_so() {
    let tree = Tree::new();
    tree.cgroups("0::/\n", V2_MOUNT);
    tree.file("sys/fs/cgroup/cgroup.procs", "1\n");
    let error = CgroupMemory::detect_under(tree.root()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(
        error
            .file()
            .unwrap()
            .ends_with("sys/fs/cgroup/memory.current"),
        "{error}"
    );
}

/// As on a machine that has both: memory is controlled by version 1.
const HYBRID_MEMBER: &str =
    "9:name=systemd:/\n4:memory:/docker/ab/inner\n3:cpu,cpuacct:/docker/ab\n0::/docker/ab\n";
const HYBRID_MOUNTS: &str = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
    32 31 0:29 /docker/ab /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
    35 31 0:32 /docker/ab /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
    41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

fn v1_memory(tree: &Tree, path: &str, limit: &str, usage: u64) {
    let at = format!("sys/fs/cgroup/memory{path}");
    let stat =
        "cache 1\ninactive_file 5\nhierarchical_memory_limit 1\ntotal_inactive_file 10000000\n";
    tree.file(&format!("{at}/memory.limit_in_bytes"), limit)
        .file(&format!("{at}/memory.usage_in_bytes"), format!("{usage}\n"))
        .file(&format!("{at}/memory.stat"), stat);
}

#[test]
fn version_1_in_a_container_whose_mounts_begin_further_down() {
    let tree = Tree::new();
    tree.cgroups(HYBRID_MEMBER, HYBRID_MOUNTS);
    v1_memory(&tree, "", "536870912\n", 300_000_000);
    v1_memory(&tree, "/inner", "9223372036854771712\n", 100_000_000);
    let reading = MemoryReading {
        used: 290_000_000,
        total: Some(536_870_912),
    };
    assert_eq!(read_memory(&tree), reading);
    v1_memory(&tree, "", "9223372036854771712\n", 300_000_000);
    let reading = MemoryReading {
        used: 90_000_000,
        total: Some(MACHINE),
    };
    assert_eq!(read_memory(&tree), reading);
}

#[test]
fn a_path_that_leads_out_of_what_is_mounted_is_that_of_the_mount() {
    for member in ["0::/../elsewhere\n", "0::/gone/app\n"] {
        let tree = Tree::new();
        tree.cgroups(member, V2_MOUNT);
        v2_memory(&tree, "", "536870912\n", 100_000_000);
        v2_memory(&tree, "/../elsewhere", "1000\n", 100);
        assert_eq!(read_memory(&tree).total, Some(536_870_912), "{member}");
    }
}

#[test]
fn processor_time_of_version_2_is_measured_where_the_least_quota_is() {
    let tree = Tree::new();
    tree.cgroups("0::/pod/container\n", V2_MOUNT);
    tree.file(
        "sys/fs/cgroup/cpu.stat",
        "usage_usec 9000000\nuser_usec 1\n",
    )
    .file("sys/fs/cgroup/pod/cpu.max", "150000 100000\n")
    .file(
        "sys/fs/cgroup/pod/cpu.stat",
        "usage_usec 3000000\nuser_usec 1\n",
    )
    .file("sys/fs/cgroup/pod/container/cpu.max", "max 100000\n")
    .file(
        "sys/fs/cgroup/pod/container/cpu.stat",
        "usage_usec 1000000\nuser_usec 1\n",
    );
    let expected = CpuReading {
        used: Duration::from_secs(3),
        cores: 1.5,
    };
    assert_eq!(read_cpu(&tree), expected);

    // Without a quota, and with one that is more than the process may use anyway.
    for (quota, used) in [("max 100000\n", 1), ("900000 100000\n", 3)] {
        tree.file("sys/fs/cgroup/pod/cpu.max", quota);
        let expected = CpuReading {
            used: Duration::from_secs(used),
            cores: 3.0,
        };
        assert_eq!(read_cpu(&tree), expected, "{quota}");
    }
}

#[test]
fn processor_time_of_version_1() {
    let tree = Tree::new();
    tree.cgroups(HYBRID_MEMBER, HYBRID_MOUNTS);
    let at = "sys/fs/cgroup/cpu,cpuacct";
    tree.file(&format!("{at}/cpu.cfs_quota_us"), "50000\n")
        .file(&format!("{at}/cpu.cfs_period_us"), "100000\n")
        .file(&format!("{at}/cpuacct.usage"), "2000000000\n");
    let expected = CpuReading {
        used: Duration::from_secs(2),
        cores: 0.5,
    };
    assert_eq!(read_cpu(&tree), expected);
    tree.file(&format!("{at}/cpu.cfs_quota_us"), "-1\n");
    assert!((read_cpu(&tree).cores - 3.0).abs() < f64::EPSILON);
}

#[test]
fn what_is_malformed_is_named_with_what_was_expected() {
    let tree = Tree::new();
    tree.cgroups("0::/\n", V2_MOUNT);
    v2_memory(&tree, "", "lots\n", 100);
    let error = CgroupMemory::detect_under(tree.root()).unwrap_err();
    let message = error.to_string();
    assert!(
        message.ends_with("memory.max: expected a number of bytes, or `max`, found \"lots\""),
        "{message}"
    );

    v2_memory(&tree, "", "1000\n", 100);
    tree.file("sys/fs/cgroup/memory.stat", "anon 1\n");
    let message = CgroupMemory::detect_under(tree.root())
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("memory.stat: expected a line `inactive_file <bytes>`"),
        "{message}"
    );

    tree.file("proc/self/cgroup", "what is this\n");
    let message = CgroupMemory::detect_under(tree.root())
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("proc/self/cgroup: expected a line `0::/<path>`"),
        "{message}"
    );

    tree.cgroups("0::/\n", "");
    let message = CgroupCpu::detect_under(tree.root())
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("mountinfo: expected a mount of cgroup2"),
        "{message}"
    );

    let message = MachineCpu::under(tree.root()).unwrap_err().to_string();
    assert!(message.contains("proc/stat: cannot be read: "), "{message}");
}

#[test]
fn this_machine_can_be_measured() {
    let process = ProcessMemory::new().unwrap().read().unwrap();
    assert!(
        process.used > 0 && process.used < process.total.unwrap(),
        "{process:?}"
    );
    let cpu = ProcessCpu::new().unwrap().read().unwrap();
    assert!(cpu.cores >= 0.01, "{cpu:?}");
    let machine = MachineCpu::new().unwrap().read().unwrap();
    assert!(
        machine.cores >= 1.0 && machine.used >= cpu.used,
        "{machine:?}"
    );
    // Not every machine has cgroups, but where there is none somebody must say which file was missing.
    match CgroupMemory::detect() {
        Ok(mut cgroup) => assert!(cgroup.read().unwrap().used > 0),
        Err(error) => assert!(error.file().is_some(), "{error}"),
    }
    match CgroupCpu::detect() {
        Ok(mut cgroup) => assert!(cgroup.read().unwrap().used > Duration::ZERO),
        Err(error) => assert!(error.file().is_some(), "{error}"),
    }
}

/// Anything, mostly not what belongs there.
fn contents() -> impl Strategy<Value = Vec<u8>> {
    let nearly = prop::sample::select(vec![
        "max\n",
        "1000\n",
        "-1\n",
        "max 100000\n",
        "50000 100000\n",
        "inactive_file 5\n",
        "total_inactive_file 5\n",
        "usage_usec 7\n",
        "cpu 1 2 3 4 5\ncpu0 1\n",
        "",
        "0::/\n",
        "1:memory,cpu,cpuacct:/\n",
        V2_MOUNT,
        HYBRID_MOUNTS,
        HYBRID_MEMBER,
        "0::/../..\n",
        "MemTotal: 5 kB\n",
        "Cpus_allowed_list: 0-7\n",
    ]);
    prop_oneof![
        3 => nearly.prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..60),
    ]
}

const FILES: [&str; 16] = [
    "proc/self/cgroup",
    "proc/self/mountinfo",
    "proc/self/status",
    "proc/meminfo",
    "proc/stat",
    "sys/fs/cgroup/memory.max",
    "sys/fs/cgroup/memory.current",
    "sys/fs/cgroup/memory.stat",
    "sys/fs/cgroup/cpu.max",
    "sys/fs/cgroup/cpu.stat",
    "sys/fs/cgroup/memory/memory.limit_in_bytes",
    "sys/fs/cgroup/memory/memory.usage_in_bytes",
    "sys/fs/cgroup/memory/memory.stat",
    "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us",
    "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us",
    "sys/fs/cgroup/cpu,cpuacct/cpuacct.usage",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_files_say_there_is_a_reading_or_an_error_that_names_a_file(
        sane in any::<bool>(),
        files in prop::collection::vec((prop::sample::select(FILES.to_vec()), contents()), 0..12),
    ) {
        let tree = Tree::new();
        if sane {
            tree.cgroups("0::/\n", V2_MOUNT);
        }
        for (path, contents) in files {
            tree.file(path, contents);
        }
        match CgroupMemory::detect_under(tree.root()) {
            Ok(mut source) => prop_assert!(source.read().is_ok()),
            Err(error) => prop_assert!(error.file().is_some()),
        }
        match CgroupCpu::detect_under(tree.root()) {
            Ok(mut source) => prop_assert!(source.read().is_ok()),
            Err(error) => prop_assert!(error.file().is_some()),
        }
        match MachineCpu::under(tree.root()) {
            Ok(mut source) => prop_assert!(source.read().is_ok()),
            Err(error) => prop_assert!(error.file().is_some()),
        }
    }
}
