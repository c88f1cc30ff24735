"""Types a session into stock cqlsh and compares what it prints with what it should.

    python walk.py 127.0.0.1:9042
    python walk.py 127.0.0.1:9042 --user ada --password secret --ca cert.pem
    python walk.py 127.0.0.1:9042 --write       (writes what it prints as what it should)

Prints a line of JSON for every input; the exit code is 0 if all passed.
"""

import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from report import Report, arguments

HERE = pathlib.Path(__file__).parent
EXPECTED = HERE / "session.txt"
# A command of cqlsh itself, typed after each input, so that the answers can be told apart.
MARK = "SERIAL CONSISTENCY"
MARKED = "Current serial consistency level is SERIAL.\n"
ROWS = 5_000  # unless --rows says otherwise

# What differs from run to run: identifiers, times, addresses.
VARYING = [
    # The shell's own opinion on how it was given its password.
    (r"\nWarning: Using a password on the command line.*\nRecommendation: .*\n\n", ""),
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID"),
    (r"<stdin>:\d+:", "<stdin>:"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+(\+0000)?", "TIME"),
    (r"127\.0\.0\.1:\d+", "ADDRESS"),
    (r"\d+\.\d{3} seconds", "N seconds"),
    (r"\d+ rows/s", "N rows/s"),
    (r"^Using \d+ child processes", "Using N child processes"),
]


class Shell:
    """How cqlsh is run."""

    def __init__(self, options, folder):
        self.host, self.port = options.endpoint.rsplit(":", 1)
        self.user, self.password = options.user, options.password
        self.ca, self.folder = options.ca, folder

    def run(self, typed, password=None):
        command = [sys.executable, "-m", "cqlshlib", self.host, self.port, "--no-color",
                   "--request-timeout=120", "--encoding=utf-8"]
        if self.user:
            command += ["-u", self.user, "-p", password or self.password]
        environment = dict(os.environ, PYTHONUNBUFFERED="1", HOME=self.folder, TZ="UTC")
        if self.ca:
            command.append("--ssl")
            environment["SSL_CERTFILE"] = self.ca
        ended = subprocess.run(command, input=typed, env=environment, cwd=self.folder, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=500)
        return ended.stdout, ended.returncode


def main():
    parser = arguments(__doc__, "127.0.0.1:9042")
    parser.add_argument("--user")
    parser.add_argument("--password")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--rows", type=int, default=ROWS, help="how many are copied")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        shell = Shell(options, folder)
        cases = written((HERE / "session.cql").read_text())
        transcript = session(shell, [text for _, _, text in cases])
        if options.write:
            EXPECTED.write_text("\n".join(transcript) + "\n")
            return 0
        report = Report()
        expected = re.split(r"^(?=> )", EXPECTED.read_text(), flags=re.M)[1:]
        for number, (report.area, name, _) in enumerate(cases):
            wanted = expected[number].rstrip() if number < len(expected) else ""
            actual = transcript[number].rstrip()
            report.case(name, wanted == actual, f"expected\n{wanted}\n  and got\n{actual}")
        report.area = "shell"
        traced, _ = shell.run("TRACING ON\nSELECT key FROM system.local;\n")
        report.verdict("TRACING ON prints what happened", True,
                       "Tracing session:" in traced and "Request complete" in traced)
        report.area = "copy"
        copies(shell, report, options.rows)
        if shell.user:
            wrong, status = shell.run("", password="wrong")
            report.area = "access"
            report.verdict("a wrong password is refused", (1, True),
                           (status, "and/or password are incorrect" in wrong))
    return 0 if report.finish() else 1


def written(text):
    """The inputs, which stand between empty lines: the area of each, a name that no other has, and
    what is typed."""
    cases, names, area = [], collections.Counter(), ""
    for block in filter(None, (block.strip() for block in text.split("\n\n"))):
        if block.startswith("-- area "):
            area = block.removeprefix("-- area ")
        elif not block.startswith("--"):
            name = block.splitlines()[0]
            names[name] += 1
            again = f" ({names[name]})" if names[name] > 1 else ""
            cases.append((area, name + again, block))
    return cases


def session(shell, inputs):
    """What cqlsh prints for each input."""
    typed = "".join(f"{text}\n{MARK}\n" for text in inputs)
    printed, _ = shell.run(f"{MARK}\n{typed}")
    answers = printed.split(MARKED)
    if len(answers) != len(inputs) + 2:
        print(f"cqlsh gave {len(answers) - 2} answers to {len(inputs)} inputs:\n{printed}")
    # What comes before the first mark are warnings at the start, of which there should be none.
    answers = answers + [""] * len(inputs)
    answers[1] = answers[0] + answers[1]
    return [f"> {text}\n{normal(answer)}" for text, answer in zip(inputs, answers[1:])]


def normal(text):
    for pattern, word in VARYING:
        text = re.sub(pattern, word, text, flags=re.M)
    return "\n".join(line.rstrip() for line in text.splitlines()).rstrip()


def copies(shell, report, rows):
    """Copies many rows in and out again."""
    lines = [f'{number},{number % 7},"text, {number}",{number / 4}' for number in range(rows)]
    source = pathlib.Path(shell.folder, "in.csv")
    source.write_text("\n".join(lines) + "\n")
    printed, _ = shell.run(
        "CREATE TABLE walk_cqlsh.copied (k int PRIMARY KEY, n int, t text, d double);\n"
        "COPY walk_cqlsh.copied (k, n, t, d) FROM 'in.csv' WITH INGESTRATE = 1000000;\n"
        "COPY walk_cqlsh.copied (k, n, t, d) TO 'out.csv';\n"
        "DROP KEYSPACE walk_cqlsh;\n")
    for done in ("imported from", "exported to"):
        line = f"{rows} rows {done} 1 files"
        report.verdict(f"rows are {done} a file", line, line if line in printed else printed)
    target = pathlib.Path(shell.folder, "out.csv")
    copied = target.read_text().splitlines() if target.exists() else []
    report.verdict("the rows are the same", True, same(lines, copied))


def same(left, right):
    rows = lambda lines: sorted(line.replace(".0,", ",").removesuffix(".0") for line in lines)
    return rows(left) == rows(right)


if __name__ == "__main__":
    sys.exit(main())
