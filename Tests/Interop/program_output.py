#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs each command of apns-legacy, and validates its output with the JSON Schemas of the documentation.

    program_output.py PROGRAM SCHEMAS FOLDER

PROGRAM is apns-legacy, SCHEMAS is docs/schemas, and FOLDER is an empty folder for files. Prints each problem on
a line and exits with 1, or prints the number of validated lines.

- Each line of standard error is a message (log-line); standard output only contains results, then the summary.
- An object with a key that is not in the schema is an error.
- Each property of a schema occurs in the output of at least one run; GatewayOutcomesTests check those of outcomes.
"""

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys

import jsonschema
import referencing

PROGRAM, SCHEMAS, FOLDER = sys.argv[1], os.path.abspath(sys.argv[2]), sys.argv[3]
DEADLINE = 60
problems = []
seen = {}
count = 0


def read(name):
    with open(os.path.join(SCHEMAS, name)) as file:
        return json.load(file)


names = sorted(name for name in os.listdir(SCHEMAS) if name.endswith(".schema.json"))
schemas = {name.removesuffix(".schema.json"): read(name) for name in names}
registry = referencing.Registry().with_resources(
    [(schema["$id"], referencing.Resource.from_contents(schema)) for schema in schemas.values()]
)
validators = {}
for key, schema in schemas.items():
    jsonschema.Draft202012Validator.check_schema(schema)
    validators[key] = jsonschema.Draft202012Validator(schema, registry=registry)


def problem(text):
    problems.append(text)


def definition(key, value):
    """The part of a schema that applies to an object."""
    schema = schemas[key]
    return schema["$defs"][value["command"].replace(" ", "-")] if "$defs" in schema else schema


def note(path, schema, value):
    """Records the properties that occurred."""
    if "$ref" in schema:
        return note(*(lambda name: (name, schemas[name]))(schema["$ref"].removesuffix(".schema.json")), value)
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in schema.get("properties", {}):
                seen.setdefault(path, set()).add(key)
                note(f"{path}.{key}", schema["properties"][key], inner)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for inner in value:
            note(path + "[]", schema["items"], inner)


def expected(path, schema):
    """All properties of a schema, with their paths."""
    if "$ref" in schema:
        return
    for key, inner in schema.get("properties", {}).items():
        yield path, key
        yield from expected(f"{path}.{key}", inner)
    if isinstance(schema.get("items"), dict):
        yield from expected(path + "[]", schema["items"])


def validate(key, line, run):
    global count
    count += 1
    try:
        value = json.loads(line)
    except ValueError:
        return problem(f"{run}: not JSON ({key}): {line[:200]}")
    errors = list(validators[key].iter_errors(value))
    if errors:
        # A message names its command.
        name = str(value.get("command", "")).replace(" ", "-") if isinstance(value, dict) else ""
        if key == "summary" and name in schemas[key]["$defs"]:
            part = {"$ref": f"summary.schema.json#/$defs/{name}"}
            errors = list(jsonschema.Draft202012Validator(part, registry=registry).iter_errors(value)) or errors
        return problem(f"{run}: {key}: {errors[0].message[:200]}: {line[:300]}")
    if validators[key].is_valid({**value, "unknownKey": 1}):
        problem(f"{key}: an unknown key is accepted")
    part = definition(key, value)
    note(key if part is schemas[key] else f"{key} {value['command']}", part, value)
    return value


def environment():
    return {**os.environ, "HOME": FOLDER, "XDG_STATE_HOME": FOLDER + "/state", "NO_COLOR": "1"}


def check_output(words, code, status, output, error, lines):
    run = "apns-legacy " + " ".join(words)
    if status != code:
        problem(f"{run}: exit code {status}, expected {code}: {error[-300:]}")
    for line in error.splitlines():
        validate("log-line", line, run)
    printed = output.splitlines()
    if not printed:
        return problem(f"{run}: no summary")
    summary = validate("summary", printed[-1], run)
    if summary and (summary["exitCode"] != status or not run.startswith("apns-legacy " + summary["command"])):
        problem(f"{run}: another command or exit code in the summary: {printed[-1][:200]}")
    for line in printed[:-1]:
        if isinstance(lines, str):
            validate(lines, line, run)
        elif lines is None:
            problem(f"{run}: neither result nor summary on standard output: {line[:200]}")
        elif not re.fullmatch(lines, line):
            problem(f"{run}: not a result on standard output: {line[:200]}")
    return summary


def run(words, code=0, lines=None, input="", extra={}):
    """Runs a command; `lines` is the schema of its output before the summary, or a pattern."""
    words = words.split() if isinstance(words, str) else words
    options = ["--summary", "json", "--log-format", "json"]
    ended = subprocess.run(
        [PROGRAM] + words + options, input=input, capture_output=True, text=True, timeout=DEADLINE, cwd=FOLDER,
        env={**environment(), **extra},
    )
    return check_output(words, code, ended.returncode, ended.stdout, ended.stderr, lines)


class Server:
    """A command that runs until it is stopped."""

    def __init__(self, words):
        self.words = words.split()
        self.error = open(os.path.join(FOLDER, f"{self.words[0]}.error"), "w+")
        self.process = subprocess.Popen(
            [PROGRAM] + self.words + ["--summary", "json", "--log-format", "json"], stdout=subprocess.PIPE,
            stderr=self.error, text=True, cwd=FOLDER, env=environment(),
        )
        self.ready = self.process.stdout.readline()

    def stop(self, code=0, lines=None):
        self.process.send_signal(signal.SIGTERM)
        output, _ = self.process.communicate(timeout=DEADLINE)
        self.error.seek(0)
        return check_output(self.words, code, self.process.returncode, output, self.error.read(), lines)


# The connection is lost once after a notification to this device.
LOST = int("ab" * 32, 16)


def write(name, text):
    with open(os.path.join(FOLDER, name), "w") as file:
        file.write(text)
    return name


def token(number):
    return f"{number:064x}"


def line(number):
    return json.dumps({"token": token(number), "payload": {"aps": {"alert": "Hello"}}, "id": f"n{number}"}) + "\n"


# MARK: Usage errors

def usage_errors():
    """For an unknown option, each command reports one error, which may be a missing one, and prints nothing."""
    tool = json.loads(subprocess.run([PROGRAM, "--experimental-dump-help"], capture_output=True, text=True).stdout)

    def walk(command, words):
        yield words
        for inner in command.get("subcommands", []):
            if inner["commandName"] != "help":
                yield from walk(inner, words + [inner["commandName"]])

    formats = [[], ["--log-format", "json"]]
    is_long = os.environ.get("TEST_LONG") == "1"
    for number, words in enumerate(walk(tool["command"], [])):
        # By default, every other command reports its error as text, and the rest in JSON.
        for format in formats if is_long else [formats[number % 2]]:
            ended = subprocess.run([PROGRAM] + words + ["--no-such-option"] + (format if words else []),
                                   capture_output=True, text=True)
            name = " ".join(["apns-legacy"] + words)
            if ended.returncode != 64 or ended.stdout or len(ended.stderr.splitlines()) != 1:
                problem(f"{name} --no-such-option: exit code {ended.returncode}, {ended.stdout!r}, {ended.stderr!r}")
            elif format and words:
                value = validate("log-line", ended.stderr, name)
                if value and value["level"] != "error":
                    problem(f"{name}: a usage error has the level {value['level']}")
            elif not ended.stderr.startswith(name):
                problem(f"{name}: the error does not name the command: {ended.stderr!r}")


def colors():
    """Only a terminal that supports colors gets them."""
    for values, is_terminal, is_colored in [
        ({"TERM": "xterm"}, True, True), ({"TERM": "xterm", "NO_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, True, False), ({"TERM": "xterm"}, False, False),
    ]:
        terminal, inner = pty.openpty()
        variables = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
        ended = subprocess.run(
            [PROGRAM, "send", "a", "--no-such-option"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=inner if is_terminal else subprocess.PIPE, env={**variables, **values},
        )
        os.close(inner)
        text = os.read(terminal, 65536) if is_terminal else ended.stderr
        os.close(terminal)
        if (b"\x1b[1;31m" in text) != is_colored or b"Unknown option" not in text:
            problem(f"colors with {values}, terminal {is_terminal}: {text!r}")


# MARK: Runs

def payloads():
    write("payload.json", '{ "aps": { "alert": "Hello", "badge": 1 } }')
    write("odd.jsonl", '{"aps":{"alert":"Hello","bagde":1}}\n{"aps":\n' + line(1))
    write("wrong.json", '{"aps":{"alert":1}}')
    run("payload check payload.json", lines="payload-check-line")
    run("payload check odd.jsonl", 1, lines="payload-check-line")
    run("payload check wrong.json", 1, lines="payload-check-line")
    run("payload size payload.json")
    run("payload size odd.jsonl", 1)
    json_text = re.compile(r"\{.*")
    run("payload minify payload.json", lines=json_text)
    run("payload truncate --to 256 payload.json", lines=json_text)
    run("payload preview payload.json", lines=re.compile(r".*"))
    run(["payload", "build", "--alert", "Hello"], lines=json_text)
    run(["payload", "build", "--alert", "x" * 3000], 65)
    for command in ["check", "size", "minify", "truncate --to 9", "preview"]:
        run(f"payload {command} missing.json", 66)


def certificates(state):
    run("certificate new authority --key-type ec")
    run("certificate new authority", 73)
    run("certificate new server --name gateway.example.com")
    run("certificate new server --name gateway.example.com", 73)
    run("certificate new client --topic com.example.app --team TEAM000001 --key-type ec")
    run("certificate new client --topic com.example.app", 73)
    write("pass.txt", "secret\n")
    with open(os.path.join(FOLDER, "chain.pem"), "w") as chain:
        for name in ["server.pem", "authority.pem"]:
            chain.write(open(os.path.join(FOLDER, name)).read())
        chain.write("-----BEGIN OTHER-----\nAAAA\n-----END OTHER-----\n")
    run("certificate convert provider.pem provider.p12 --key provider.key.pem --output-passphrase-file pass.txt")
    run("certificate convert provider.pem old.p12 --form legacy --key provider.key.pem "
        "--output-passphrase-file pass.txt")
    run("certificate convert provider.p12 locked.pem --passphrase-file pass.txt --output-passphrase-file pass.txt")
    run("certificate convert missing.pem new.pem", 66)
    run("certificate show provider.pem provider.key.pem chain.pem")
    run("certificate show provider.p12 old.p12 --passphrase-file pass.txt")
    run("certificate show locked.pem", 1)
    run("certificate show provider.p12", 1)
    run("certificate show missing.pem", 66)
    run("certificate check provider.pem --topic com.example.other", 2)
    run("certificate check provider.pem --trust missing.pem", 78)


def batches(state, ports):
    trust = f"--host localhost --trust {state}/authority.pem"
    identity = f"--certificate {state}/provider.pem --key {state}/provider.key.pem"
    gateway = f"{trust} {identity} --port {ports['gateway_port']}"
    bad = '{"token":"xyz","payload":{}}\n{"token":"%s","payload":{"aps":{"badge":"1"}}}\n{"token":\n' % token(2)
    write("batch.jsonl", line(1) + line(99) + bad + line(9) + line(99))
    run(f"send batch.jsonl --results - {gateway}", 1, lines="result-line")
    run(f"send batch.jsonl --verbose {gateway}", 1, lines="result-line")
    run(f"send batch.jsonl --dry-run {gateway}", 1, lines="result-line")
    write("dead.jsonl", line(1) + line(9))
    http2 = f"{trust} {identity} --transport http2 --port {ports['http2_port']}"
    run(f"send dead.jsonl --results - {http2}", 1, lines="result-line")
    write("lost.jsonl", "".join(line(number) for number in [1, LOST, 1]))
    run(f"send lost.jsonl --results - {gateway}", lines="result-line")
    run(f"send missing.jsonl {gateway}", 66)
    refused = gateway.replace(f"--port {ports['gateway_port']}", "--port 1")
    run(f"send dead.jsonl --results - --give-up-after 1 {refused}", 69, lines="result-line")
    feedback = f"{trust} {identity} --port {ports['feedback_port']} --purge-list dead.db"
    run(f"feedback --output jsonl {feedback}", lines="feedback-line")
    run(f"feedback {feedback.replace('provider.pem', 'missing.pem')}", 78)
    run("feedback --host localhost --certificates missing --purge-list dead.db", 66)


def lists():
    run("purge list --purge-list dead.db", lines=re.compile(r"[^\t]+(\t[^\t]+){4}"))
    run("purge export --purge-list dead.db --format jsonl", lines="purge-export-line")
    run("purge stats --purge-list dead.db")
    write("more.csv", "token,topic,environment,failedAt\n%s,com.example.app,sandbox,1700000000\nxyz,,,\n" % token(7))
    run("purge import --purge-list dead.db more.csv", 1)
    write("tokens.txt", "".join(token(number) + "\n" for number in [4, 5, 6]))
    run("purge import --purge-list dead.db tokens.txt --topic com.example.app --environment sandbox --failed-at now")
    run(f"purge forget --purge-list dead.db --token {token(7)}")
    run("purge check --purge-list dead.db")
    run("purge expire --purge-list dead.db --older-than 400d")
    import sqlite3
    database = sqlite3.connect(os.path.join(FOLDER, "app.db"))
    with database:
        database.execute("create table devices (token text, seen integer)")
        database.executemany("insert into devices values (?, ?)", [(token(n), 1_700_000_000) for n in range(1, 12)])
        database.execute("insert into devices values ('what', 1)")
    database.close()
    rules = "--purge-list dead.db --environment sandbox --table devices --token-column token --registered-column seen"
    run(f"purge apply --database app.db {rules} --dry-run --max-fraction 1")
    run(f"purge apply --database app.db {rules} --max-fraction 0.1", 79)
    run(f"purge apply --database app.db {rules} --max-fraction 1")
    run(f"purge apply --database missing.db {rules}", 66)
    run(f"purge apply --sql sqlite {rules} --sql-file prune.sql".replace("sqlite", "postgresql"))
    run("purge apply --purge-list dead.db --environment sandbox --exec true")
    forget = "forget --token " + token(1)
    for command in ["list", "export --format jsonl", "stats", "check", "expire --older-than 1d", forget]:
        run(f"purge {command} --purge-list missing.db", 66)
    run("purge import --purge-list dead.db missing.csv", 66)


def gateways(state, ports):
    run("gateway init", 64)
    run(f"gateway init --client python --environment sandbox --topic com.example.app --folder gateway "
        f"--upstream-certificate {state}/provider.p12 --upstream-passphrase-file {state}/passphrase.txt "
        f"--upstream-host localhost --upstream-port {ports['http2_port']} --upstream-trust {state}/authority.pem")
    path = os.path.join(FOLDER, "gateway/gateway.yaml")
    text = open(path).read()
    for name, old in [("port", 2195), ("feedbackPort", 2196), ("port", 9095)]:
        # The ports in the documentation may be in use.
        with socket.create_server(("127.0.0.1", 0)) as listener:
            text = re.sub(rf"(?m)^(\s+{name}:) {old}$", rf"\1 {listener.getsockname()[1]}", text)
    open(path, "w").write(text)
    run("gateway check --config gateway/gateway.yaml")
    run("gateway check --config missing.yaml", 66)
    run("gateway run --config missing.yaml", 66)
    server = Server("gateway run --config gateway/gateway.yaml")
    if not re.fullmatch(r"gateway \d+ feedback \d+ admin \d+\n", server.ready):
        problem(f"gateway run: no ports: {server.ready!r}")
    run("gateway test --config gateway/gateway.yaml")
    run("gateway test --config missing.yaml", 66)
    server.stop()


def main():
    usage_errors()
    colors()
    payloads()
    state = os.path.join(FOLDER, "simulator")
    certificates(state)
    write("faults.yaml", "faults:\n  - at: {token: ab}\n    effect: {name: closeAfter}\n    listener: binary\n"
          "    occurrenceCountMax: 1\n")
    server = Server(f"simulator --folder {state} --key-type ec --device {token(1)} --device {token(LOST)} "
                    f"--dead-device {token(9)} --faults faults.yaml")
    ports = validate("simulator-ready", server.ready, "simulator")
    batches(state, ports)
    lists()
    gateways(state, ports)
    server.stop()
    run("simulator --folder /dev/null/simulator", 73)
    run("quickstart")
    run("quickstart", 73, extra={"TMPDIR": "/dev/null/x"})
    for key, schema in schemas.items():
        if key == "outcome-line":
            continue
        commands = {f"{key} {name.replace('-', ' ')}": part for name, part in schema.get("$defs", {}).items()}
        parts = commands or {key: schema}
        for path, part in parts.items():
            if path not in seen and not any(place.startswith(path) for place in seen):
                problem(f"{path}: no run wrote it")
                continue
            for place, name in expected(path, part):
                if name not in seen.get(place, set()):
                    problem(f"{place}: no run wrote {name}")
    print("\n".join(problems) if problems else f"{count} lines")
    sys.exit(1 if problems else 0)


main()
