#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the page of a running simulator in headless Chromium, and prints what failed as JSON."""

import argparse
import inspect
import json
import os
import select
import shlex
import subprocess
import sys
import tempfile
import time
import traceback
from urllib.parse import urlsplit

import accessibility
from browser import Browser
from provider import Simulator, alert, without_network
from relay import Relay

TOPIC = "com.example.app"
VIEWS = ("notifications", "devices", "faults", "feedback", "connections")
ROW_COUNT = 10_000
# CPU time of the page's main thread, which is independent of other load.
FRAME_MILLISECONDS_MAX = 50
FILTER_MILLISECONDS_MAX = 500
HEAP_MIB_MAX = 150
# The content type of TLS alerts, such as close_notify.
TLS_ALERT = 21


class Checks:
    """The checks in order; the simulator is reset before each."""

    def __init__(self, browser, simulator, program):
        self.browser = browser
        self.simulator = simulator
        self.program = program

    def run(self):
        results = []
        for name, check in inspect.getmembers(type(self), inspect.isfunction):
            if name.startswith("check_"):
                results.append((inspect.getsourcelines(check)[1], name.removeprefix("check_"), check))
        return [self._run_one(name, check) for _, name, check in sorted(results)]

    def _run_one(self, name, check):
        began = time.monotonic()
        self.simulator.request("POST", "/reset")
        self.browser.resize(1280, 800)
        self.browser.prefer(prefers_color_scheme="light")
        self.browser.complaints.clear()
        failure = None
        try:
            check(self)
            # The browser reports errors in order, so earlier ones have arrived before this response.
            self.browser.evaluate("1")
            assert self.browser.complaints == [], f"the console says: {self.browser.complaints}"
        except Exception:
            failure = traceback.format_exc()
        return {"name": name.replace("_", " "), "seconds": round(time.monotonic() - began, 2), "failure": failure}

    # Shared functions

    def open(self, query=""):
        self.browser.open(f"{self.simulator.control}/{query}")
        self.browser.wait_for("document.getElementById('connection-state').textContent === 'Live'", "the page is live")
        self.browser.wait_for("document.getElementById('service').textContent !== ''", "the page has loaded")

    def text(self, selector):
        return self.browser.evaluate(f"document.querySelector({json.dumps(selector)})?.innerText")

    def wait_for_text(self, selector, text, seconds=10):
        return self.browser.wait_for(
            f"document.querySelector({json.dumps(selector)})?.innerText.includes({json.dumps(text)})",
            f"{selector} says {text!r}", seconds)

    def wait_for_rows(self, count):
        self.browser.wait_for(f"document.querySelectorAll('.row').length === {count}", f"{count} rows")

    def focused(self):
        return self.browser.evaluate("document.activeElement.id || document.activeElement.dataset.view || "
                                     "document.activeElement.dataset.key || document.activeElement.tagName")

    # Notifications

    def check_loads_without_any_other_host(self):
        self.browser.requested.clear()
        self.open()
        self.wait_for_text("#list-empty", "No notifications yet")
        foreign = [each for each in self.browser.requested if not each.startswith((self.simulator.control, "data:"))]
        assert foreign == [], foreign
        assert self.text("h1") == "apns-legacy simulator"

    def check_the_command_on_an_empty_page_works(self):
        self.open()
        self.wait_for_text("#list-empty", "No notifications yet")
        command = shlex.split(self.text("#list-empty pre").replace("\\\n", ""))
        assert command.pop(0) == "apns-legacy", command
        _, token = self.simulator.add_device(TOPIC)
        with tempfile.TemporaryDirectory() as folder:
            for name in os.listdir(self.simulator.folder):
                os.symlink(os.path.join(self.simulator.folder, name), os.path.join(folder, name))
            with open(os.path.join(folder, "tokens.txt"), "w", encoding="ascii") as file:
                file.write(token + "\n")
            subprocess.run([self.program, *command], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        self.wait_for_text(".row", "Hello")

    def check_shows_a_notification_within_a_second(self):
        _, token = self.simulator.add_device(TOPIC)
        self.open()
        self.browser.evaluate("""void (window.drawnAt = 0, new MutationObserver((_, observer) => {
            if (!document.querySelector(".row")) return;
            window.drawnAt = Date.now();
            observer.disconnect();
        }).observe(document.getElementById("list"), { childList: true, subtree: true }))""")
        payload = {"aps": {"alert": {"title": "Lunch", "body": "It is ready."}, "badge": 3, "sound": "chime.caf"}}
        received = self.simulator.push((token, json.dumps(payload)))[0]["receivedAt"]
        self.browser.wait_for("window.drawnAt", "a row")
        delay = self.browser.evaluate(f"window.drawnAt - Date.parse({json.dumps(received)})")
        assert delay < 1000, f"drawn after {delay} ms"
        row = self.text(".row")
        for part in ("Lunch", "It is ready.", "3", "chime.caf", TOPIC, "binary", token[:8], "delivered"):
            assert part in row, (part, row)

    def check_details_name_fields_and_connect_them_with_bytes(self):
        _, token = self.simulator.add_device(TOPIC)
        self.simulator.push((token, alert("Hello", badge="one")))
        self.open()
        self.wait_for_rows(1)
        self.browser.click(".row")
        self.browser.wait_for("document.querySelector('.hex')", "the frame")
        self.wait_for_text(".payload", "aps.badge is a string, expected a number")
        names = self.browser.evaluate("[...document.querySelectorAll('.field-name')].map((node) => node.textContent)")
        expected = ["command", "identifier", "expiry", "token length", "token", "payload length", "payload"]
        assert names == expected, names
        shown = self.browser.evaluate("""(() => {
            const button = document.querySelectorAll("button.field")[4];
            button.focus();
            return [...document.querySelectorAll(".hex-bytes .is-shown")].map((node) => node.textContent).join(" ");
        })()""")
        assert shown.replace(" ", "") == token, shown
        facts = self.text(".facts")
        for part in (token, "TLS 1.", "127.0.0.1", "CN=Apple Push Services", TOPIC, "bytes", "accepted after"):
            assert part in facts, (part, facts)

    def check_requests_show_their_header_fields(self):
        _, token = self.simulator.add_device(TOPIC)
        assert self.simulator.push_over_http2(token, b'{"aps":{"content-available":1}}', TOPIC) == 200
        number = self.simulator.request("GET", "/notifications")["notifications"][0]["number"]
        self.open(f"?notification={number}")
        self.wait_for_text("#detail", "apns-push-type")
        self.wait_for_text(".banner", "silent")
        self.wait_for_text(".row", "silent")

    def check_a_device_without_the_app_is_410(self):
        identifier, token = self.simulator.add_device(TOPIC)
        self.open("?view=devices")
        online = f"[data-key='online {identifier}']"
        self.browser.click(online)
        self.browser.wait_for(f"document.querySelector(\"{online}\").ariaChecked === 'false'", "the device is offline")
        self.simulator.push((token, alert("later")))
        self.browser.wait_for("document.querySelector('#devices table a')", "the stored notification")
        self.browser.click(online)
        self.browser.wait_for(f"document.querySelector(\"{online}\").ariaChecked === 'true'", "the device is online")
        installed = f"[data-key='app {identifier} {TOPIC}']"
        self.browser.click(installed)
        self.browser.wait_for(f"document.querySelector(\"{installed}\").ariaChecked === 'false'", "the app is removed")
        assert self.simulator.push_over_http2(token, alert("gone").encode(), TOPIC) == 410
        self.browser.click("[data-view=notifications]")
        self.wait_for_rows(2)
        rows = self.browser.evaluate("[...document.querySelectorAll('.row')].map((node) => node.innerText)")
        assert "rejected 410 Unregistered" in rows[0] and "delivered" in rows[1], rows

    def check_each_problem_is_marked_at_its_place(self):
        _, token = self.simulator.add_device(TOPIC)
        self.simulator.push((token, '{"aps":{"badge":"1",\n"alert":{"loc-args":["x",2]}},"n":[1]}'))
        self.open()
        self.browser.click(".row")
        self.browser.wait_for("document.querySelectorAll('.payload mark').length === 2", "two marks")
        marks = self.browser.evaluate("[...document.querySelectorAll('.payload mark')].map((node) => node.innerText)")
        assert marks == ['"1" \u2190 aps.badge is a string, expected a number',
                         "2 \u2190 aps.alert.loc-args contains a number, expected only strings"], marks
        problems = self.browser.evaluate("[...document.querySelectorAll('.problems li')].map((node) => node.innerText)")
        assert problems == ["line 1, column 17: aps.badge is a string, expected a number",
                            "line 2, column 26: aps.alert.loc-args contains a number, expected only strings"], problems

    def check_rejections_have_reasons(self):
        _, token = self.simulator.add_device(TOPIC)
        found = []
        for topic, header in [
            ("com/example", "apns-push-type: alert"), (TOPIC, "apns-push-type: loud"), (TOPIC, "apns-priority: 7"),
            (TOPIC, f"apns-collapse-id: {'x' * 65}"), (TOPIC, "apns-expiration: soon"), (TOPIC, "apns-id: 1"),
            (TOPIC, f"apns-topic: {TOPIC}"), (TOPIC, "apns-push-type: location"),
        ]:
            found.append(self.simulator.push_over_http2(token, alert("x").encode(), topic, header))
        assert found == [400] * 8, found
        # Command 0 has no error response.
        self.simulator.send(bytes([0, 0, 32]) + bytes.fromhex(token) + bytes([0, 0]))
        self.simulator.send(b"\x16\x03\x01")
        self.open()
        self.wait_for_rows(10)
        outcomes = self.browser.evaluate("[...document.querySelectorAll('.outcome')].map((node) => node.innerText)")
        reasons = ["BadTopic", "InvalidPushType", "BadPriority", "BadCollapseId", "BadExpirationDate", "BadMessageId",
                   "DuplicateHeaders", "BadTopic"]
        expected = ["closed", "rejected 4 missing payload", *(f"rejected 400 {reason}" for reason in reversed(reasons))]
        assert outcomes == expected, outcomes
        self.browser.click(".row")
        self.wait_for_text("#detail", "closed the connection without an error response")
        assert self.text(".row-only") == "Not a message: unknown command", self.text(".row")
        self.browser.press("j")
        self.wait_for_text("#detail", "without an error response in command 0")

    # Localization

    def check_localized_alerts_have_the_texts_of_the_app(self):
        hostile = "<img src=x onerror='window.wasRun = true'>"
        texts = {"TITLE": "%2$@ & %1$@", "BODY": f"{hostile} %@ %n %999999$@ %s %@ %", "OPEN": "\u202eOpen %@",
                 "LONG": "%1$@" * 20_000}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "texts.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(texts, file)
            with Simulator.started(self.program, self.simulator.folder, "--strings", path) as simulator:
                _, token = simulator.add_device(TOPIC)
                body = {"title-loc-key": "TITLE", "title-loc-args": ["Ann", "Ben"], "loc-key": "BODY",
                        "loc-args": [hostile], "subtitle-loc-key": "NO_SUCH_KEY", "action-loc-key": "OPEN"}
                long = {"loc-key": "LONG", "loc-args": ["wide " * 200]}
                simulator.push((token, alert(long)), (token, alert(body)))
                self.browser.open(f"{simulator.control}/")
                self.wait_for_rows(2)
                self.browser.click(".row")
                self.browser.wait_for("document.querySelector('.hex')", "the frame")
                assert self.text(".banner-title") == "Ben & Ann"
                shown = f"{hostile} {hostile} %n %999999$@ %s %@ %"
                assert self.text(".banner-body") == shown, self.text(".banner-body")
                assert self.text(".banner .missing-key") == "NO_SUCH_KEY"
                assert "Open %@" in self.text(".banner-marks")
                assert "text missing" in self.text(".row")
                self.browser.press("j")
                self.browser.wait_for("document.querySelector('.banner')?.innerText.includes('wide wide')", "the other")
                assert self.browser.evaluate(accessibility.SIDEWAYS) <= 0, "scrolled sideways"
                assert not self.browser.evaluate("window.wasRun"), "a script of a text ran"
                assert self.browser.evaluate("document.querySelectorAll('main script, main img').length") == 0
                self.browser.open("about:blank")

    def check_hostile_payloads_are_text(self):
        _, token = self.simulator.add_device(TOPIC)
        script = "<script>window.wasRun = true</script><img src=x onerror='window.wasRun = true'>"
        hostile = [
            alert({"title": script, "body": script}), alert("safe \u202egnp.exe\u202c \u2066\u200f end"),
            alert("\U0001F468\u200d\U0001F469\u200d\U0001F467" * 80), alert("x" * 1900),
            b'{"aps":{"alert":"\xff\xfe not UTF-8"}}', b"not JSON <b>at all</b>", b'["no object"]',
            b'{"aps":{"alert":"twice","alert":"again"},"n":12345678901234567890}',
        ]
        for payload in hostile:
            self.simulator.push((token, payload))
        self.open()
        self.wait_for_rows(len(hostile))
        record = self.simulator.request("GET", "/notifications?outcome=any&limit=100")["notifications"]
        for each in record:
            self.browser.open(f"{self.simulator.control}/?notification={each['number']}")
            self.browser.wait_for("document.querySelector('.payload') && document.querySelector('.hex')", "the details")
            source = each["payloadText"]
            if script in source:
                assert script in self.text(".payload") and script in self.text(".banner")
            if "\u202e" in source:
                assert "U+202E" in self.text(".payload") and "U+200F" in self.text(".payload")
            assert self.browser.evaluate(accessibility.SIDEWAYS) <= 0, "scrolled sideways"
        assert not self.browser.evaluate("window.wasRun"), "a script of a payload ran"
        made = self.browser.evaluate("document.querySelectorAll('main script, main img').length")
        assert made == 0, "markup of a payload became elements"

    # Faults

    def check_a_fault_is_added_and_applied(self):
        _, token = self.simulator.add_device(TOPIC)
        self.open("?view=faults")
        self.browser.evaluate("""(() => {
            const preset = document.getElementById("fault-preset");
            preset.value = [...preset.options].find((option) => option.text.startsWith("Too many")).value;
            preset.dispatchEvent(new Event("input", { bubbles: true }));
        })()""")
        self.browser.click("#faults form .primary")
        self.wait_for_text("#faults table", "answer 429 TooManyRequests")
        assert self.simulator.push_over_http2(token, alert("no").encode(), TOPIC) == 429
        self.browser.wait_for("document.querySelectorAll('#faults table').length === 2", "a log")
        self.browser.click("#faults .switch")
        self.browser.wait_for("document.querySelector('#faults .switch').ariaChecked === 'false'", "switched off")
        assert self.simulator.push_over_http2(token, alert("yes").encode(), TOPIC) == 200
        self.browser.click("#faults table .small")
        self.wait_for_text("#faults", "No faults")

    # Feedback and connections

    def check_feedback_is_listed_and_cleared(self):
        _, token = self.simulator.add_device(TOPIC)
        self.open("?view=feedback")
        self.wait_for_text("#feedback", "No pending tokens")
        self.browser.click("#feedback-token")
        self.browser.type("ef" * 32)
        self.browser.click("#feedback form .primary")
        self.wait_for_text("#messages", "no app on any device has this token")
        # A rejected input is kept for correction.
        assert self.browser.evaluate("document.getElementById('feedback-token').value") == "ef" * 32
        self.browser.evaluate("document.getElementById('feedback-token').select()")
        self.browser.type(token)
        self.browser.click("#feedback form .primary")
        self.wait_for_text("#feedback table", token)
        self.wait_for_text("#count-feedback", "1")
        assert [each["token"] for each in self.simulator.request("GET", "/feedback")["entries"]] == [token]
        self.browser.click("#feedback .view-tools button")
        self.browser.click("dialog .danger")
        self.wait_for_text("#feedback", "No pending tokens")
        assert self.simulator.request("GET", "/feedback")["entries"] == []
        # The browser itself reports the rejected request.
        self.browser.evaluate("1")
        self.browser.complaints = [each for each in self.browser.complaints if "status of 404" not in each]

    def check_a_connection_is_ended_from_the_page(self):
        self.open("?view=connections")
        for ending in ("orderly", "reset"):
            with self.simulator.connect() as provider:
                open_ones = [each for each in self.simulator.request("GET", "/connections")["connections"]
                             if "closedAt" not in each]
                number = open_ones[-1]["number"]
                self.browser.evaluate(f"document.getElementById('connection-ending').value = '{ending}'")
                button = f"[data-key='end binary {number}']"
                # A connection opened meanwhile changes the table, but the click still counts.
                self.browser.click(button, meanwhile=lambda: self._connect_and_wait(2))
                select.select([provider], [], [], 10)
                # Below TLS, which treats a reset like an end.
                try:
                    end = os.read(provider.fileno(), 65536)
                    assert ending == "orderly" and end[0] == TLS_ALERT, (ending, end)
                except ConnectionResetError:
                    assert ending == "reset", ending
            self.browser.wait_for(f"!document.querySelector(\"{button}\")", "the connection is closed")

    def _connect_and_wait(self, count):
        """Connects briefly, and checks the number of open connections on the page."""
        with self.simulator.connect():
            self.wait_for_text("#count-connections", str(count))

    def check_a_certificate_is_revoked_and_restored(self):
        _, token = self.simulator.add_device(TOPIC)

        def send():
            return self.simulator.push_over_http2(token, alert("x").encode(), TOPIC)

        assert send() == 200
        self.open("?view=connections")
        button = "[data-key^='revoke HTTP/2']"
        self.browser.click(button)
        self.wait_for_text("#connections table", "revoked")
        assert self.browser.evaluate(f"document.querySelector(\"{button}\").innerText") == "Restore"
        assert send() == 403
        # The new row of that connection moves the others.
        last = self.simulator.request("GET", "/connections")["connections"][-1]
        newest = f"document.querySelector(\"[data-key='revoke HTTP/2 {last['number']}']\")"
        self.browser.wait_for(newest, "the newest connection")
        self.browser.click(button)
        self.browser.wait_for("!document.querySelector('#connections table').innerText.includes('revoked')", "restored")
        assert send() == 200
        self.browser.click("[data-view=notifications]")
        self.wait_for_text("#list", "rejected 403 BadCertificate")

    # Search

    def check_the_filter_is_in_the_address(self):
        _, token = self.simulator.add_device(TOPIC)
        self.simulator.push((token, alert("apples")), (token, alert("pears")), (token, alert("Apples again")))
        self.open("?text=apples")
        self.wait_for_rows(2)
        self.browser.evaluate("document.getElementById('filter-text').focus()")
        self.browser.evaluate("document.getElementById('filter-text').select()")
        self.browser.type("pears")
        self.wait_for_rows(1)
        assert self.browser.evaluate("location.search") == "?text=pears"
        self.browser.open(f"{self.simulator.control}/?text=pears&token={token[:6]}&listener=binary&verdict=delivered")
        self.wait_for_rows(1)
        self.browser.click("#filter-clear")
        self.browser.wait_for("document.querySelectorAll('.row').length === 3", "all rows")
        assert self.browser.evaluate("location.search") == ""

    def check_clear_asks_first(self):
        _, token = self.simulator.add_device(TOPIC)
        self.simulator.push((token, alert("a")))
        self.open()
        self.browser.wait_for("document.querySelector('.row')", "a row")
        self.browser.click("#clear")
        self.browser.wait_for("document.querySelector('dialog[open]')", "the question")
        self.browser.press("Escape")
        self.browser.wait_for("!document.querySelector('dialog')", "the question is gone")
        assert self.simulator.request("GET", "/notifications")["notifications"] != []
        self.browser.click("#clear")
        self.browser.click("dialog .danger")
        self.wait_for_rows(0)
        assert self.simulator.request("GET", "/notifications?outcome=any")["notifications"] == []

    # Keyboard and accessibility

    def check_everything_by_keyboard(self):
        identifier, token = self.simulator.add_device(TOPIC)
        self.simulator.push((token, alert("one")), (token, alert("two")), (token, alert("three")))
        self.open()
        self.browser.wait_for("document.querySelectorAll('.row').length >= 3", "the rows")
        order = []
        for _ in range(40):
            self.browser.press("Tab")
            order.append(self.focused())
            is_visible = self.browser.evaluate("getComputedStyle(document.activeElement).outlineStyle !== 'none'")
            assert is_visible or order[-1] in ("BODY", "main"), f"the focus on {order[-1]} is not visible"
            if order[-1] == "list":
                break
        wanted = ["theme", "help", "reset", *VIEWS, "filter-text", "filter-token", "filter-topic", "filter-outcome",
                  "filter-listener", "clear", "list"]
        assert [each for each in order if each in wanted] == wanted, order
        for key in ("Home", "ArrowDown", "ArrowDown"):
            self.browser.press(key)
        self.browser.wait_for("!document.getElementById('detail').hidden", "the details")
        active = self.browser.evaluate("document.getElementById('list').getAttribute('aria-activedescendant')")
        selected = self.browser.evaluate("document.querySelector('[aria-selected=true]').id")
        assert active == selected != "", (active, selected)
        self.browser.press("Enter")
        assert self.focused() == "heading"
        self.browser.press("Escape")
        assert self.focused() == "list"
        self.browser.press("Escape")
        self.browser.wait_for("document.getElementById('detail').hidden", "the details are closed")
        self.browser.press("?", shift=True)
        self.browser.wait_for("document.querySelector('dialog[open]')", "the help")
        self.browser.press("Escape")
        self.browser.press("2")
        switch = f"online {identifier}"
        for _ in range(60):
            self.browser.press("Tab")
            if self.focused() == switch:
                break
        self.browser.press(" ")
        self.browser.wait_for("document.activeElement.ariaChecked === 'false'", "switched by the space bar")
        assert self.focused() == switch
        self.browser.press("/")
        assert self.focused() == "filter-text"

    def _fill(self):
        """Creates data for all parts of the page."""
        identifier, token = self.simulator.add_device(TOPIC)
        _, other = self.simulator.add_device(TOPIC, isOnline=False)
        gone, dead = self.simulator.add_device(TOPIC)
        self.simulator.request("DELETE", f"/devices/{gone}/apps/{TOPIC}")
        self.simulator.request("POST", "/faults", {"at": {"token": token}, "effect": {"name": "reject", "status": 8},
                                                   "listener": "binary", "occurrenceCountMax": 1})
        localized = json.dumps({"aps": {"alert": {"title": "T", "loc-key": "NO_SUCH_KEY"}, "badge": 1}})
        self.simulator.push((token, alert("rejected")))
        self.simulator.push((other, alert("stored")), (dead, alert("dead")), (token, localized),
                            (token, '{"aps":{"content-available":1}}'), (token, alert("\u202e odd", badge="x")))
        return self.simulator.request("GET", "/notifications?order=newest")["notifications"][0]["number"]

    def check_contrast_and_names(self):
        number = self._fill()
        counts = {}
        for view in VIEWS:
            self.open(f"?view={view}" if view != "notifications" else f"?notification={number}")
            if view == "notifications":
                self.browser.wait_for("document.querySelector('.hex')", "the frame")
            assert accessibility.nameless(self.browser) == [], (view, accessibility.nameless(self.browser))
            for role, count in accessibility.roles(self.browser).items():
                counts[role] = counts.get(role, 0) + count
            for theme in ("light", "dark"):
                self.browser.prefer(prefers_color_scheme=theme, prefers_reduced_motion="reduce")
                ground = self.browser.evaluate("getComputedStyle(document.body).backgroundColor")
                assert ground == ("rgb(255, 255, 255)" if theme == "light" else "rgb(20, 23, 27)"), (theme, ground)
                low = self.browser.evaluate(accessibility.LOW_CONTRAST)["low"]
                assert low == [], (view, theme, low)
        for role in ("banner", "navigation", "main", "search", "listbox", "option", "table", "switch", "status"):
            assert counts.get(role, 0) > 0, f"there is no {role}: {counts}"

    def check_the_theme_is_kept(self):
        self.open()
        for theme, ground in (("dark", "rgb(20, 23, 27)"), ("light", "rgb(255, 255, 255)")):
            self.browser.evaluate(f"""(() => {{
                const select = document.getElementById("theme");
                select.value = "{theme}";
                select.dispatchEvent(new Event("change"));
            }})()""")
            self.open()
            assert self.browser.evaluate("getComputedStyle(document.body).backgroundColor") == ground
        self.browser.evaluate("localStorage.clear()")

    def check_the_header_of_a_phone_takes_at_most_a_fifth(self):
        self.browser.resize(390, 844)
        self.open()
        bottom = self.browser.evaluate("document.querySelector('nav.views').getBoundingClientRect().bottom")
        assert bottom <= 844 / 5, bottom

    def check_the_count_of_the_view_is_that_of_the_record(self):
        _, token = self.simulator.add_device(TOPIC)
        self.simulator.push(*[(token, alert(f"{number}")) for number in range(150)])
        self.open()
        self.wait_for_text("#count-notifications", "150")
        self.simulator.push((token, alert("one more")))
        self.wait_for_text("#count-notifications", "151")

    def check_an_invalid_payload_says_what_is_invalid(self):
        _, token = self.simulator.add_device(TOPIC)
        self.simulator.push((token, '{"aps":'))
        self.open()
        self.wait_for_text(".row", "Invalid payload: ")

    def check_narrow_windows(self):
        self._fill()
        self.browser.resize(360, 640)
        self.open()
        self.browser.wait_for("document.querySelector('.row')", "a row")
        assert self.browser.evaluate(accessibility.SIDEWAYS) <= 0
        self.browser.click(".row")
        self.browser.wait_for("!document.querySelector('.list-pane').checkVisibility()", "the details alone")
        self.browser.wait_for("document.querySelector('.hex')", "the frame")
        assert self.browser.evaluate(accessibility.SIDEWAYS) <= 0
        self.browser.press("Escape")
        self.browser.wait_for("document.querySelector('.list-pane').checkVisibility()", "the list")
        for view in VIEWS[1:]:
            self.open(f"?view={view}")
            assert self.browser.evaluate(accessibility.SIDEWAYS) <= 0, view

    # Load and interruptions

    def check_ten_thousand_rows(self):
        _, token = self.simulator.add_device(TOPIC)
        self.open()
        self.browser.evaluate("""void (window.announcements = 0, new MutationObserver(() => {
            window.announcements += 1;
        }).observe(document.getElementById("announcements"), { childList: true }))""")
        self.simulator.push(*((token, alert(f"Number {number}", badge=number % 100)) for number in range(ROW_COUNT)))
        self.browser.wait_for("parseInt(document.getElementById('count-notifications').textContent.replace(',', ''))"
                              f" >= {ROW_COUNT}", "all rows", 60)
        count = self.browser.evaluate("document.querySelectorAll('.row').length")
        assert count < 60, f"{count} rows are drawn"
        announced = self.browser.evaluate("window.announcements")
        assert announced < 20, f"{announced} screen reader announcements"
        self.browser.call("Performance.enable", timeDomain="threadTicks")
        frames = 60
        spent = self._task_milliseconds(f"""(async () => {{
            const list = document.getElementById("list");
            for (let frame = 0; frame < {frames}; frame += 1) {{
                list.scrollTop += 700;
                await new Promise(requestAnimationFrame);
            }}
        }})()""") / frames
        assert spent < FRAME_MILLISECONDS_MAX, f"a frame takes {spent:.1f} ms"
        filtered = self._task_milliseconds("""(async () => {
            const input = document.getElementById("filter-text");
            input.value = "number 777";
            input.dispatchEvent(new Event("input", { bubbles: true }));
            while (document.querySelectorAll(".row").length !== 11) await new Promise(requestAnimationFrame);
        })()""")
        assert filtered < FILTER_MILLISECONDS_MAX, f"to filter takes {filtered:.0f} ms"
        self.browser.call("HeapProfiler.collectGarbage")
        heap = self._metric("JSHeapUsedSize") / (1 << 20)
        assert heap < HEAP_MIB_MAX, f"{heap:.0f} MiB"
        self.browser.call("Performance.disable")
        print(f"frame {spent:.1f} ms, filter {filtered:.0f} ms, heap {heap:.0f} MiB", file=sys.stderr)

    def _task_milliseconds(self, script):
        """Measures the CPU time of the page's main thread during a script."""
        before = self._metric("TaskDuration")
        self.browser.evaluate(script)
        return (self._metric("TaskDuration") - before) * 1000

    def _metric(self, name):
        metrics = self.browser.call("Performance.getMetrics")["metrics"]
        return next(each["value"] for each in metrics if each["name"] == name)

    def check_connects_again_and_misses_nothing(self):
        _, token = self.simulator.add_device(TOPIC)
        relay = Relay(urlsplit(self.simulator.control).port)
        try:
            self.browser.open(f"http://127.0.0.1:{relay.port}/")
            self.browser.wait_for("document.getElementById('connection-state').textContent === 'Live'", "live")
            self.simulator.push((token, alert("before")))
            self.wait_for_text("#list", "before")
            relay.cut()
            self.browser.wait_for("document.getElementById('connection-state').textContent === 'Not connected'")
            self.simulator.push((token, alert("meanwhile")))
            relay.mend()
            self.browser.wait_for("document.getElementById('connection-state').textContent === 'Live'", "live", 30)
            self.wait_for_text("#list", "meanwhile")
            self.browser.evaluate("1")
            self.browser.complaints = without_network(self.browser.complaints)
        finally:
            self.browser.open("about:blank")
            relay.close()

    def check_a_restarted_simulator_is_reloaded(self):
        folder = self.simulator.folder
        try:
            with Simulator.started(self.program, folder) as simulator:
                port = urlsplit(simulator.control).port
                identifier, token = simulator.add_device(TOPIC, identifier="old phone")
                simulator.push((token, alert("before")))
                self.browser.open(f"{simulator.control}/")
                self.wait_for_text("#list", "before")
            self.browser.wait_for("document.getElementById('connection-state').textContent === 'Not connected'")
            # Loaded data stays visible.
            assert "before" in self.text("#list")
            with Simulator.started(self.program, folder, control_port=port) as simulator:
                self.browser.wait_for("document.getElementById('connection-state').textContent === 'Live'", "live", 30)
                self.wait_for_text("#list-empty", f"port {simulator.gateway_port}")
                self.wait_for_rows(0)
                assert simulator.request("GET", "/devices")["devices"] == []
                self.browser.wait_for("document.getElementById('count-devices').textContent === ''", "no devices")
                _, token = simulator.add_device(TOPIC, identifier="new phone")
                simulator.push((token, alert("after")))
                self.wait_for_text("#list", "after")
                self.browser.click("[data-view=devices]")
                self.wait_for_text("#devices table", "new phone")
                assert identifier not in self.text("#devices table")
                self.browser.open("about:blank")
            self.browser.complaints = without_network(self.browser.complaints)
        finally:
            self.browser.open("about:blank")

    def check_an_address_with_a_token(self):
        token = "0123456789abcdef0123"
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(token + "\n")
            file.flush()
            options = ["--control-token-file", file.name]
            with Simulator.started(self.program, self.simulator.folder, *options, token=token) as simulator:
                address = simulator.control
                self.browser.open(f"{address}/")
                assert "apns-legacy simulator" not in self.browser.evaluate("document.title")
                self.browser.open(address.replace("//", f"//tester:{token}@") + "/")
                live = "document.getElementById('connection-state').textContent === 'Live'"
                self.browser.wait_for(live, "the page is live")
                _, device = simulator.add_device(TOPIC)
                simulator.push((device, alert("with a token")))
                self.wait_for_text("#list", "with a token")
                self.browser.click("[data-view=devices]")
                self.browser.click("#devices .switch")
                self.browser.wait_for("document.querySelector('#devices .switch').ariaChecked === 'false'", "offline")
                # The browser now has the password.
                self.browser.open(f"{address}/?view=devices")
                self.browser.wait_for(live, "the page is live")
                self.browser.open("about:blank")
        # The browser itself reports the rejected first address.
        self.browser.complaints = [each for each in without_network(self.browser.complaints) if "401" not in each]

    def check_the_parts_of_the_page(self):
        """Runs the unit tests of the parsing modules."""
        self.open()
        with open(os.path.join(os.path.dirname(__file__), "module_checks.js"), encoding="utf-8") as file:
            failures = self.browser.evaluate(file.read())
        assert failures == [], failures


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="apns-legacy, for simulators with other options")
    parser.add_argument("folder", help="where the simulator has its certificates")
    parser.add_argument("ready", type=json.loads, help="the line of JSON that it printed when it listened")
    arguments = parser.parse_args()
    ready = arguments.ready
    control = f"http://127.0.0.1:{ready['control_port']}"
    simulator = Simulator(control, arguments.folder, ready["gateway_port"], ready["http2_port"])
    with Browser() as browser:
        results = Checks(browser, simulator, arguments.program).run()
    json.dump(results, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
