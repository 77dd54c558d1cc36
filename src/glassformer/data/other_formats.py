"""Files that are not text, recognised by their first bytes: each is refused by name, with the way to its text."""

import re
from pathlib import PurePath

from glassformer.errors import DataError

SNIFFED_BYTES = 16
SAVE_AS_TEXT = "save it as plain text in UTF-8, one text per line"
UTF_16 = re.compile(rb"\xff\xfe|\xfe\xff|([^\0]\0){4}|(\0[^\0]){4}")
"""A byte order mark, or without one: every second byte is NUL, as in most languages."""
FORMATS = (
    (UTF_16, "UTF-16", "convert it first, with `iconv -f UTF-16 -t UTF-8`"),
    (re.compile(rb"PK\x03\x04"), "a ZIP archive", SAVE_AS_TEXT),
    (re.compile(rb"\xd0\xcf\x11\xe0"), "a Word or Excel file", SAVE_AS_TEXT),
    (re.compile(rb"%PDF-"), "a PDF file", SAVE_AS_TEXT),
    (re.compile(rb"\{\\rtf"), "an RTF file", SAVE_AS_TEXT),
    (re.compile(rb"\x1f\x8b\x08"), "compressed by gzip", "decompress it first, with `gzip -dc`"),
    (re.compile(rb"BZh[1-9]1AY&SY"), "compressed by bzip2", "decompress it first, with `bzip2 -dc`"),
    (re.compile(rb"\xfd7zXZ\0"), "compressed by xz", "decompress it first, with `xz -dc`"),
    (re.compile(rb"\x28\xb5\x2f\xfd"), "compressed by zstd", "decompress it first, with `zstd -dc`"),
)
"""First bytes, what has them, and the way out."""
ZIP_ARCHIVES = {".docx": "a Word document", ".xlsx": "an Excel workbook", ".odt": "an OpenDocument text"}


def refuse_other_formats(first: bytes, name: str) -> None:
    """Raise an error if a file that begins with these bytes is another program's, or text in UTF-16."""
    for pattern, format_name, way_out in FORMATS:
        if pattern.match(first):
            suffix = PurePath(name).suffix.lower()
            what = ZIP_ARCHIVES.get(suffix, format_name) if format_name == "a ZIP archive" else format_name
            raise DataError(f"{name} is {what}: {way_out}.")
