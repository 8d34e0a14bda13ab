"""What ran where."""

import collections
import threading


class Report:
    """Counts of one process: `kernels` by name that Tegula has taken (texts, not specialisations), `refused` by name with
    the reason of the first refusal and how many launches went to Triton, and `seconds` that Tegula took until kernels
    were launched for the first time or refused, its compiling included: the sum over the threads that compile."""

    def __init__(self, kernels, refused, seconds):
        self.kernels, self.refused, self.seconds = kernels, refused, seconds

    def __str__(self):
        lines = [f"{sum(self.kernels.values())} kernels by Tegula, {len(self.refused)} by Triton, first launches "
                 f"{self.seconds:.2f} s"]
        for name, (count, reason) in sorted(self.refused.items()):
            lines.append(f"  {name}, {count} launches by Triton: {reason.splitlines()[0] if reason else 'no reason'}")
        return "\n".join(lines)


_lock = threading.Lock()
_kernels, _refused, _seconds = collections.Counter(), {}, [0.0]


def count_kernel(name):
    with _lock:
        _kernels[name] += 1


def count_refusal(name, reason):
    with _lock:
        count, first = _refused.get(name, (0, reason))
        _refused[name] = count + 1, first


def count_seconds(seconds):
    with _lock:
        _seconds[0] += seconds


def report(clear=False):
    """The Report since the process began or the last report(clear=True)."""
    with _lock:
        made = Report(dict(_kernels), dict(_refused), _seconds[0])
        if clear:
            _kernels.clear()
            _refused.clear()
            _seconds[0] = 0.0
        return made
