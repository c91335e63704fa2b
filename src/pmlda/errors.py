"""Every error that is meant for a user: what was received, what was expected, and what to do about it.

All of them are PmldaErrors, and ValueErrors as well, which is what scikit-learn expects of an estimator. Any other
exception that leaves this package is a bug in it.
"""


class PmldaError(ValueError):
    """Something the user gave, or can change, is wrong. The message says what it is and what to do."""


class InputError(PmldaError):
    """What was given cannot be used, now or later: an argument, a picture without data, too many topics."""


class SettingsError(InputError):
    """Settings that cannot be used."""


class ImageError(InputError):
    """A picture that cannot be read, or maps that cannot be written."""


class ChangedPictureError(ImageError):
    """A picture that has changed while it was read, so that what was found so far belongs to two pictures."""


class DataError(InputError):
    """A data folder that lacks what an experiment needs."""


class OutputError(PmldaError):
    """A result folder that cannot be written or read."""


class ModelFileError(PmldaError):
    """A model file that cannot be read."""


class RunError(PmldaError):
    """A run that cannot be started or resumed."""


class CheckpointError(RunError):
    """Checkpoints that cannot be used for this fit."""


class ClusterError(PmldaError):
    """A cluster that cannot be used, or that failed."""


# Where an error is also one of Python's own, that one comes first: its __new__ is the one that can make both, and Dask
# calls it to bring an exception back from a worker.
class NumericalError(FloatingPointError, PmldaError):
    """Numbers that overflow, because of features or settings of extreme size."""


class MissingLibraryError(ImportError, PmldaError):
    """An optional library that is not installed."""


class MissingFileError(FileNotFoundError, PmldaError):
    """A file or folder that does not exist."""


class NotAFileError(IsADirectoryError, PmldaError):
    """A folder where a file is expected."""


def describe(error: BaseException) -> str:
    """The text of an error for a user. An error of the system names the file, where it is known."""
    if isinstance(error, OSError) and error.strerror:
        file = "A file" if error.filename is None else repr(error.filename)
        return f"{file} could not be read or written: {error.strerror}."
    return str(error) or type(error).__name__


class LeftOutWarning(UserWarning):
    """Pictures that were found in a folder or by a pattern, but could not be read; the others were."""


class KernelCacheWarning(UserWarning):
    """What was compiled cannot be kept, so that the next run will compile it again."""


class WaitingWarning(UserWarning):
    """A run waits for something that the user can provide: it is worth telling at once."""


class TakenError(PmldaError):
    """Another process compiles this kernel; a helper leaves it to that process, and nobody sees this."""
