#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Completes command lines of apns-legacy in a shell, as if the tab key was pressed there.

    completions.py PROGRAM SHELL FOLDER

SHELL is bash, zsh or fish, and FOLDER is an empty folder. Prints each problem on a line, or the
number of completed command lines.
"""

import os
import pty
import re
import subprocess
import sys
import time

PROGRAM, SHELL, FOLDER = os.path.abspath(sys.argv[1]), sys.argv[2], os.path.abspath(sys.argv[3])
DEADLINE = 20

os.chdir(FOLDER)
os.makedirs("bin")
os.symlink(PROGRAM, "bin/apns-legacy")
os.makedirs("work/folder")
for name in ["work/push.pem", "work/batch.jsonl", "work/gateway.yaml", "work/with space.pem"]:
    open(name, "w").close()
environment = {**os.environ, "PATH": f"{FOLDER}/bin:{os.environ['PATH']}", "HOME": FOLDER, "TERM": "dumb",
               "XDG_CONFIG_HOME": FOLDER, "XDG_DATA_HOME": FOLDER, "LC_ALL": "C.UTF-8"}
script = subprocess.run([PROGRAM, "--generate-completion-script", SHELL], capture_output=True, text=True, check=True)
with open("script", "w") as file:
    file.write(script.stdout)
os.makedirs("functions")
with open("functions/_apns-legacy", "w") as file:
    file.write(script.stdout)

BASH = r"""
source "$1" || exit 1
line=$2
# Like readline, which treats = and : as separate words.
COMP_WORDS=()
for word in $line; do
    if [[ $word == --*=* ]]; then COMP_WORDS+=("${word%%=*}" = "${word#*=}"); else COMP_WORDS+=("$word"); fi
done
[[ $line == *" " ]] && COMP_WORDS+=("")
COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 )) COMP_LINE=$line COMP_POINT=${#line} COMPREPLY=()
function=$(complete -p apns-legacy | sed 's/.*-F \([^ ]*\) .*/\1/')
cur=${COMP_WORDS[COMP_CWORD]}
[[ $cur == = ]] && cur=
"$function" apns-legacy "$cur" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
"""

ZSH = r"""
PROMPT=
fpath=("$FUNCTIONS" $fpath)
autoload -Uz compinit && compinit -u -d "$FUNCTIONS/../dump"
compadd () {
    local -a hits
    if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd "$@"; return; fi
    builtin compadd -A hits "$@"
    print -rl -- $hits >>$CAPTURED
    builtin compadd "$@"
}
capture () { zle list-choices; print DONE >>$CAPTURED; zle kill-whole-line }
zle -N capture
bindkey '^X' capture
print DONE >>$CAPTURED
"""


class Zsh:
    """An interactive zsh whose matches go to a file."""

    def __init__(self):
        self.path = FOLDER + "/captured"
        open(self.path, "w").close()
        with open("setup", "w") as file:
            file.write(ZSH)
        self.terminal, inner = pty.openpty()
        values = {**environment, "CAPTURED": self.path, "FUNCTIONS": FOLDER + "/functions"}
        subprocess.Popen(["zsh", "-f", "-i"], stdin=inner, stdout=inner, stderr=inner, cwd="work", env=values,
                         start_new_session=True)
        os.close(inner)
        os.set_blocking(self.terminal, False)
        self.ask(f"source {FOLDER}/setup\r")

    def ask(self, keys):
        open(self.path, "w").close()
        os.write(self.terminal, keys.encode())
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            try:
                os.read(self.terminal, 65536)
            except BlockingIOError:
                pass
            with open(self.path) as file:
                lines = file.read().splitlines()
            if "DONE" in lines:
                return [line for line in lines if line != "DONE"]
            time.sleep(0.01)
        raise SystemExit(f"zsh does not answer to {keys!r}")


zsh = Zsh() if SHELL == "zsh" else None


def completions(line):
    """The shell's completions of the last word."""
    if SHELL == "zsh":
        return zsh.ask(line + "\x18")
    if SHELL == "bash":
        words = ["bash", "--norc", "-c", BASH, "bash", FOLDER + "/script", line]
    else:
        words = ["fish", "--no-config", "-c", f"source {FOLDER}/script; complete -C '{line}'"]
    ended = subprocess.run(words, capture_output=True, text=True, cwd="work", env=environment, timeout=DEADLINE)
    if ended.stderr:
        return [ended.stderr]
    return [found.split("\t")[0] for found in ended.stdout.splitlines() if found]


problems = []
count = 0


def expect(line, *names, without=()):
    """Expects the shell to offer these names, possibly among others, and none of the excluded ones."""
    global count
    count += 1
    found = [re.sub(r"[/ ]$", "", name) for name in completions(line)]
    missing = [name for name in names if name not in found]
    wrong = [name for name in without if name in found]
    if missing or wrong:
        problems.append(f"{SHELL}: {line!r} offers {found[:12]}, without {missing}, but with {wrong}")


files = ["push.pem", "batch.jsonl", "folder"]
expect("apns-legacy se", "send", without=["purge"])
expect("apns-legacy ", "send", "purge", "gateway", "certificate", "quickstart")
expect("apns-legacy purge a", "apply")
expect("apns-legacy certificate new ", "authority", "server", "client")
expect("apns-legacy send --cert", "--certificate", without=["--port"])
expect("apns-legacy purge apply --", "--database", "--purge-list", "--summary", without=["--host"])
expect("apns-legacy send --certificate ", *files)
expect("apns-legacy send --certificate pu", "push.pem", without=["batch.jsonl"])
expect("apns-legacy send --host a --tokens ", *files)
expect("apns-legacy send --host a ", *files)
expect("apns-legacy send ba", "batch.jsonl")
expect("apns-legacy purge import --purge-list ", *files)
expect("apns-legacy certificate show ", *files)
expect("apns-legacy certificate show push.pem ", *files)
expect("apns-legacy certificate convert push.pem ", *files)
expect("apns-legacy gateway check --config ", "gateway.yaml", "folder", without=["push.pem"])
expect("apns-legacy simulator --folder ", "folder", without=["push.pem"])
expect("apns-legacy feedback --certificates ", "folder", without=["push.pem"])
expect("apns-legacy send --transport ", "binary", "http2")
expect("apns-legacy send --delivery at-m", "at-most-once", without=["at-least-once"])
expect("apns-legacy send --summary ", "text", "json", without=files)
expect("apns-legacy send --tls-min ", "1.0", "1.3")
expect("apns-legacy send --command ", "0", "1", "2")
expect("apns-legacy send --environment ", "production", "sandbox")
expect("apns-legacy purge apply --sql ", "ansi", "mysql", "postgresql")
expect("apns-legacy payload check --transport ", "binary", "http2", "voip")
expect("apns-legacy certificate new authority --key-type ", "rsa", "ec")
expect("apns-legacy send --host ", without=files)
print("\n".join(problems) if problems else f"{count} completions")
