"""The account that the walk talks to: clients with any credential, and everything they answered."""

import itertools
import secrets
from datetime import datetime, timedelta, timezone
from pathlib import Path
from urllib.parse import urlsplit

from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.data.tables import (
    ResourceTypes,
    TableServiceClient,
    generate_account_sas,
    generate_table_sas,
)

# The account of every storage emulator; its key is public.
NAME = "devstoreaccount1"
KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)


class Account:
    """One endpoint. Tables made here have names that no other walk uses, and are removed by
    `clean_up`."""

    def __init__(self, options):
        self.endpoint = options.endpoint.rstrip("/")
        self.ca_file = options.ca
        self.cosmos = options.cosmos
        self.token = options.token and Path(options.token).read_text("ascii")
        self.answers = Answers()
        self.prefix = "walk" + secrets.token_hex(5)
        self.numbers = itertools.count(1)
        self.key = AzureNamedKeyCredential(NAME, KEY)
        self.service = self.service_as(self.key)

    @property
    def is_https(self):
        return self.endpoint.startswith("https:")

    def service_as(self, credential, endpoint=None, **options):
        return TableServiceClient(
            endpoint or self.endpoint,
            credential=credential,
            connection_verify=self.ca_file or True,
            retry_total=0,
            raw_response_hook=self.answers.take,
            **options,
        )

    def new_name(self):
        return f"{self.prefix}n{next(self.numbers)}"

    def new_table(self):
        """A client of a table that exists and is empty."""
        return self.service.create_table(self.new_name())

    def filled_table(self, entities):
        table = self.new_table()
        for entity in entities:
            table.create_entity(entity)
        return table

    def table_as(self, credential, name):
        return self.service_as(credential).get_table_client(name)

    def account_sas(self, **options):
        """A credential with a signature for the account; the options replace a full grant."""
        grant = {"resource_types": ALL_RESOURCES, "permission": "rwdlacu", "expiry": soon()}
        return AzureSasCredential(generate_account_sas(self.key, **(grant | options)))

    def table_sas(self, name, **options):
        """A credential with a signature for one table; the options replace a full grant."""
        grant = {"permission": "raud", "expiry": soon()}
        return AzureSasCredential(generate_table_sas(self.key, name, **(grant | options)))

    def secondary(self):
        """A client of the read-only copy. Given an address with a path, the SDK would put the path
        into the URL twice: this way it does not."""
        endpoint = f"{self.endpoint}-secondary"
        host = urlsplit(endpoint).netloc
        return self.service_as(self.key, endpoint=endpoint, secondary_hostname=host)

    def clean_up(self):
        mine = f"TableName ge '{self.prefix}' and TableName lt '{self.prefix}o'"
        for table in list(self.service.query_tables(mine)):
            self.service.delete_table(table.name)


ALL_RESOURCES = ResourceTypes(service=True, object=True, container=True)


def soon():
    return now() + timedelta(hours=1)


def now():
    return datetime.now(timezone.utc)


class Answers:
    """What must hold for every answer, whatever the question was."""

    def __init__(self):
        self.last = None
        self.without = {}
        self.charged = 0
        self.unexplained = []

    def take(self, answer):
        request, response = answer.http_request, answer.http_response
        self.last = response
        for header in ("x-ms-request-id", "x-ms-version", "Date", "x-ms-request-charge"):
            if header not in response.headers:
                self.without.setdefault(header, f"{request.method} {request.url}")
        self.charged += "x-ms-request-charge" in response.headers
        if response.status_code >= 400 and "xml" not in request.headers.get("Accept", ""):
            if "application/json" not in response.headers.get("Content-Type", ""):
                self.unexplained.append(f"{response.status_code} {request.method} {request.url}")

    def check(self, report, cosmos):
        headers = ["x-ms-request-id", "x-ms-version", "Date"]
        for header in headers + (["x-ms-request-charge"] if cosmos else []):
            report.verdict(f"every answer has {header}", None, self.without.get(header))
        if not cosmos:
            report.verdict("no answer has x-ms-request-charge", 0, self.charged)
        report.verdict("every refusal is explained in JSON", [], self.unexplained)

    def header(self, name):
        """A header of the last answer."""
        return self.last.headers.get(name)
