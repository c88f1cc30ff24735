"""How the server refuses, as the driver tells it."""

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


def outcome(action):
    """What an action returns, or the refusal that it meets. `ValueError` is how the SDK explains
    refusals that it knows well; it stands for itself."""
    try:
        return action()
    except HttpResponseError as error:
        return Refused.of(error)
    except ValueError:
        return ValueError
