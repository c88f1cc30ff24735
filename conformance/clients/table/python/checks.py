"""How the server refuses, as the driver tells it."""

from azure.core.exceptions import HttpResponseError

from report import Report


class Refused:
    """A refusal of the service. Several codes mean: any one of them is right."""

    def __init__(self, status, *codes, index=None):
        self.status = status
        self.codes = codes
        self.index = index

    def __eq__(self, other):
        return self.is_like(other) and self.has_code_of(other)

    def is_like(self, other):
        """Whether that refuses the same, with whatever code."""
        return (
            isinstance(other, Refused)
            and self.status == other.status
            and self.index == other.index
        )

    def has_code_of(self, other):
        return bool(set(self.codes) & set(other.codes))

    def __repr__(self):
        at = "" if self.index is None else f" at operation {self.index}"
        return f"{self.status} {' or '.join(self.codes)}{at}"

    @classmethod
    def of(cls, error):
        """What the SDK raised. Not every error of it names the code, but every answer must."""
        code = getattr(error, "error_code", None) or error.response.headers.get("x-ms-error-code")
        code = getattr(code, "value", code)
        return cls(error.status_code, str(code), index=getattr(error, "index", None))


def outcome(action):
    """What an action returns, or the refusal that it meets. `ValueError` is how the SDK explains
    refusals that it knows well; it stands for itself."""
    try:
        return action()
    except HttpResponseError as error:
        return Refused.of(error)
    except ValueError:
        return ValueError


class RefusalReport(Report):
    """Whether something is refused is one case each; that all refusals have the service's codes is
    one more, at the end: a server with codes of its own differs in one thing."""

    def __init__(self):
        super().__init__(outcome)
        self.other_codes = []

    def verdict(self, name, expected, actual):
        if isinstance(expected, Refused) and expected.is_like(actual):
            if not expected.has_code_of(actual):
                self.other_codes.append(f"{self.area}: {name}: {expected!r}, got {actual!r}")
            actual = expected
        super().verdict(name, expected, actual)

    def check_codes(self):
        self.verdict("every refusal has its code", [], self.other_codes)
