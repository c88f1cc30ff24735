"""A plugin of pytest that writes the outcome of each case as one line of JSON."""

import json


def pytest_addoption(parser):
    parser.addoption("--record", help="the file that gets one line of JSON for each case")


def pytest_configure(config):
    path = config.getoption("--record")
    # The workers of pytest-xdist report to the process that started them, which alone writes.
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(path))


class Recorder:
    """Keeps what the phases of a case said, and writes it once the case is over."""

    def __init__(self, path):
        self.file = open(path, "a", encoding="utf-8")
        self.open = {}

    def pytest_runtest_logreport(self, report):
        outcome, message = self.open.pop(report.nodeid, ("passed", ""))
        if outcome == "passed" and report.outcome != "passed":
            expected = hasattr(report, "wasxfail")
            outcome, message = "xfailed" if expected else report.outcome, said(report)
        if report.when != "teardown":
            self.open[report.nodeid] = (outcome, message)
            return
        line = {"case": report.nodeid, "outcome": outcome, "message": message}
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()


def said(report):
    """The message of a failure, without the lines of the program that led to it."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        return crash.message[:600]
    return str(report.longrepr)[:600]
