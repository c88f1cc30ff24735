"""What clients know of what they wrote: what was acknowledged, and what may have been done."""

import collections
import itertools
import threading

GONE = "gone"


class Tally:
    """How much was acknowledged, and how much has an unknown end."""

    def __init__(self):
        self.lock = threading.Lock()
        self.numbers = itertools.count(1)
        self.acknowledged = 0
        self.unknown = 0
        self.operations = collections.Counter()

    def number(self):
        """A number that nobody had before."""
        with self.lock:
            return next(self.numbers)

    def done(self, operation):
        with self.lock:
            self.acknowledged += 1
            self.operations[operation] += 1


class Values:
    """One value for each key. Each key is written by one worker, one write after the other."""

    def __init__(self, tally, name):
        self.tally, self.name = tally, name
        self.acknowledged = {}
        self.possible = collections.defaultdict(list)

    def write(self, key, value, write):
        """Notes that it may be done before it is asked, and that it was when that is answered."""
        self.possible[key].append(value)
        write()
        self.acknowledged[key] = value
        self.possible[key] = []
        self.tally.done(self.name)

    def check(self, found):
        """Compares with what is there, which is from then on what counts."""
        faults = []
        for key in set(self.acknowledged) | set(self.possible) | set(found):
            value = found.get(key, GONE)
            expected = [self.acknowledged.get(key, GONE), *self.possible[key]]
            if value not in expected:
                faults.append(f"{self.name} {key}: {value!r} is there, {expected[0]!r} was "
                              f"acknowledged, {expected[1:]} may be")
            self.tally.unknown += len(self.possible[key])
            self.acknowledged[key], self.possible[key] = value, []
        return faults


class Counters:
    """Numbers to which everybody adds one."""

    def __init__(self, tally, name):
        self.tally, self.name = tally, name
        self.lock = threading.Lock()
        self.tried = collections.Counter()
        self.acknowledged = collections.Counter()

    def add(self, key, add):
        with self.lock:
            self.tried[key] += 1
        add()
        with self.lock:
            self.acknowledged[key] += 1
        self.tally.done(self.name)

    def check(self, found):
        faults = []
        for key in self.tried:
            value, least, most = found.get(key, 0), self.acknowledged[key], self.tried[key]
            if not least <= value <= most:
                faults.append(f"{self.name} {key}: {value} is there, from {least} to {most} may be")
            self.tally.unknown += most - least
            self.acknowledged[key] = self.tried[key] = value
        return faults


def compare(what, found, expected):
    """One fault if two things that must be the same are not."""
    if found == expected:
        return []
    return [f"{what}: {str(found)[:200]} instead of {str(expected)[:200]}"]
