"""A partition asked for more than it has, for a while: it gets exactly its share, and its neighbour is
left alone."""

import itertools
import threading
import time

from apis import APIS, Throttled, plain

CONTAINER = "saturated"
UNITS_OF_A_PARTITION = 400
# Enough for three partitions at least.
ENOUGH = 30_000
# A row of this costs about 15 request units, of which a partition has 400 a second.
LARGE = "x" * 20_000
LOADERS = 2
# Figures are read in the same part of a second, when its budget has long been spent.
PART_OF_SECOND = 0.8
TOLERANCE = 0.02


def run(console, seconds, judges, report):
    listeners = console.listeners()
    loads = [Load(console, api(listeners[name], retries=False)) for name, api in APIS.items()]
    threads = [thread for load in loads for thread in load.threads()]
    for thread in threads:
        thread.start()
    time.sleep(2)  # until all are saturated
    until_part_of_second()
    before = [load.charged() for load in loads]
    time.sleep(seconds)
    after = [load.charged() for load in loads]
    for load in loads:
        load.stops = True
    for thread in threads:
        thread.join(60)
    for load, before, after in zip(loads, before, after):
        name = load.api.name
        report(f"{name}: no request fails", not load.failures, load.failures[:3])
        throttled = load.shown()["partitions"][load.quiet]["throttled"]
        report(f"{name}: the quiet partition is never throttled", throttled == 0, throttled)
        for place in load.hot:
            granted = (after[place] - before[place]) / (UNITS_OF_A_PARTITION * seconds)
            print(f"{name}: partition {place} was granted {100 * granted:.2f} % of "
                  f"{UNITS_OF_A_PARTITION} RU/s over {seconds:.0f} s")
            exact = abs(granted - 1) <= TOLERANCE if judges else granted <= 1 + 1 / seconds
            report(f"{name}: partition {place} gets its share", exact, granted)
        load.api.close()


def until_part_of_second():
    time.sleep((PART_OF_SECOND - time.time()) % 1)


class Load:
    """Asks all partitions but one for more than they have, and that one for a little."""

    def __init__(self, console, api):
        self.console, self.api = console, api
        self.stops, self.failures, self.rows = False, [], itertools.count(1)
        api.create(CONTAINER, ENOUGH)
        self.keys = self.one_key_of_each_partition()
        # Less throughput leaves the partitions as they are.
        units = UNITS_OF_A_PARTITION * len(self.shown()["partitions"])
        console.change("throughput", {"manual": units}, api.name, api.database, CONTAINER)
        *self.hot, self.quiet = sorted(self.keys)

    def one_key_of_each_partition(self):
        """By where the console says that keys lie; it shows ten."""
        for number in range(10):
            self.api.put(CONTAINER, f"k{number}", 0)
        shown = self.shown()
        places = {it["id"]: place for place, it in enumerate(shown["partitions"])}
        return {places[it["partition"]]: plain(it["key"]) for it in shown["large_keys"]}

    def shown(self):
        return self.console.container(self.api.name, self.api.database, CONTAINER)

    def charged(self):
        return [it["request_units"] for it in self.shown()["partitions"]]

    def threads(self):
        works = [(key, 0, LARGE) for place in self.hot for key in [self.keys[place]] * LOADERS]
        works.append((self.keys[self.quiet], 0.2, "little"))
        return [threading.Thread(target=self.work, args=work, daemon=True) for work in works]

    def work(self, key, pause, text):
        while not self.stops:
            try:
                self.api.put(CONTAINER, key, next(self.rows), text)
                time.sleep(pause)
            except Throttled:
                time.sleep(0.02)
            except Exception as error:  # any other failure is one too many
                self.failures.append(repr(error))
                return
