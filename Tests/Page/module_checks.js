// SPDX-License-Identifier: Apache-2.0
// Runs in the page: tests the modules that parse and store data. The result lists the differences.
(async () => {
    const { EventParser } = await import("/page/event-stream.js");
    const { Filter } = await import("/page/filter.js");
    const { offsetOf, prettyPieces } = await import("/page/json-text.js");
    const { HELD_COUNT_MAX, NotificationStore, OLDER_COUNT_MAX } = await import("/page/notification-store.js");
    const failures = [];
    const expect = (name, found, expected) => {
        const [one, other] = [JSON.stringify(found), JSON.stringify(expected)];
        if (one !== other) failures.push(`${name}: ${one}, not ${other}`);
    };

    // Server-sent events, split at every position.
    const stream =
        ": hello\nid: 1\nevent: device\ndata: {\ndata: }\n\n" +
        "id: 2\r\ndata:x\r\n\r\ndata\n\ndata: \rid:3\r\rid: 4\n";
    const expectedEvents = [["device", "{\n}", "1"], ["message", "x", "2"], ["message", "", "2"], ["message", "", "3"]];
    for (let cut = 0; cut <= stream.length; cut += 1) {
        const events = [];
        const parser = new EventParser((...event) => events.push(event));
        parser.feed(stream.slice(0, cut));
        parser.feed(stream.slice(cut));
        expect(`events cut at ${cut}`, events, expectedEvents);
    }

    // JSON is shown as sent.
    const pretty = (source) => prettyPieces(source).map(({ text }) => text).join("");
    expect("an object", pretty('{"a":1,"a":[ ],"b":{"c":"\\u202e"}}'),
        '{\n  "a": 1,\n  "a": [],\n  "b": {\n    "c": "\\u202e"\n  }\n}');
    expect("a long number", pretty("[12345678901234567890]"), "[\n  12345678901234567890\n]");
    expect("what is no JSON", pretty('{"a":oops}'), '{\n  "a": oops}');
    expect("a string without end", pretty('{"a":"b'), '{\n  "a": "b');
    expect("nothing", pretty(""), "");
    for (const { text, offset } of prettyPieces('{"a": [1, true]}')) {
        if (offset >= 0) expect(`the place of ${text}`, '{"a": [1, true]}'.slice(offset, offset + text.length), text);
    }
    expect("line 1", offsetOf("abc", 1, 3), 2);
    expect("behind emoji", offsetOf("\u{1F600}bc", 1, 2), 2);
    expect("line 3", offsetOf("a\r\nb\rcd", 3, 2), 6);
    expect("past the end", offsetOf("a", 9, 9), 1);

    // Filters.
    const sample = {
        number: 1,
        token: "abcd",
        topic: "t",
        listener: "http2",
        outcome: "rejected",
        payloadText: "{}",
        preview: { body: "Füße [x]" },
    };
    for (const [values, matches] of [
        [{}, true],
        [{ text: "FÜßE" }, true],
        [{ text: "füße [" }, true],
        [{ text: ".*" }, false],
        [{ token: "<AB c" }, true],
        [{ token: "bc" }, false],
        [{ topic: "t" }, true],
        [{ topic: "u" }, false],
        [{ listener: "binary" }, false],
        [{ outcome: "rejected" }, true],
        [{ outcome: "accepted" }, false],
        [{ outcome: "delivered" }, false],
    ]) {
        expect(`filter ${JSON.stringify(values)}`, new Filter(values).matches(sample), matches);
    }

    // The number of stored notifications is limited, and the newest are first.
    const row = (number) => {
        const delivery = number % 2 ? "delivered" : "stored";
        return { number, outcome: "accepted", delivery, payloadText: String(number) };
    };
    const rows = (from, to) => Array.from({ length: to - from + 1 }, (_, index) => row(from + index));
    const held = HELD_COUNT_MAX;
    const store = new NotificationStore();
    store.add(rows(5001, 5000 + held));
    expect("held", [store.matchingCount, store.at(0).number, store.lowestNumber], [held, 5000 + held, 5001]);
    store.add(rows(5001 + held, 5100 + held));
    expect("the oldest went", [store.heldCount, store.lowestNumber, store.hasOlder], [held, 5101, true]);
    expect("the last place", store.indexOf(5101), held - 1);
    store.addOlder(rows(4001, 5100));
    expect("older", [store.matchingCount, store.lowestNumber, store.at(held).number], [held + 1100, 4001, 5100]);
    store.add(rows(5101 + held, 5200 + held));
    expect("no gap", [store.matchingCount, store.at(held).number], [held + 1200, 5200]);
    store.addOlder(rows(4000 - OLDER_COUNT_MAX, 4000));
    expect("no more older ones", store.canTakeOlder, false);
    store.filter = new Filter({ outcome: "stored" });
    expect("filtered", [store.matchingCount, store.at(0).number], [held / 2, 5200 + held]);
    store.update(5200 + held, { number: 5200 + held, delivery: "delivered" });
    expect("delivered since", store.at(0).number, 5198 + held);
    expect("twice", store.add([row(5200 + held)]), { added: 0, matched: 0 });
    return failures;
})()
