"""Loops that a program of the reference is in, and which stores of their iterations have no order."""

import sys

import numpy as np

from element_types import Undecided

open_ = []  # the loops around what runs now, the outermost first
unordered = []  # loops that are over, with such stores


class Loop:
    """One run of a loop. Where its iterations store to one element, the order is open, unless a statement stores to the same
    addresses in each iteration."""

    def __init__(self):
        self.number = -1
        self.places = {}  # of a statement that stores: by iterations, those that it stored to
        self.overwritten = set()  # statements whose numbers a later iteration replaced by others

    def __enter__(self):
        open_.append(self)
        return self

    def __exit__(self, *_):
        if self not in open_:  # of a program before, that an error ended
            return
        open_.remove(self)
        if any(len({tuple(of) for of in self.places[s].values()}) > 1 for s in self.overwritten):
            unordered.append(self)


class Stores:
    """Who stored last to each element of an array."""

    def __init__(self, size):
        self.size, self.last, self.events = size, None, []

    def note(self, places, differs, all_places, frames):
        """A store to `places`, where `differs` tells which held another number; by pointers to `all_places`."""
        if not open_ and self.last is None:
            return
        if self.last is None:
            self.last = np.full(self.size, -1)
        for event in np.unique(self.last[places[differs]]):
            if event >= 0:
                self.overwrite(*self.events[event])
        code = sys._getframe(frames + 1)
        statement = code.f_code, code.f_lasti
        for loop in open_:
            loop.places.setdefault(statement, {}).setdefault(loop.number, []).append(hash(all_places.tobytes()))
        self.events.append((statement, [(loop, loop.number) for loop in open_]))
        self.last[places] = len(self.events) - 1

    @staticmethod
    def overwrite(statement, path):
        for (loop, number), now in zip(path, open_):
            if loop is not now:
                return
            if number != loop.number:
                loop.overwritten.add(statement)
                return


def begin():
    """Ahead of a program."""
    open_.clear()
    unordered.clear()


def check_order():
    """Behind a program."""
    found = bool(unordered)
    unordered.clear()
    if found:
        raise Undecided("the order of iterations that store to one element")
