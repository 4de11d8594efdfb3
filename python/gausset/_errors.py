"""Exceptions and the warning of the package."""

import operator


class GaussetError(RuntimeError):
    """A job or a call failed.

    `code` is a stable word for scripts, as in the JSON output of the program (`docs/reference/errors.md`). Two codes
    exist only here: `argument`, a value that a call cannot take, and `internal`, a bug of Gausset.
    """

    code: str

    def __init__(self, message: str, code: str = "internal") -> None:
        super().__init__(message)
        self.code = code


class ArgumentError(GaussetError, ValueError):
    """An argument or option has a wrong value, or does not exist."""


class FileError(GaussetError, OSError):
    """A file or folder is missing, damaged, in the way, or cannot be written."""


class MemoryLimitError(GaussetError, MemoryError):
    """More memory is needed than allowed or available."""


class DeviceError(GaussetError):
    """A device or another program is missing, or failed."""


class GaussetWarning(UserWarning):
    """A problem that does not stop a job."""


def whole(name: str, value: object, low: int, high: int) -> int:
    """A whole number within `low..high`, of any integer type."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise ArgumentError(f"{name}: {value!r} (expected a whole number)", "argument") from None
    if not low <= number <= high:
        raise ArgumentError(f"{name}: {number} (expected {low}..{high})", "argument")
    return number


# Codes whose class is not `FileError`.
_CLASSES: dict[str, type[GaussetError]] = {
    **dict.fromkeys(("argument", "usage", "option", "config-file"), ArgumentError),
    **dict.fromkeys(("internal", "loss", "stopped"), GaussetError),
    **dict.fromkeys(("device", "colmap", "port", "viewer"), DeviceError),
    "memory": MemoryLimitError,
}


def error_of(code: str, message: str) -> GaussetError:
    """The exception of an error of the program."""
    return _CLASSES.get(code, FileError)(message, code)
