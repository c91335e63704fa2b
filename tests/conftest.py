"""What all tests share: a place for the secret of the account, which is made when it is first needed, and no refits.

Refits take most of the time of a run on pictures as small as those of tests. Runs within the process of the tests have
none unless a test asks for some, as those do that are about uncertainty. Runs of the command have the usual ones.
"""

import os
import tempfile

import hypothesis
import pytest

from pmlda.settings import Settings

_state = tempfile.TemporaryDirectory(prefix="pmlda-state-")
os.environ["XDG_STATE_HOME"] = _state.name

# How long an example takes depends on the machine and on what else it does, so it is not what a test is about.
hypothesis.settings.register_profile("pmlda", deadline=None)
hypothesis.settings.load_profile("pmlda")

Settings.model_fields["refits"].default = 0
Settings.model_rebuild(force=True)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """Leave nothing behind."""
    _state.cleanup()
