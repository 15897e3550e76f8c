"""Private files: mode 0600, written atomically, never through a link."""

import os

import pytest

from cli.conftest import mode
from holdfast.cli import running_cluster
from holdfast.runtime import private_files
from holdfast.runtime.errors import BadConfiguration, Refused
from holdfast.server.access.credentials import (
    ensure_credentials,
    hash_token,
    server_tls_context,
    write_kubeconfig,
)
from holdfast.server.store.data_directory import DataDirectory
from holdfast.server.user import User

URL = "https://127.0.0.1:6443"


@pytest.fixture
def other(tmp_path):
    """Create a file that must not change."""
    path = tmp_path / "other"
    path.write_bytes(b"precious")
    path.chmod(0o644)
    yield path
    assert path.read_bytes() == b"precious"
    assert mode(path) == 0o644


@pytest.fixture
def credentials(tmp_path):
    return ensure_credentials(tmp_path / "pki", 1.8e9)


def test_kubeconfig_is_not_written_through_a_link_at_its_path(tmp_path, other, credentials):
    path = tmp_path / "kubeconfig"
    path.symlink_to(other)
    write_kubeconfig(credentials, path, URL)
    assert not path.is_symlink()
    assert mode(path) == 0o600


def test_kubeconfig_is_not_written_through_a_link_at_a_guessed_temporary_name(
    tmp_path, other, credentials
):
    (tmp_path / "kubeconfig.new").symlink_to(other)
    write_kubeconfig(credentials, tmp_path / "kubeconfig", URL)
    assert mode(tmp_path / "kubeconfig") == 0o600


def test_kubeconfig_that_others_could_read_is_private_afterwards(tmp_path, credentials):
    path = tmp_path / "kubeconfig"
    path.touch(mode=0o644)
    with path.open("rb") as opened_before:
        write_kubeconfig(credentials, path, URL)
        assert opened_before.read() == b""
    assert mode(path) == 0o600


def test_kubeconfig_in_place_of_a_pipe_does_not_wait_for_a_writer(tmp_path, credentials):
    os.mkfifo(tmp_path / "kubeconfig")
    write_kubeconfig(credentials, tmp_path / "kubeconfig", URL)
    assert (tmp_path / "kubeconfig").is_file()


def test_the_token_of_a_kubeconfig_stays_from_start_to_start(tmp_path, credentials):
    path = tmp_path / "kubeconfig"
    write_kubeconfig(credentials, path, URL)
    before = path.read_bytes()
    write_kubeconfig(credentials, path, URL)
    assert path.read_bytes() == before
    assert len(credentials.tokens) == 1
    assert hash_token("") not in credentials.tokens


@pytest.mark.parametrize("name", ["ca.key", "server.key", "admin.key", "tokens.json"])
def test_keys_and_tokens_are_not_written_through_links(tmp_path, other, name):
    (tmp_path / "pki").mkdir(mode=0o700)
    (tmp_path / "pki" / f"{name}.new").symlink_to(other)
    made = ensure_credentials(tmp_path / "pki", 1.8e9)
    write_kubeconfig(made, tmp_path / "kubeconfig", URL)
    assert mode(tmp_path / "pki" / name) == 0o600


def test_running_json_is_not_written_through_a_link(tmp_path, other):
    data = tmp_path / "data"
    data.mkdir()
    for name in (running_cluster.FILE, "running.new"):
        (data / name).symlink_to(other)
    running_cluster.write_file(data, URL, data / "kubeconfig")
    assert running_cluster.find(data).pid == os.getpid()
    assert mode(data / running_cluster.FILE) == 0o600


def test_a_log_that_is_a_link_is_rejected(tmp_path, other, holdfast):
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "data" / running_cluster.LOG).symlink_to(other)
    done = holdfast("up", "--data-dir", tmp_path / "data", "--detach", "--port", "0")
    assert done.code == 1
    assert f"cannot write the log {tmp_path / 'data' / running_cluster.LOG} (" in done.err


@pytest.mark.parametrize("name", ["ca.key", "server.key", "tokens.json"])
def test_a_key_that_others_can_read_is_named_at_start(tmp_path, credentials, holdfast, name):
    write_kubeconfig(credentials, tmp_path / "kubeconfig", URL)
    (tmp_path / "pki" / name).chmod(0o644)
    nowhere = ("--host", "nowhere.invalid", "--port", "0", "--single-process")
    done = holdfast("up", "--data-dir", tmp_path, *nowhere)
    words = f"warning: {tmp_path / 'pki' / name} has mode 0644: `chmod 600` it;"
    assert done.err.count(words) == 1
    (tmp_path / "pki" / name).chmod(0o600)
    assert "has mode" not in holdfast("up", "--data-dir", tmp_path, *nowhere).err


@pytest.mark.parametrize("name", ["store.lock", "store.db"])
def test_a_store_file_that_is_a_link_is_rejected(tmp_path, other, name):
    (tmp_path / "store").mkdir(mode=0o700)
    (tmp_path / "store" / name).symlink_to(other)
    with pytest.raises(BadConfiguration, match=rf"symbolic links \(.*/{name}\)"):
        DataDirectory(tmp_path / "store")


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "file"
    private_files.write_private(path, b"old")

    def full(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        private_files.write_private(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_directory_that_others_can_write_to_prints_a_warning(tmp_path, capsys):
    for kind, warned in ((0o777, True), (0o1777, False), (0o755, False), (0o700, False)):
        tmp_path.chmod(kind)
        running_cluster.warn_if_shared(tmp_path, tmp_path, tmp_path / "missing")
        output = capsys.readouterr().err
        assert bool(output) is warned
        assert output.count("other users can replace the files in") == warned
    (tmp_path / "file").touch()
    with pytest.raises(Refused, match="choose another directory"):
        running_cluster.prepare_data_dir(tmp_path / "file")


@pytest.mark.parametrize("content", [b"", b"garbage", b"[1]", b"\xff\xfe"])
@pytest.mark.parametrize(
    "name", ["ca.crt", "ca.key", "server.crt", "server.key", "admin.crt", "tokens.json"]
)
def test_unreadable_credentials_are_named(tmp_path, credentials, name, content):
    credentials.create_token(User("u"))
    pki = tmp_path / "pki"
    (pki / name).write_bytes(content)
    if name == "ca.key":  # read only to sign
        (pki / "admin.crt").unlink()
    with pytest.raises(BadConfiguration) as refused:
        server_tls_context(ensure_credentials(pki, 1.8e9))
    assert f"the credentials in {pki} cannot be used (" in str(refused.value)
