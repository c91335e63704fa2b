"""A browser for the report: one that is there, or else one that is installed now; without one the tests fail."""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def found() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def installed_by_apt() -> str | None:
    if shutil.which("apt-get") is None or not hasattr(os, "geteuid") or os.geteuid() != 0:
        return None
    # Test processes run side by side, and apt-get refuses to: one installs, the others wait and find it done.
    with open(os.path.join(tempfile.gettempdir(), "pmlda-chromium.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for arguments in (["update"], ["install", "-y", "chromium"]):
            if found() is None:
                subprocess.run(["apt-get", *arguments], capture_output=True, timeout=900, check=False)
    return found()


def own_of(playwright: Any) -> str | None:
    path = playwright.chromium.executable_path
    return path if os.path.exists(path) else None


def installed_by_playwright(playwright: Any) -> str | None:
    command = [sys.executable, "-m", "playwright", "install", "chromium"]
    subprocess.run(command, capture_output=True, timeout=600, check=False)
    return own_of(playwright)


def no_browser(reason: str) -> None:
    if os.environ.get("PMLDA_NO_BROWSER") == "1" and not os.environ.get("CI"):
        pytest.skip(f"{reason} Skipped because PMLDA_NO_BROWSER=1.")
    pytest.fail(
        f"{reason} Install playwright (pip install 'pmlda[test]') and Chromium (apt-get install chromium, or "
        "python -m playwright install chromium). PMLDA_NO_BROWSER=1 skips these tests, but not where CI is set."
    )


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    if os.environ.get("PMLDA_NO_BROWSER") == "1" and not os.environ.get("CI"):
        pytest.skip("Tests of the report in a browser are skipped because PMLDA_NO_BROWSER=1.")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        no_browser("The Python package playwright is not installed.")
    with sync_playwright() as playwright:
        path = found() or own_of(playwright) or installed_by_apt() or installed_by_playwright(playwright)
        if path is None:
            no_browser("There is no Chromium, and none could be installed.")
        launched = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield launched
        launched.close()
