"""Cases and their verdicts: one line for each, and a count at the end."""

import traceback

from azure.core.exceptions import HttpResponseError


class Refused:
    """A refusal of the service. Several codes mean: any one of them is right."""

    def __init__(self, status, *codes, index=None):
        self.status = status
        self.codes = codes
        self.index = index

    def __eq__(self, other):
        return (
            isinstance(other, Refused)
            and self.status == other.status
            and self.index == other.index
            and bool(set(self.codes) & set(other.codes))
        )

    def __repr__(self):
        at = "" if self.index is None else f" at operation {self.index}"
        return f"{self.status} {' or '.join(self.codes)}{at}"

    @classmethod
    def of(cls, error):
        """What the SDK raised. Not every error of it names the code, but every answer must."""
        code = getattr(error, "error_code", None) or error.response.headers.get("x-ms-error-code")
        code = getattr(code, "value", code)
        return cls(error.status_code, str(code), index=getattr(error, "index", None))


class Matches:
    """Equal to every value for which the test holds; a value that cannot be tested is another."""

    def __init__(self, description, test):
        self.description = description
        self.test = test

    def __eq__(self, other):
        try:
            return bool(self.test(other))
        except (AttributeError, KeyError, TypeError):
            return False

    def __repr__(self):
        return self.description


class Report:
    """Runs cases, prints their verdicts and counts them."""

    def __init__(self):
        self.passed = 0
        self.failed = 0

    def check(self, name, expected, action):
        """Does `action` and compares what it returns, or how it is refused, with `expected`."""
        try:
            self.verdict(name, expected, outcome(action))
        except Exception:  # whatever happened, the walk goes on with the next case
            self.verdict(name, expected, traceback.format_exc(limit=-3))

    def verdict(self, name, expected, actual):
        if expected == actual:
            self.passed += 1
            print(f"ok {name}", flush=True)
        else:
            self.failed += 1
            print(f"FAILED {name}: expected {expected!r:.500}, got {actual!r:.1000}", flush=True)

    def finish(self):
        """Prints the count; true if nothing failed."""
        print(f"{self.passed} passed, {self.failed} failed")
        return self.failed == 0 and self.passed > 0


def outcome(action):
    """What an action returns, or the refusal that it meets. `ValueError` is how the SDK explains
    refusals that it knows well; it stands for itself."""
    try:
        return action()
    except HttpResponseError as error:
        return Refused.of(error)
    except ValueError:
        return ValueError
