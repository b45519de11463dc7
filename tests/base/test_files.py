import gzip
import io
import lzma
import os
import stat
import subprocess
import sys

import pytest

from equifactor.base.errors import FormatError
from equifactor.base.files import label, make_folder, read_bytes, read_chunks, split_name, write_bytes, write_text

TEXT = b"MARKOV\n1\n2\n0\n"
as_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may do anything")


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress], ids=["plain", "gz", "xz"])
@pytest.mark.parametrize("name", ["m.uai", "m.uai.gz", "m.uai.xz", "m"])
def test_reading_looks_at_the_content_not_the_name(tmp_path, pack, name):
    path = tmp_path / name
    path.write_bytes(pack(TEXT))
    assert read_bytes(path) == TEXT
    assert read_bytes(str(path)) == TEXT
    assert list(read_chunks(path, size=5)) == [TEXT[:5], TEXT[5:10], TEXT[10:]]


def test_several_gzip_members_are_one_text(tmp_path):
    path = tmp_path / "m.gz"
    path.write_bytes(gzip.compress(TEXT) + gzip.compress(TEXT))
    assert read_bytes(path) == 2 * TEXT


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gz"])
def test_stdin(monkeypatch, pack):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(pack(TEXT))))
    assert read_bytes("-") == TEXT
    assert label("-") == "<stdin>"


def test_pipe(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["sh", "-c", f"printf hello > {pipe}"]):
        assert read_bytes(pipe) == b"hello"


@pytest.mark.parametrize(
    ("path", "stem", "suffix"),
    [
        ("-", None, ""),
        ("a/grid.uai", "grid", ".uai"),
        ("grid.f10.wrap.uai.gz", "grid.f10.wrap", ".uai"),
        ("grid.LG.xz", "grid", ".lg"),
        ("GRID.UAI.GZ", "GRID", ".uai"),
        ("grid", "grid", ""),
        ("grid.gz", "grid", ""),
        (".gz", ".gz", ""),
        (".uai", ".uai", ""),
    ],
)
def test_split_name(path, stem, suffix):
    assert split_name(path) == (stem, suffix)


@pytest.mark.parametrize(
    ("content", "fragment"),
    [
        (gzip.compress(TEXT * 50)[:-9], "truncated"),
        (gzip.compress(TEXT)[:3], "truncated"),
        (lzma.compress(TEXT * 50)[:-9], "truncated"),
        (gzip.compress(TEXT)[:-8] + b"\0" * 8, "CRC check failed"),
        (b"\x1f\x8b" + b"\x07" * 50, "damaged"),
        (gzip.compress(TEXT)[:10] + b"\xff" * 50, "damaged"),
        (lzma.compress(TEXT)[:6] + b"\xff" * 50, "damaged"),
        (b"PK\x03\x04zip", "a zip archive. Decompress it first"),
        (b"BZh91AY", "a bzip2 file. Decompress it first"),
        (gzip.compress(TEXT) + b"junk", "damaged"),
        ("MARKOV".encode("utf-16"), "UTF-16 text. Save it as UTF-8"),
    ],
    ids=[
        "gz cut",
        "gz cut early",
        "xz cut",
        "gz sum",
        "gz method",
        "gz junk",
        "xz junk",
        "zip",
        "bzip2",
        "gz tail",
        "utf-16",
    ],
)
def test_broken_compression(tmp_path, content, fragment):
    path = tmp_path / "m.uai.gz"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=fragment) as caught:
        read_bytes(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_a_file_that_unpacks_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIFACTOR_READ_LIMIT", str(2.0**-6))  # 2^24 bytes, of which 2^20 bytes of text
    path = tmp_path / "m.uai.xz"
    path.write_bytes(lzma.compress(b"0 " * 2**22))
    with pytest.raises(FormatError, match="more than 200 times larger than the file"):
        read_bytes(path)


@pytest.mark.parametrize(
    ("path", "fragment"),
    [
        ("missing.uai", "no such file"),
        (".", "is a directory"),
        ("", "not a file name"),
        ("a\0b", "not a file name"),
    ],
)
def test_unreadable(tmp_path, monkeypatch, path, fragment):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FormatError, match=fragment):
        read_bytes(path)


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="needs /dev/zero")  # noqa: PTH110
def test_endless_device():
    with pytest.raises(FormatError, match="is a device"):
        read_bytes("/dev/zero")


@as_root
def test_no_permission_to_read(tmp_path):
    path = tmp_path / "m.uai"
    path.write_bytes(TEXT)
    path.chmod(0)
    with pytest.raises(FormatError, match="permission denied"):
        read_bytes(path)


# ---- writing --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["m.uai", "m.uai.gz", "m.uai.xz"])
def test_writing_and_reading_back(tmp_path, name):
    path = tmp_path / name
    write_text(path, (line for line in ["MARKOV\n", "1\n2\n0\n"]))
    assert read_bytes(path) == TEXT
    assert (path.read_bytes() == TEXT) == (name == "m.uai")
    write_text(path, "ä")
    assert read_bytes(path).decode() == "ä"
    assert [p.name for p in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("data", [TEXT, [TEXT[:4], TEXT[4:]]], ids=["at once", "streamed"])
@pytest.mark.parametrize("name", ["m.bin", "m.bin.gz"])
def test_bytes_are_written_at_once_or_streamed(tmp_path, name, data):
    write_bytes(tmp_path / name, data)
    assert read_bytes(tmp_path / name) == TEXT
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_folders_are_made_where_they_are_missing(tmp_path):
    for _ in range(2):
        make_folder(tmp_path / "deep" / "folder")
    assert (tmp_path / "deep" / "folder").is_dir()
    (tmp_path / "file").write_text("")
    with pytest.raises(FormatError, match="file: cannot create this folder: file exists"):
        make_folder(tmp_path / "file")


def test_compressed_bytes_do_not_depend_on_name_or_time(tmp_path):
    for name in ("a.gz", "b.gz"):
        write_text(tmp_path / name, "text")
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


@pytest.mark.parametrize("name", ["m.uai", "m.uai.gz", "m.uai.xz"])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, OSError])
def test_a_failure_leaves_the_old_file(tmp_path, name, error):
    path = tmp_path / name
    path.write_bytes(b"old")

    def chunks():
        yield "new" * 1000
        raise error("half way")

    with pytest.raises(FormatError if error is OSError else error, match="half way"):
        write_text(path, chunks())
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_modes_and_links_are_kept(tmp_path):
    path, link = tmp_path / "m.uai", tmp_path / "link.uai"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    write_text(link, "new")
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    umask = os.umask(0o027)
    try:
        write_text(tmp_path / "fresh", "new")
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "fresh").stat().st_mode) == 0o640


@pytest.mark.parametrize(("path", "fragment"), [("no/m.uai", "there is no folder"), (".", "it is a directory")])
def test_unwritable(tmp_path, monkeypatch, path, fragment):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FormatError, match=fragment):
        write_text(path, "text")


def test_read_only_file_is_kept(tmp_path):
    path = tmp_path / "m.uai"
    path.write_text("old")
    path.chmod(0o444)
    with pytest.raises(FormatError, match="read-only"):
        write_text(path, "new")
    assert path.read_text() == "old"


@as_root
def test_read_only_folder(tmp_path):
    tmp_path.chmod(0o555)
    with pytest.raises(FormatError, match="permission denied"):
        write_text(tmp_path / "other", "new")
    tmp_path.chmod(0o755)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")  # noqa: PTH110
def test_devices_are_written_directly():
    write_text("/dev/null", "text")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)  # noqa: PTH116
    with pytest.raises(FormatError, match="cannot write this file: no space left"):
        write_text("/dev/full", "text" * 10_000)


def test_stdout(capsys):
    write_text("-", ["a", "b\n"])
    assert capsys.readouterr().out == "ab\n"
