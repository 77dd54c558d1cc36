"""Exceptions for errors caused by users or files. Any other exception that is raised is a bug in glassformer."""


class GlassformerError(Exception):
    """Base class of all errors caused by users or files.

    The message is one or two sentences: what was found, where, what was expected, and the way out.

    >>> try:
    ...     gf.load("street")("The animal slept.", beem=3)
    ... except gf.GlassformerError as error:
    ...     print(error)
    There is no option 'beem'; did you mean 'beam'?
    """


class SettingsError(GlassformerError):
    """An option that is unknown, missing, of the wrong type, or inconsistent with the others."""


class DirectoryError(GlassformerError):
    """A file or directory that is missing, damaged, incomplete, or not of the expected format."""


class DataError(GlassformerError):
    """A text file that cannot be used as it is: encoding, lines, columns, or a mismatch with its parallel file."""


class InputError(GlassformerError):
    """An invalid argument: ids, masks, lengths, names."""


class MissingPackageError(InputError):
    """A package that is not installed, of an extra that the task needs."""
