"""The story of a container: too little throughput, then enough, a bad key, then a good one."""

import time

from apis import APIS, TEXT, Throttled, plain

CONTAINER = "orders"
HOT = "everything"
# A row of this costs about 15 request units, a small one six; a partition will have 400 a second.
LARGE = "x" * 20_000
ENOUGH_WRITES = 400
# Long enough to see a budget refilled a few times.
HOT_SECONDS = 3
# The pace of the loader: about 540 RU/s, more than one partition has and less than three.
WRITES_PER_SECOND = 90


def tell(console, name, report):
    address = console.listeners()[name]
    eager, patient = APIS[name](address, retries=False), APIS[name](address, retries=True)
    try:
        story = Story(console, eager, patient, report)
        story.too_little_throughput()
        story.enough_throughput()
        story.a_hot_key()
        story.what_the_advisor_says()
        story.a_better_key()
    finally:
        eager.close()
        patient.close()


class Story:
    def __init__(self, console, eager, patient, report):
        self.console, self.eager, self.patient, self.report = console, eager, patient, report
        self.rows = 0

    def too_little_throughput(self):
        self.patient.create(CONTAINER, 400)
        throttled = self.until_throttled(lambda number: f"key {number}")
        self.report("400 RU/s throttle", throttled > 0, f"{throttled} refusals")
        for number in range(30):
            self.put(self.patient, f"patient {number}")
        self.report("the driver's own retry succeeds", True, "")
        shown = self.shown()["throttled"]
        self.report("refusals are shown", shown >= throttled, f"{shown} of {throttled}")

    def enough_throughput(self):
        partitions = self.provision(30_000)
        self.report("30,000 RU/s have three partitions", len(partitions) >= 3,
                    f"{len(partitions)} partitions")
        for number in range(200):
            self.put(self.eager, f"enough {number}")
        self.report("30,000 RU/s do not throttle", True, "")

    def a_hot_key(self):
        # Less throughput leaves the partitions as they are, and makes one easy to overload.
        partitions = self.provision(400 * len(self.shown()["partitions"]))
        before = {it["id"]: it["throttled"] for it in partitions}
        throttled = self.until_throttled(lambda _: HOT, HOT_SECONDS)
        shown = self.shown()
        hottest = shown["hot_keys"][0]
        self.report("the hot key is first", plain(hottest["key"]) == HOT, hottest["key"])
        own = self.patient.hottest(CONTAINER)
        self.report("and in the API's own view", own in (HOT, None), own)
        refused = {it["id"]: it["throttled"] - before.get(it["id"], 0)
                   for it in shown["partitions"]}
        expected = {id: throttled if id == hottest["partition"] else 0 for id in before}
        self.report("only its partition is throttled", refused == expected,
                    f"{refused}, not {expected}")

    def what_the_advisor_says(self):
        row = "RowKey" if self.patient.name == "table" else "row"
        answer = self.console.change("advice", {"keys": [row, "text"]}, *self.place())
        own, other, text = answer["report"]["candidates"]
        hottest = own["hottest"][0]
        self.report("the advisor finds the hot key", own["is_current"] and own["grade"] != "good"
                    and plain(hottest["key"]) == HOT, own)
        self.report("and a better one", other["grade"] != "poor" and text["grade"] == "poor"
                    and answer["report"]["recommendation"]["key"] == row, answer["text"])
        self.report("by all that is stored", answer["report"]["records"] == self.shown()["items"],
                    answer["report"]["records"])

    def a_better_key(self):
        time.sleep(1)  # for what is owed
        refused = 0
        for number in range(3 * WRITES_PER_SECOND):
            try:
                self.put(self.eager, f"customer {number}")
            except Throttled:
                refused += 1
            time.sleep(1 / WRITES_PER_SECOND)
        self.report("a better key is not throttled", refused == 0, f"{refused} refusals")

    def until_throttled(self, key, seconds=0):
        """Writes until a request was refused and this time is over; answers how many were."""
        refused, end = 0, time.monotonic() + seconds
        for number in range(ENOUGH_WRITES * (1 + seconds)):
            try:
                self.put(self.eager, key(number), LARGE)
            except Throttled:
                refused += 1
                if time.monotonic() >= end:
                    break
                time.sleep(0.02)
        return refused

    def put(self, client, key, text=TEXT):
        self.rows += 1
        client.put(CONTAINER, key, self.rows, text)

    def provision(self, throughput):
        try:
            self.patient.provision(CONTAINER, throughput)
        except NotImplementedError:
            self.console.change("throughput", {"manual": throughput}, *self.place())
        shown = self.shown()
        self.report(f"{throughput} RU/s are provisioned",
                    shown["throughput"]["request_units_per_second"] == throughput,
                    shown["throughput"])
        return shown["partitions"]

    def shown(self):
        return self.console.container(*self.place())

    def place(self):
        return self.patient.name, self.patient.database, CONTAINER
