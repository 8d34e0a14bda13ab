"""What ran where."""

import collections
import contextlib
import threading
import time


class Report:
    """Counts of one process: `kernels` by name that Tegula has taken (texts, not specialisations), `refused` by name with
    the reason of the first refusal and how many launches went to Triton, `seconds` in which Tegula was about to launch
    kernels for the first time or to refuse them, compiling included, and `thread_seconds`: the same summed over the
    threads that compile at a time."""

    def __init__(self, kernels, refused, seconds, thread_seconds):
        self.kernels, self.refused, self.seconds, self.thread_seconds = kernels, refused, seconds, thread_seconds

    def __str__(self):
        lines = [f"{sum(self.kernels.values())} kernels by Tegula, {len(self.refused)} by Triton, first launches "
                 f"{self.seconds:.2f} s"]
        for name, (count, reason) in sorted(self.refused.items()):
            lines.append(f"  {name}, {count} launches by Triton: {reason.splitlines()[0] if reason else 'no reason'}")
        return "\n".join(lines)


_lock = threading.Lock()
_kernels, _refused = collections.Counter(), {}


class Clock:
    """How long some thread was at work, and the sum over the threads."""

    def __init__(self):
        self.clear()
        self.working, self.changed = 0, 0.0

    def clear(self):
        self.elapsed = self.summed = 0.0

    def change(self, by):
        """`by` more threads work from now on."""
        now = time.perf_counter()
        self.elapsed += (now - self.changed) * (self.working > 0)
        self.summed += (now - self.changed) * self.working
        self.working, self.changed = self.working + by, now


_clock = Clock()


def count_kernel(name):
    with _lock:
        _kernels[name] += 1


def count_refusal(name, reason):
    with _lock:
        count, first = _refused.get(name, (0, reason))
        _refused[name] = count + 1, first


@contextlib.contextmanager
def counted_seconds():
    """The time of the block counts as Tegula's until first launches."""
    with _lock:
        _clock.change(1)
    try:
        yield
    finally:
        with _lock:
            _clock.change(-1)


def report(clear=False):
    """The Report since the process began or the last report(clear=True)."""
    with _lock:
        _clock.change(0)
        made = Report(dict(_kernels), dict(_refused), _clock.elapsed, _clock.summed)
        if clear:
            _kernels.clear()
            _refused.clear()
            _clock.clear()
        return made
