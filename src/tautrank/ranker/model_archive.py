"""The zip archive of a model file: a description as JSON, and the trees it describes.

Members are read into memory up to a limit and never unpacked to disk.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from typing import Any

from tautrank.errors import DataError

FORMAT = "tautrank model"
FORMAT_VERSION = 4
ZIP_START = b"PK\x03\x04"

_META = "meta.json"
# An archive made to fill the memory expands a thousandfold; trees as text shrink to a third or so.
_SIZE_NEVER_REFUSED = 256 * 2**20
_LARGEST_RATIO = 100
# The oldest date zip knows, and fixed permissions: the bytes of an archive depend on the model alone.
_DATE = (1980, 1, 1, 0, 0, 0)
_PERMISSIONS = 0o644 << 16
_UNIX = 3  # zip's number of the system that wrote an archive
_COMPRESSION_LEVEL = 6


def write_archive(file: Any, meta: dict[str, Any], trees: bytes) -> None:
    """Write the description of a model (as JSON) and its trees as a zip archive to an open binary
    file or a path.

    Args:
        file: the file.
        meta: the description; its entry ``model`` has the name of the member with the trees.
        trees: the trees in their engine's own format.
    """
    text = json.dumps(meta, indent=1, ensure_ascii=False, allow_nan=False)
    with zipfile.ZipFile(file, "w") as archive:
        _add(archive, _META, text.encode("utf-8", "surrogatepass"))
        _add(archive, meta["model"]["member"], trees)


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    """Write a compressed member into a zip archive, with the same bytes on every system: date,
    permissions and system are constants, not those of the machine.
    """
    entry = zipfile.ZipInfo(name, _DATE)
    entry.external_attr = _PERMISSIONS
    entry.create_system = _UNIX
    archive.writestr(entry, content, zipfile.ZIP_DEFLATED, _COMPRESSION_LEVEL)


def read_archive(content: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the description of a model and its trees from the bytes of a model file, a zip archive;
    raise an error that says why if it is none.
    """
    if not content:
        raise DataError("is empty; expected a model saved by tautrank")
    start = content[:4]
    # A file cut off after fewer than 4 bytes may still be the beginning of a zip archive.
    if start != ZIP_START[: len(start)]:
        raise not_a_model(f"is not a tautrank model (it starts with {start!r})")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            meta = _meta(archive)
            return meta, _trees(archive, meta)
    except DataError:
        raise
    except Exception:  # zipfile does not say what it raises at damaged bytes; mostly BadZipFile
        # The list of members stands at the end, and is the first thing to go.
        raise DataError("is cut off or damaged at its end; expected a whole model file") from None


def not_a_model(reason: str) -> DataError:
    """Return the error for a file that is something else than a model."""
    return DataError(f"{reason}; expected a file written by Ranker.save")


def _meta(archive: zipfile.ZipFile) -> dict[str, Any]:
    """Return the description of a model from a zip archive, its member ``meta.json``; raise an error
    if it is none, or of a format that this version does not read.
    """
    if _META not in archive.namelist():
        raise not_a_model(f"is not a tautrank model (a zip archive without {_META})")
    text = _member(archive, _META)
    try:
        meta = json.loads(text)
    except (ValueError, RecursionError):
        raise not_a_model(f"{_META} is not JSON") from None

    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        raise not_a_model(f"is not a tautrank model ({_META} does not say so)")
    version = meta.get("format_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise DataError(f"has the format version {version!r}; expected {FORMAT_VERSION}")
    if version > FORMAT_VERSION:
        writer = meta.get("tautrank_version", "a newer one")
        raise DataError(
            f"has the format version {version}, written by tautrank {writer}; "
            f"expected at most {FORMAT_VERSION} (pip install --upgrade tautrank)"
        )
    return meta


def _trees(archive: zipfile.ZipFile, meta: dict[str, Any]) -> bytes:
    """Return the trees of a model from a zip archive; raise an error if they are not there, or not
    those whose checksum the description has.

    Args:
        archive: the archive.
        meta: the description; its entry ``model`` has the name of the member and the checksum.
    """
    model = meta.get("model")
    if not isinstance(model, dict) or not isinstance(model.get("member"), str):
        raise not_a_model(f"{_META} does not say where the trees are")
    member = model["member"]
    if member not in archive.namelist():
        raise DataError(f"has no member '{member}'; expected the trees there")

    trees = _member(archive, member)
    if hashlib.sha256(trees).hexdigest() != model.get("sha256"):
        raise DataError(
            f"'{member}' is not what {_META} describes; expected the trees it was saved with"
        )
    return trees


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    """Return the content of a member of a zip archive; raise an error if it is damaged, or larger
    than a model can be.
    """
    entry = archive.getinfo(name)
    # Against archives of a few bytes that unpack to fill the memory: trees may be larger than the
    # limit if they are not compressed more than real trees are.
    limit = _SIZE_NEVER_REFUSED
    if name != _META:
        limit = max(limit, _LARGEST_RATIO * entry.compress_size)
    if entry.file_size > limit:
        raise DataError(
            f"'{name}' would take {entry.file_size:,} bytes; expected at most {limit:,}"
        )
    try:
        with archive.open(entry) as file:
            # An archive may lie: no more than the size it names is unpacked, and then fails its
            # checksum.
            return file.read(entry.file_size)
    except Exception:  # damaged bytes raise many kinds of errors in zipfile and zlib
        raise DataError(
            f"'{name}' is damaged (it fails its checksum); expected a whole model file"
        ) from None
