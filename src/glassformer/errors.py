"""Everything a user or a file can cause, as one small family. Anything else that is raised is our bug."""


class GlassformerError(Exception):
    """One sentence or two: what was found, where, what was wanted, and the way out."""


class SettingsError(GlassformerError):
    """An option that is unknown, missing, of the wrong kind, or that makes no sense beside the others."""


class DirectoryError(GlassformerError):
    """A file or directory that is absent, damaged, incomplete, or not what it says it is."""


class DataError(GlassformerError):
    """A text file that cannot be used as it is: its encoding, its lines, its columns, its counterpart."""


class InputError(GlassformerError):
    """A value handed to a call that it cannot work with: ids, masks, lengths, names."""
