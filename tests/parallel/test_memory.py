"""Free memory is the least of what the machine, the container and the process have left."""

import resource
import subprocess
import sys

import pytest

from pmlda.parallel.memory import free_memory

GB = 2**30


def write(root, files):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


MACHINE = {"proc/meminfo": f"MemTotal: {16 * 2**20} kB\nMemAvailable: {8 * 2**20} kB\n"}
# Limits may be those of a group around the own one; cached files give way.
CONTAINERS = {
    "none": ({}, 8 * GB),
    "version 2": (
        {
            "proc/self/cgroup": "0::/box/job\n",
            "sys/fs/cgroup/box/memory.max": f"{3 * GB}\n",
            "sys/fs/cgroup/box/memory.current": f"{2 * GB}\n",
            "sys/fs/cgroup/box/memory.stat": f"anon 1\ninactive_file {GB // 2}\n",
            "sys/fs/cgroup/box/job/memory.max": "max\n",
            "sys/fs/cgroup/box/job/memory.current": f"{2 * GB}\n",
        },
        GB + GB // 2,
    ),
    "version 1": (
        {
            "proc/self/cgroup": "5:cpu:/elsewhere\n4:memory:/box\n0::/\n",
            "sys/fs/cgroup/memory/box/memory.limit_in_bytes": f"{GB}\n",
            "sys/fs/cgroup/memory/box/memory.usage_in_bytes": f"{GB // 4}\n",
            "sys/fs/cgroup/cpu/elsewhere/memory.limit_in_bytes": "1\n",
        },
        3 * GB // 4,
    ),
    "full": (
        {
            "proc/self/cgroup": "0::/\n",
            "sys/fs/cgroup/memory.max": f"{GB}\n",
            "sys/fs/cgroup/memory.current": f"{GB + 4096}\n",
        },
        0,
    ),
}


@pytest.mark.parametrize(("files", "free"), CONTAINERS.values(), ids=CONTAINERS.keys())
def test_limits_of_containers_count(files, free, tmp_path):
    write(tmp_path, MACHINE | files)
    assert free_memory(tmp_path) == free


def test_a_system_that_does_not_tell_has_unknown_memory(tmp_path):
    assert free_memory(tmp_path) is None


def test_the_limit_of_the_process_counts():
    code = "from pmlda.parallel.memory import free_memory; print(free_memory())"
    limit = 2 * GB
    told = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    assert 0 < int(told.stdout) < limit, told.stderr
