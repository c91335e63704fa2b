"""How much memory this process can still take: of the machine, of its container, of its own limit."""

from pathlib import Path

# Of every version of control groups: file with the limit, file with what is used, and which cached files can give way.
GROUP_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def free_memory(root: Path = Path("/")) -> int | None:
    """Bytes that this process could take without swapping, None where the system does not tell."""
    known = [_free_in_machine(root), _free_in_groups(root), _free_to_process(root)]
    return min((each for each in known if each is not None), default=None)


def _free_in_machine(root: Path) -> int | None:
    found = _table(root / "proc/meminfo").get("MemAvailable:")
    return None if found is None else found * 1024


def _free_in_groups(root: Path) -> int | None:
    """The least that is left in the control groups of this process and in those around them, as of a container."""
    left = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, kinds, path = line.split(":", 2)
        if kinds and "memory" not in kinds.split(","):
            continue
        base = root / "sys/fs/cgroup" / ("memory" if kinds else "")
        inner = base / path.lstrip("/")
        for group in (inner, *(each for each in inner.parents if each.is_relative_to(base))):
            left += [_free_in_group(group, *files) for files in GROUP_FILES]
    return min((each for each in left if each is not None), default=None)


def _free_in_group(group: Path, limit: str, used: str, idle: str) -> int | None:
    most, now = _text(group / limit).strip(), _text(group / used).strip()
    if not most.isdigit() or not now.isdigit():  # no group of this version, or "max"
        return None
    return max(0, int(most) - int(now) + _table(group / "memory.stat").get(idle, 0))


def _free_to_process(root: Path) -> int | None:
    """What `ulimit -v` leaves."""
    try:
        import resource  # late: Windows has none
    except ImportError:
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    pages = _text(root / "proc/self/statm").split()
    if limit == resource.RLIM_INFINITY or not pages:
        return None
    return max(0, limit - int(pages[0]) * resource.getpagesize())


def _table(path: Path) -> dict[str, int]:
    """Names and numbers, a pair in each line."""
    lines = (line.split() for line in _text(path).splitlines())
    return {words[0]: int(words[1]) for words in lines if len(words) > 1 and words[1].isdigit()}


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""
