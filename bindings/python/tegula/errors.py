"""Errors and warnings of the library."""



class Error(Exception):
    """Base of what the library reports; the text is its full diagnostic."""


class Diagnostic:
    """A mistake in a kernel's text: file (None if it has no place), line and column (0: not known), message, hint."""

    def __init__(self, file, line, column, message, hint):
        self.file, self.line, self.column, self.message, self.hint = file, line, column, message, hint

    def __repr__(self):
        return f"<tegula.Diagnostic {self.file}:{self.line}:{self.column}: {self.message}>"


class CompileError(Error):
    """The kernel's text, or what it is compiled for, is wrong. `diagnostics` has the mistakes one by one; file, line,
    column, message and hint are those of the first."""

    def __init__(self, text, diagnostics=()):
        super().__init__(text)
        self.diagnostics = list(diagnostics)
        first = self.diagnostics[0] if self.diagnostics else Diagnostic(None, 0, 0, text, "")
        self.file, self.line, self.column = first.file, first.line, first.column
        self.message, self.hint = first.message, first.hint

    def __reduce__(self):
        return type(self), (self.args[0], self.diagnostics)


class KernelWarning(UserWarning):
    """What the library warns of: something in a kernel that compiles, configurations that do not."""


class LaunchError(Error):
    """The arguments or options of a launch do not fit the kernel."""


class DeviceError(Error, RuntimeError):
    """A device or its driver refused, or a kernel failed there: a fault, an assert."""


class DeviceLostError(DeviceError):
    """A kernel that ran earlier faulted: the GPU cannot be used by this process any more."""


class FileError(Error, OSError):
    """A file could not be read or written."""


class InternalError(Error):
    """A mistake of Tegula itself: its text says what a report should hold. The module works on."""


ERRORS = {1: CompileError, 2: LaunchError, 3: DeviceError, 4: DeviceLostError, 5: FileError, 8: InternalError}
USAGE_ERROR = 6


class Wrong(Exception):
    """What is wrong with a value, for a sentence that begins with whose it is."""


class IsTuple(Exception):
    """An argument of a launch is a tuple, which takes more than a word."""
