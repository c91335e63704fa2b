"""Pipes, sockets and devices are refused at once; files, folders and what does not exist are left to their readers."""

import os
import socket
from pathlib import Path

import pytest

from pmlda.errors import ImageError, PmldaError
from pmlda.storage.regular import require_regular, require_regular_inside


def test_a_named_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(ImageError, match=r"pipe\.png is a named pipe, not a regular file\. Copy"):
        require_regular(tmp_path / "pipe.png", ImageError)


def test_a_device_is_refused_at_the_end_of_a_link_too(tmp_path: Path) -> None:
    (tmp_path / "zeros.npy").symlink_to("/dev/zero")
    with pytest.raises(PmldaError, match=r"zeros\.npy is a device"):
        require_regular(tmp_path / "zeros.npy")


def test_a_socket_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as door:
        door.bind("door")
        with pytest.raises(PmldaError, match="door is a socket"):
            require_regular("door")


def test_files_folders_links_and_missing_paths_pass(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "broken").symlink_to(tmp_path / "nothing")
    for name in ("file", "link", "broken", "missing", "."):
        assert require_regular(tmp_path / name) is None
    assert require_regular_inside(tmp_path) is None


def test_a_pipe_deep_inside_a_folder_is_found(tmp_path: Path) -> None:
    (tmp_path / "c" / "0").mkdir(parents=True)
    os.mkfifo(tmp_path / "c" / "0" / "1")
    with pytest.raises(ImageError, match="c/0/1 is a named pipe"):
        require_regular_inside(tmp_path, ImageError)
