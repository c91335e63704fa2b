"""What all tests share: a place of their own for the secret of the account, which is made when it is first needed."""

import os
import tempfile

import pytest

_state = tempfile.TemporaryDirectory(prefix="pmlda-state-")
os.environ["XDG_STATE_HOME"] = _state.name


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """Leave nothing behind."""
    _state.cleanup()
