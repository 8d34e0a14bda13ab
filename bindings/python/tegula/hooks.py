"""Kernels whose tuning calls hooks of the caller."""

import functools
import threading

from .errors import Error, USAGE_ERROR
from .kernel import Kernel
from .library import lib, make
from .structs import Hook

hooked_calls = threading.local()


class HookedKernel(Kernel):
    """A kernel with hooks of the caller's."""

    def __init__(self, kernel, hooks):
        functions = [Hook(functools.partial(self._call_hook, kind)) if hook else Hook() for kind, hook in hooks.items()]
        self._hooks = hooks
        super().__init__(make(lib.tegula_kernel_with_hooks, kernel._handle, *functions, None), kernel.name)
        self._functions = functions

    def _call_hook(self, kind, user, config, reset_only, error):
        frame = hooked_calls.frames[-1]
        try:
            kwargs = {**frame["kwargs"], **self._config(config)}
            if kind == "config":
                self._hooks[kind](kwargs)
            elif kind == "post":
                self._hooks[kind](kwargs, exception=None if error is None else Error(error.decode()))
            elif reset_only:
                self._hooks[kind](kwargs, reset_only=True)
            else:
                self._hooks[kind](kwargs)
            return 0
        except BaseException as raised:
            frame["error"] = raised
            lib.tegula_set_error(str(raised).encode())
            return USAGE_ERROR

    def _within_frame(self, args, kwargs, work):
        names = [p.name for p in self.params]
        frame = {"kwargs": {**dict(zip(names, args)), **kwargs}, "error": None}
        frames = hooked_calls.__dict__.setdefault("frames", [])
        frames.append(frame)
        try:
            return work()
        except BaseException:
            if frame["error"] is not None:
                raise frame["error"] from None
            raise
        finally:
            frames.pop()

    def _launch(self, grid, args, kwargs):
        return self._within_frame(args, kwargs, lambda: Kernel._launch(self, grid, args, kwargs))

    def facts(self, *args, grid=(1, ), **kwargs):
        return self._within_frame(args, kwargs, lambda: Kernel.facts(self, *args, grid=grid, **kwargs))
