"""Splits and merges while all three APIs read, write and page: nothing fails, is lost or seen
twice."""

import itertools
import random
import threading
import time
import traceback
from collections import Counter

from apis import APIS

CONTAINER = "busy"
CHANGES = 20
WORKERS_OF_EACH_API = 2
KEYS = 50
PAGES = 40
SECONDS_BETWEEN_PAGES = 0.05


def run(console, seconds, judges, report):
    listeners = console.listeners()
    apis = [api(listeners[name], retries=False) for name, api in APIS.items()]
    for api in apis:
        api.create(CONTAINER, None)
    workers = [Worker(api, number) for api in apis for number in range(WORKERS_OF_EACH_API)]
    readers = [Reader(api, [it for it in workers if it.api is api]) for api in apis]
    busy_ones = [*workers, *readers]
    threads = [threading.Thread(target=it.work, daemon=True) for it in busy_ones]
    for thread in threads:
        thread.start()
    time.sleep(1)  # until all are at work
    quiet = measured(workers, lambda: time.sleep(seconds))
    done = []
    busy = measured(workers, lambda: change(console, apis, seconds, done))
    for it in busy_ones:
        it.stops = True
    for thread in threads:
        thread.join(60)
    report(f"{CHANGES} splits and merges are done", len(done) == CHANGES, f"{len(done)}: {done}")
    failures = [failure for it in busy_ones for failure in it.failures]
    report("no request fails", not failures, "\n".join(failures[:3]))
    for reader in readers:
        report(f"{reader.api.name}: pages go on over splits", reader.passes > 0, "no pass ended")
    for api in apis:
        written = Counter(row for worker in workers if worker.api is api
                          for row in worker.written)
        found = Counter(map(tuple, api.each(CONTAINER, 1000)))
        lost, more = written - found, found - written
        report(f"{api.name}: nothing is lost", not lost, f"{len(lost)}: {list(lost)[:5]}")
        report(f"{api.name}: nothing is seen twice", not more, f"{len(more)}: {list(more)[:5]}")
        shown = console.container(api.name, api.database, CONTAINER)
        report(f"{api.name}: the count is exact", shown["items"] == len(found),
               f"{shown['items']} of {len(found)}")
        api.close()
    without, during = percentile(quiet), percentile(busy)
    print(f"{len(quiet)} requests without splits: 99th percentile {without * 1000:.1f} ms")
    print(f"{len(busy)} requests with {CHANGES}: 99th percentile {during * 1000:.1f} ms, "
          f"{during / without:.2f} times (at most 3)")
    if judges:
        report("the 99th percentile at most triples", during <= 3 * without, during / without)


class Worker:
    """Writes rows of its own, and reads back what it wrote."""

    def __init__(self, api, number):
        self.api, self.number = api, number
        self.written, self.failures, self.times = [], [], []
        self.stops = False

    def work(self):
        dice = random.Random(f"{self.api.name} {self.number}")
        for row in itertools.count():
            if self.stops or len(self.failures) > 10:
                return
            key = f"{self.number}-{dice.randrange(KEYS)}"
            self.timed(lambda: self.write(key, row))
            if self.written:
                old = dice.choice(self.written)
                self.timed(lambda: self.read(*old))

    def write(self, key, row):
        self.api.put(CONTAINER, key, row)
        self.written.append((key, row))

    def read(self, key, row):
        if not self.api.get(CONTAINER, key, row):
            self.failures.append(f"{self.api.name}: {key}/{row} is gone")

    def timed(self, action):
        began = time.perf_counter()
        try:
            action()
        except Exception:  # any failure is what is looked for
            self.failures.append(f"{self.api.name}: {traceback.format_exc(limit=-2)}")
        self.times.append(time.perf_counter() - began)


class Reader:
    """Pages slowly through everything, again and again: what was there before is seen once."""

    def __init__(self, api, writers):
        self.api, self.writers = api, writers
        self.failures, self.passes = [], 0
        self.stops = False

    def work(self):
        while not self.stops and not self.failures:
            before = {row for writer in self.writers for row in list(writer.written)}
            try:
                self.read(before)
            except Exception:  # any failure is what is looked for
                self.failures.append(f"{self.api.name}: {traceback.format_exc(limit=-2)}")

    def read(self, before):
        page, seen = max(10, len(before) // PAGES), Counter()
        for row in self.api.each(CONTAINER, page):
            seen[tuple(row)] += 1
            if seen.total() % page == 0:
                time.sleep(SECONDS_BETWEEN_PAGES)
        twice = [row for row, times in seen.items() if times > 1]
        missed = before - seen.keys()
        if twice or missed:
            self.failures.append(f"{self.api.name}: pages have {twice[:3]} twice and miss "
                                 f"{list(missed)[:3]}")
        self.passes += bool(before)


def measured(workers, action):
    """How long each request took that ended while something was done."""
    before = [len(worker.times) for worker in workers]
    action()
    return [took for worker, first in zip(workers, before) for took in worker.times[first:]]


def percentile(times):
    ordered = sorted(times) or [0.001]
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]


def change(console, apis, seconds, done):
    """Splits and merges partitions of all containers in turn, evenly over the time."""
    began = time.monotonic()
    for number in range(CHANGES):
        api = apis[number % len(apis)]
        place = (api.name, api.database, CONTAINER)
        partitions = console.container(*place)["partitions"]
        # Merges follow splits, so that there is always something of both kinds to do.
        merges = number // len(apis) % 2 == 1 and len(partitions) > 1
        action = "merge" if merges else "split"
        chosen = partitions[0] if merges else max(partitions, key=lambda it: it["items"])
        console.change(action, {"partition": chosen["id"]}, *place)
        done.append(f"{action} {api.name}")
        time.sleep(max(0, began + seconds * (number + 1) / CHANGES - time.monotonic()))
