"""The zip archive in which torch keeps a checkpoint: its directory, read strictly, and the checksums of its records.

By hand, since ``zipfile`` moves offsets by whatever stands before the archive, looks for a zip64 end elsewhere than
torch's reader, and takes a directory whose last entry is cut off: a file could show each of them other records.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any, NamedTuple

try:
    from zlib_ng import zlib_ng as zlib  # four times as fast
except ImportError:
    import zlib  # type: ignore[no-redef]

crc32 = zlib.crc32

CHUNK = 1 << 20
"""Bytes read at a time for a checksum: small enough to stay in the processor's cache."""

NO_CHECKSUM = 0
"""Checksum in files written under ``torch.serialization.set_crc32_options(False)``."""

_END = struct.Struct("<4s4H2LH")
_END64_PLACE = struct.Struct("<4sLQL")
_END64 = struct.Struct("<4sQ2H2L4Q")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_HEADER = struct.Struct("<4s5H3L2H")
_FULL = 0xFFFFFFFF
_UNREADABLE = 1 | 1 << 5 | 1 << 6 | 1 << 13
"""Flags of an encrypted record, a patch, a strongly encrypted record, a masked header: torch reads none."""
_FOLDER = 0x10
"""The attribute of a folder, of which torch reads no bytes."""


class DamagedError(Exception):
    """An archive that is cut off, altered, or built in a way that readers could take differently."""


class Record(NamedTuple):
    """One file in the archive.

    Attributes:
        name: its name without the archive's own folder: ``data.pkl``, ``data/0``.
        start: offset of its first byte.
        size: bytes.
        crc: CRC-32 of them.
    """

    name: str
    start: int
    size: int
    crc: int


class Archive:
    """The records of an open file. The directory must agree with itself, so that any other reader sees the same.

    Records are stored as they are (a packed one could unfold to any size), one after the other, with different names
    in one folder.

    Args:
        file: open for reading in binary.

    Raises:
        DamagedError: for anything else.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.size = file.seek(0, 2)
        try:
            count, start, length = self._end()
            self.records = {record.name: record for record in self._entries(count, start, length)}
        except (struct.error, UnicodeDecodeError, IndexError) as error:
            raise DamagedError("its directory is cut off or altered") from error
        if len(self.records) != count:
            raise DamagedError("two of its records have the same name")

    def read(self, name: str) -> bytes:
        """Return the contents of a record.

        Raises:
            DamagedError: where there is none of this name, or its checksum is wrong.
        """
        if name not in self.records:
            raise DamagedError(f"it has no record {name!r}, so torch.save did not write it or it is damaged")
        record = self.records[name]
        contents = self._bytes(record.start, record.size)
        _check_sum(record, crc32(contents))
        return contents

    @contextmanager
    def verifying(self) -> Iterator[IO[bytes]]:
        """Give the file to a block that reads records from it; each is compared as it is read, the others at the end.

        Raises:
            DamagedError: naming the first record whose bytes have changed, whatever the block raised.
        """
        file = _Summing(self)
        try:
            yield file  # type: ignore[misc]
        finally:
            for record, crc in file.summed.items():
                _check_sum(record, crc)
            _compare(self.file, [record for record in self.records.values() if record not in file.summed])

    def _bytes(self, start: int, size: int) -> bytes:
        if 0 <= start <= self.size - size:
            self.file.seek(start)
            if len(contents := self.file.read(size)) == size:
                return contents
        raise DamagedError("it is cut off")

    def _end(self) -> tuple[int, int, int]:
        """Return how many entries the directory has, where it starts, and its length in bytes."""
        place = self.size - _END.size
        magic, disk, first_disk, here, count, length, start, comment = _END.unpack(self._bytes(place, _END.size))
        if magic != b"PK\x05\x06" or comment or disk or first_disk or here != count:
            raise DamagedError("it is cut off, or something follows its end")
        if _FULL in (start, length) or count == 0xFFFF or self._bytes(max(place - 20, 0), 4) == b"PK\x06\x07":
            place, count, start, length = self._end64(place - _END64_PLACE.size)
        if start + length != place:
            raise DamagedError("its directory does not stand at its end")
        return count, start, length

    def _end64(self, place: int) -> tuple[int, int, int, int]:
        magic, at_disk, place64, disks = _END64_PLACE.unpack(self._bytes(place, _END64_PLACE.size))
        end64 = _END64.unpack(self._bytes(place64, _END64.size))
        magic64, more, _, _, disk, first_disk, here, count, length, start = end64
        if at_disk or disks != 1 or disk or first_disk:
            raise DamagedError("its end says that it has further parts")
        if magic != b"PK\x06\x07" or magic64 != b"PK\x06\x06" or here != count or place64 + more + 12 != place:
            raise DamagedError("its directory is cut off or altered")
        return place64, count, start, length

    def _entries(self, count: int, start: int, length: int) -> Iterable[Record]:
        directory, at, free = self._bytes(start, length), 0, 0
        folder: bytes | None = None
        names: set[bytes] = set()
        for _ in range(count):
            raw = _ENTRY.unpack_from(directory, at)
            magic, flags, method, crc, packed, size, disk, offset = (raw[i] for i in (0, 3, 4, 7, 8, 9, 13, 16))
            extra = (first := at + _ENTRY.size) + raw[10]
            name, at = directory[first:extra], extra + raw[11] + raw[12]
            size, packed, offset = _wide([size, packed, offset], directory[extra : extra + raw[11]])
            here, _, inner = name.partition(b"/")
            folder = here if folder is None else folder
            if magic != b"PK\x01\x02":
                raise DamagedError("its directory is altered")
            # torch's reader finds names without regard to case: two such names are one to it
            leads_out = b"\\" in inner or b"\0" in inner or {b"", b".", b".."}.intersection(inner.split(b"/"))
            if here != folder or leads_out or name.lower() in names:
                raise DamagedError(f"its record {name[:80]!r} has a name that it may not have")
            names.add(name.lower())
            if method or size != packed or flags & _UNREADABLE:
                raise DamagedError(f"its record {name[:80]!r} is packed or encrypted")
            if disk or raw[15] & _FOLDER:
                raise DamagedError(f"its record {name[:80]!r} is said to be a folder, or in another part")
            begin = self._begin(offset, name)
            # records over one another let a small file stand for any amount of memory
            if offset < free or begin + size > start:
                raise DamagedError(f"its record {name[:80]!r} overlaps another")
            free = begin + size
            yield Record(inner.decode(), begin, size, crc)
        if at != length:
            raise DamagedError("its directory is longer than its entries")

    def _begin(self, offset: int, name: bytes) -> int:
        """Return where the contents of the record begin whose header stands at ``offset``."""
        magic, _, flags, method, *_, named, more = _HEADER.unpack(self._bytes(offset, _HEADER.size))
        same = self._bytes(offset + _HEADER.size, named) == name
        if magic != b"PK\x03\x04" or method or flags & _UNREADABLE or not same:
            raise DamagedError(f"its record {name[:80]!r} is not where the directory says")
        return int(offset + _HEADER.size + named + more)


def _wide(values: list[int], extra: bytes) -> list[int]:
    """Return a record's size, its size as stored, and the offset of its header; in zip64 they stand in ``extra``."""
    while _FULL in values and len(extra) >= 4:
        kind, length = struct.unpack_from("<2H", extra)
        if kind == 1:
            wide = iter(struct.unpack_from(f"<{values.count(_FULL)}Q", extra, 4))
            return [next(wide) if value == _FULL else value for value in values]
        extra = extra[4 + length :]
    return values


class _Summing(io.RawIOBase):
    """An archive's file, in which each record that is read whole is summed on the way, so that it is read once.

    Attributes:
        summed: the checksums of these records.
    """

    def __init__(self, archive: Archive) -> None:
        self._file = archive.file
        self._records = {(record.start, record.size): record for record in archive.records.values()}
        self.summed: dict[Record, int] = {}

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._file.seek(offset, whence)

    def readinto(self, buffer: Any, /) -> int:
        whole = memoryview(buffer).cast("B")
        record = self._records.get((self._file.tell(), len(whole)))
        count, crc = _summed(self._file, (whole[at : at + CHUNK] for at in range(0, len(whole), CHUNK)))
        if record is not None and count == record.size:
            self.summed[record] = crc
        return count


def _compare(file: IO[bytes], records: list[Record]) -> None:
    buffer = memoryview(bytearray(CHUNK))
    for record in records:
        file.seek(record.start)
        count, crc = _summed(file, (buffer[: record.size - at] for at in range(0, record.size, CHUNK)))
        if count != record.size:
            raise DamagedError("it is cut off")
        _check_sum(record, crc)


def _summed(file: Any, parts: Iterable[memoryview]) -> tuple[int, int]:
    """Read into ``parts`` until the file ends; return the bytes read and their CRC-32."""
    done = crc = 0
    for part in parts:
        count = 0
        while count < len(part) and (more := file.readinto(part[count:])):
            count += more
        done, crc = done + count, crc32(part[:count], crc)
        if count < len(part):
            break
    return done, crc


def _check_sum(record: Record, crc: int) -> None:
    if crc != record.crc and record.crc != NO_CHECKSUM:
        raise DamagedError(f"the checksum of its record {record.name!r} is wrong")
