// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOCore
import TestSupport
import Testing

@testable import APNSProviderHTTP2

private typealias Wire = HTTP2Wire
private typealias Report = PushConnectionHarness.Report

/// The service's bytes after two complete requests on the streams 1 and 3, and the expected results.
struct HostileCase: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var bytes: [UInt8]
    var reports: [PushConnectionHarness.Report]
    /// The code with which the client ends the connection; `nil` if it continues.
    var code: UInt32?
    /// The numbers of bytes per portion.
    ///
    /// The library counts each attempt to read a CONTINUATION frame, so that a header of one byte at a time is a flood.
    var portions = [1, 7, 16_384]

    init(
        _ name: String,
        _ frames: [UInt8]...,
        is reports: [PushConnectionHarness.Report],
        ends code: UInt32? = nil
    ) {
        self.testDescription = name
        self.bytes = Array(frames.joined())
        self.reports = reports
        self.code = code
    }

    private static let lost: [Report] = [.lost, .lost]

    /// The connection ends with a code, and the outcomes of the requests are unknown.
    fileprivate static func breach(_ name: String, _ code: UInt32, _ frames: [UInt8]...) -> Self {
        Self(name, Array(frames.joined()), is: Self.lost, ends: code)
    }

    /// If nothing follows a GOAWAY frame, the library reads no more than what arrived with that frame.
    fileprivate func inOnePart() -> Self {
        var hostile = self
        hostile.portions = [16_384]
        return hostile
    }

    fileprivate func inWholeFrames() -> Self {
        var hostile = self
        hostile.portions = [7, 16_384]
        return hostile
    }

    /// The first stream ends with a code, and the outcome of its request is unknown.
    fileprivate static func refused(_ name: String, _ frames: [UInt8]..., code: Int = 1) -> Self {
        Self(name, Array(frames.joined()), is: [.unknown(.streamReset(code: code)), .lost])
    }

    /// The answer to the first request begins with 200, and does not end: the request is not to be repeated.
    fileprivate static func begun(_ name: String, _ frames: [UInt8]...) -> Self {
        Self(name, Array(frames.joined()), is: [.unknown(.acceptanceIncomplete), .lost])
    }
}

@Suite("A service that violates the protocol, without a channel")
struct HostileServiceTests {
    // MARK: Answers

    private static let ok = (":status", "200")

    static let answers: [HostileCase] = [
        .init("a valid 200", Wire.headers(1, [ok]), is: [.accepted, .lost]),
        .begun("no end", Wire.headers(1, [ok], isEnd: false)),
        .init(
            "an end by an empty frame",
            Wire.headers(1, [ok], isEnd: false),
            Wire.data(1, []),
            is: [.accepted, .lost]
        ),
        .init(
            "a provisional answer first",
            Wire.headers(1, [(":status", "103")], isEnd: false),
            Wire.headers(1, [(":status", "100")], isEnd: false),
            Wire.headers(1, [ok]),
            is: [.accepted, .lost]
        ),
        .init("trailers", Wire.headers(1, [ok], isEnd: false), Wire.headers(1, [("x", "y")]), is: [.accepted, .lost]),
        .init(
            "a rejection with body and trailers",
            Wire.headers(1, [(":status", "400")], isEnd: false),
            Wire.data(1, [1], isEnd: false),
            Wire.headers(1, [("x", "y")]),
            is: [.rejected(400), .lost]
        ),
        .refused("a provisional answer with END_STREAM", Wire.headers(1, [(":status", "103")])),
        .refused("101", Wire.headers(1, [(":status", "101")], isEnd: false)),
        .refused("two statuses", Wire.headers(1, [(":status", "400"), ok])),
        .refused("the same status twice", Wire.headers(1, [ok, ok])),
        .refused("a second answer", Wire.headers(1, [(":status", "400")], isEnd: false), Wire.headers(1, [ok])),
        .begun("a worse second answer", Wire.headers(1, [ok], isEnd: false), Wire.headers(1, [(":status", "500")])),
        .refused(
            "a second answer after a body",
            Wire.headers(1, [(":status", "400")], isEnd: false),
            Wire.data(1, [1], isEnd: false),
            Wire.headers(1, [ok])
        ),
        .begun(
            "a status in trailers, after a field",
            Wire.headers(1, [ok], isEnd: false),
            Wire.headers(1, [("x", "y"), ok])
        ),
        .begun(
            "trailers without END_STREAM",
            Wire.headers(1, [ok], isEnd: false),
            Wire.headers(1, [("x", "y")], isEnd: false)
        ),
        .refused("no status", Wire.headers(1, [("x", "y")])),
        .refused("an empty block", Wire.headers(1, [UInt8]())),
        .refused("a status after a field", Wire.headers(1, [("x", "y"), ok])),
        .refused("a pseudo-header field of requests", Wire.headers(1, [ok, (":path", "/")])),
        .refused("an unknown pseudo-header field", Wire.headers(1, [ok, (":reason", "x")])),
        .refused("an upper-case name", Wire.headers(1, [ok, ("Apns-id", "x")])),
        .refused("an upper-case status", Wire.headers(1, [(":Status", "200")])),
        .refused("a name with a space", Wire.headers(1, [ok, ("a b", "x")])),
        .refused("an empty name", Wire.headers(1, [ok, ("", "x")])),
        .refused("a value with a line end", Wire.headers(1, [ok, ("x", "a\r\nb: c")])),
        .begun(
            "a content-length that is too long",
            Wire.headers(1, [ok, ("content-length", "5")], isEnd: false),
            Wire.data(1, [1])
        ),
        .begun(
            "a content-length that is too short",
            Wire.headers(1, [ok, ("content-length", "1")], isEnd: false),
            Wire.data(1, [1, 2])
        ),
        .refused("a content-length without a body", Wire.headers(1, [ok, ("content-length", "5")])),
        .refused("a content-length that is not a number", Wire.headers(1, [ok, ("content-length", "-1")])),
        .refused("two content-lengths", Wire.headers(1, [ok, ("content-length", "0"), ("content-length", "0")])),
    ]

    static let connectionFields: [HostileCase] =
        ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"].map { name in
            .refused("the field \(name)", Wire.headers(1, [ok, (name, "close")]))
        }

    static let statuses: [HostileCase] =
        ["+200", " 200", "200 ", "20", "2000", "2x0", "0x8", "", "-20", "099", "000", "600", "999"].map { status in
            .refused("status '\(status)'", Wire.headers(1, [(":status", status)]))
        }

    // MARK: Ends of streams

    static let ends: [HostileCase] = [
        .init("refused", Wire.reset(1, code: 7), is: [.unprocessed, .lost]),
        .init("refused twice", Wire.reset(1, code: 7), Wire.reset(1, code: 7), is: [.unprocessed, .lost]),
        .init("refused, then answered", Wire.reset(1, code: 7), Wire.headers(1, [ok]), is: [.unprocessed, .lost]),
        .init("answered, then refused", Wire.headers(1, [ok]), Wire.reset(1, code: 7), is: [.accepted, .lost]),
        .init(
            "provisionally answered, then refused",
            Wire.headers(1, [(":status", "103")], isEnd: false),
            Wire.reset(1, code: 7),
            is: [.unprocessed, .lost]
        ),
        .begun("refused in the middle of the answer", Wire.headers(1, [ok], isEnd: false), Wire.reset(1, code: 7)),
        .begun("ended without an error", Wire.headers(1, [ok], isEnd: false), Wire.reset(1, code: 0)),
        .refused(
            "refused in the middle of a rejection",
            Wire.headers(1, [(":status", "503")], isEnd: false),
            Wire.reset(1, code: 7),
            code: 7
        ),
        .refused("ended with code 0 before the answer", Wire.reset(1, code: 0), code: 0),
        .refused("cancelled", Wire.reset(1, code: 8), code: 8),
        .refused("ended with an undefined code", Wire.reset(1, code: 0xFFFF_FFFF), code: 0xFFFF_FFFF),
        .init("GOAWAY in between", Wire.goAway(last: 1), Wire.headers(1, [ok]), is: [.accepted, .unprocessed]),
        .init("GOAWAY before all", Wire.goAway(last: 0), Wire.headers(1, [ok]), is: [.unprocessed, .unprocessed]),
        .init("GOAWAY after all", Wire.goAway(last: 0x7FFF_FFFF), Wire.headers(3, [ok]), is: [.lost, .accepted]),
        .init("GOAWAY twice, lower", Wire.goAway(last: 3), Wire.goAway(last: 1), is: [.lost, .unprocessed]),
        .init(
            "GOAWAY in the middle of the answer",
            Wire.headers(3, [ok], isEnd: false),
            Wire.goAway(last: 1),
            is: [.lost, .unknown(.acceptanceIncomplete)]
        ),
        .init(
            "a GOAWAY that grows",
            Wire.goAway(last: 1),
            Wire.goAway(last: 3),
            Wire.headers(3, [ok]),
            is: [.lost, .unprocessed],
            ends: 1
        ),
        .init(
            "a GOAWAY that grows to the end",
            Wire.goAway(last: 0),
            Wire.goAway(last: 0x7FFF_FFFF),
            Wire.headers(1, [ok]),
            is: [.unprocessed, .unprocessed],
            ends: 1
        ).inOnePart(),
        .breach("a GOAWAY of an even stream", 1, Wire.goAway(last: 2)),
        .breach("a GOAWAY on a stream", 1, Wire.frame(.goAway, stream: 1, Array(repeating: 0, count: 8))),
        .breach("a short GOAWAY", 6, Wire.frame(.goAway, [0, 0, 0, 1])),
        .breach("a short RST_STREAM", 6, Wire.frame(.reset, stream: 1, [0, 0, 7])),
        .breach("RST_STREAM on stream 0", 1, Wire.reset(0, code: 7)),
    ]

    // MARK: Streams that are not open

    static let unopenedStreams: [HostileCase] = [
        .breach("an answer on an idle stream", 1, Wire.headers(5, [ok])),
        .breach("a body on an idle stream", 1, Wire.data(5, [1])),
        .breach("RST_STREAM on an idle stream", 1, Wire.reset(5, code: 7)),
        .breach("WINDOW_UPDATE on an idle stream", 1, Wire.windowUpdate(5, by: 1)),
        .breach("an answer on an even stream", 1, Wire.headers(2, [ok])),
        .breach("a body on an even stream", 1, Wire.data(2, [1])),
        .breach("an answer on stream 0", 1, Wire.headers(0, [ok])),
        .breach("a body on stream 0", 1, Wire.data(0, [1])),
        .breach("a body before the answer", 1, Wire.data(1, [1])),
        .breach(
            "PUSH_PROMISE",
            1,
            Wire.frame(
                .pushPromise,
                flags: 4,
                stream: 1,
                Wire.number(2)
                    + Wire.block([
                        (":method", "GET"), (":scheme", "https"), (":authority", "host"), (":path", "/"),
                    ])
            )
        ),
        .breach("CONTINUATION without HEADERS", 1, Wire.frame(.continuation, flags: 4, stream: 1, Wire.status200)),
        .breach("a frame within a header block", 1, Wire.frame(.headers, stream: 1, Wire.status200), Wire.ping)
            .inWholeFrames(),
        .breach(
            "CONTINUATION of another stream",
            1,
            Wire.frame(.headers, stream: 1, Wire.status200),
            Wire.frame(.continuation, flags: 4, stream: 3)
        ).inWholeFrames(),
        .breach("a frame that is too long", 6, Wire.frame(.data, stream: 1, Array(repeating: 0, count: 16_385))),
        .breach("padding that is too long", 1, Wire.frame(.headers, flags: 0xC, stream: 1, [9, 0x88])),
    ]

    /// The answer on stream 1 is complete; what follows on that stream has no effect on it.
    static let closed: [(String, [UInt8])] = [
        ("another answer", Wire.headers(1, [(":status", "500")])), ("a body", Wire.data(1, [1])),
        ("RST_STREAM", Wire.reset(1, code: 7)), ("WINDOW_UPDATE", Wire.windowUpdate(1, by: 1)),
        ("PRIORITY", Wire.frame(.priority, stream: 1, [0, 0, 0, 0, 1])),
    ]

    // MARK: Settings and windows

    static let settings: [HostileCase] = [
        .breach("push enabled", 1, Wire.settings([(2, 1)])),
        .breach("push set to 2", 1, Wire.settings([(2, 2)])),
        .breach("an initial window of 2^31", 3, Wire.settings([(4, 1 << 31)])),
        .breach("frames that are too short", 1, Wire.settings([(5, 16_383)])),
        .breach("frames that are too long", 1, Wire.settings([(5, 1 << 24)])),
        .breach("settings on a stream", 1, Wire.frame(.settings, stream: 1)),
        .breach("an incomplete setting", 6, Wire.frame(.settings, [0, 3, 0])),
        .breach("an acknowledgement with settings", 6, Wire.frame(.settings, flags: 1, [0, 3, 0, 0, 0, 1])),
        .breach("an acknowledgement of nothing", 1, Wire.frame(.settings, flags: 1)),
        .breach("too many in one frame", 11, Wire.settings(Array(repeating: (0xABCD, 1), count: 33))),
        .init("unknown settings", Wire.settings([(0xABCD, 1)]), Wire.headers(1, [ok]), is: [.accepted, .lost]),
        .init(
            "an unknown frame",
            Wire.frame(0xAB, flags: 255, stream: 7, [1]),
            Wire.headers(1, [ok]),
            is: [.accepted, .lost]
        ),
        .breach("a window that overflows", 3, Wire.windowUpdate(0, by: 0x7FFF_FFFF)),
        .refused("a stream's window that overflows", Wire.windowUpdate(1, by: 0x7FFF_FFFF), code: 3),
        // The RFC requires the end of the connection here; libnghttp2 ends the stream.
        .refused(
            "a stream's window that overflows by an initial window",
            Wire.windowUpdate(1, by: 0x7FFF_FFFF - 65_535) + Wire.settings([(4, 65_540)]),
            code: 3
        ),
        .breach("a window increment of 0", 1, Wire.windowUpdate(0, by: 0)),
        .breach("a short WINDOW_UPDATE", 6, Wire.frame(.windowUpdate, [0, 1])),
        .breach("a short PING", 6, Wire.frame(.ping, [1])),
        .breach("PING on a stream", 1, Wire.frame(.ping, stream: 1, Array(repeating: 0, count: 8))),
    ]

    // MARK: Compressed fields

    static let blocks: [HostileCase] = [
        .breach("an index in no table", 9, Wire.headers(1, [0xFF, 0x80, 0x01])),
        .breach("index 0", 9, Wire.headers(1, [0x80])),
        .breach("an endless integer", 9, Wire.headers(1, Array(repeating: 0xFF, count: 20))),
        .breach("an incomplete field", 9, Wire.headers(1, [0x00, 0x05, 0x61])),
        .breach("a table that is too large", 9, Wire.headers(1, [0x3F, 0xE2, 0x1F, 0x88])),
        .breach("invalid Huffman codes", 9, Wire.headers(1, [0x88, 0x00, 0x81, 0xFF, 0x81, 0xFF])),
    ]

    static let cases =
        Self.answers + Self.connectionFields + Self.statuses + Self.ends + Self.unopenedStreams + Self.settings
        + Self.blocks

    /// Goal: each request has its one correct report, however the bytes arrive, and a violation ends the connection
    /// with a GOAWAY frame.
    @Test(arguments: Self.cases)
    func `each request has one report`(_ hostile: HostileCase) throws {
        for portion in hostile.portions {
            var harness = try PushConnectionHarness(requests: 2)
            harness.receive(hostile.bytes, portion: portion)
            #expect(harness.failure?.code == hostile.code)
            if let code = hostile.code { #expect(harness.goAwayCode == code) }
            #expect(harness.outcomes() == hostile.reports, "in portions of \(portion)")
        }
    }

    @Test(arguments: Self.closed)
    func `frames on a closed stream have no effect`(_ name: String, _ bytes: [UInt8]) throws {
        var harness = try PushConnectionHarness(requests: 2)
        harness.receive(Wire.headers(1, Wire.status200) + bytes + bytes + Wire.headers(3, Wire.status200))
        // RFC 9113, 5.1: the client may end the connection for it, or not.
        let isLost = harness.failure != nil
        if isLost { #expect(harness.goAwayCode == harness.failure?.code) }
        #expect(harness.outcomes() == [.accepted, isLost ? .lost : .accepted])
    }

    @Test func `a push sent before the settings that disable it is refused`() throws {
        var harness = PushConnectionHarness()
        harness.receive(Wire.settings())
        for _ in 0..<2 { try harness.write() }
        harness.send()
        let promise = Wire.block([(":method", "GET"), (":scheme", "https"), (":authority", "h"), (":path", "/")])
        harness.receive(Wire.frame(.pushPromise, flags: 4, stream: 1, Wire.number(2) + promise))
        harness.receive(Wire.headers(2, [Self.ok]) + Wire.headers(1, [Self.ok]))
        #expect(harness.frames(.reset).map(\.stream) == [2])
        #expect(harness.failure == nil)
        #expect(harness.outcomes() == [.accepted, .lost])
    }

    // MARK: Greetings

    @Test(arguments: [
        Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8), Wire.ping, Wire.goAway(last: 0),
        Wire.frame(.settings, flags: 1),
        Wire.headers(1, Wire.status200), Array(repeating: 0, count: 100), Array(repeating: 255, count: 100),
    ])
    func `a service that does not begin with its settings is refused`(_ bytes: [UInt8]) {
        var harness = PushConnectionHarness()
        harness.receive(bytes)
        #expect(!harness.isOpen)
        #expect(harness.failure != nil)
        #expect((harness.goAwayCode ?? 0) != 0)
        #expect(harness.machine.room == 0)
    }

    @Test func `after the end nothing is read and nothing is sent`() throws {
        var harness = try PushConnectionHarness(requests: 2)
        harness.receive(Wire.data(5, [1]))
        let sentByteCount = harness.sentByteCount
        harness.receive(Wire.headers(1, Wire.status200) + Wire.ping + Wire.goAway(last: 0) + Wire.settings())
        harness.send()
        #expect(harness.sentByteCount == sentByteCount)
        #expect(harness.machine.room == 0)
        #expect(harness.outcomes() == [.lost, .lost])
    }

    // MARK: Random bytes

    private static let conversation: [UInt8] = {
        let frames: [[UInt8]] = [
            Wire.settings([(3, 100), (4, 1000)]), Wire.frame(.settings, flags: 1),
            Wire.headers(1, [ok, ("apns-id", "x")]), Wire.ping, Wire.headers(3, [(":status", "400")], isEnd: false),
            Wire.data(3, Array(#"{"reason":"BadDeviceToken"}"#.utf8)), Wire.windowUpdate(0, by: 100),
            Wire.reset(5, code: 7), Wire.headers(7, [(":status", "103")], isEnd: false), Wire.headers(7, [ok]),
            Wire.goAway(last: 7, #"{"reason":"Shutdown"}"#),
        ]
        return Array(frames.joined())
    }()

    /// Goal: no bytes make the client trap, and each request has one report.
    ///
    /// Method: change bytes of a valid conversation at random, from a seed that the failure contains.
    @Test(arguments: 0..<TestEffort.count(60, long: 300) as Range<UInt64>)
    func `changed bytes never trap`(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        for _ in 0..<TestEffort.count(10, long: 20) {
            var bytes = Self.conversation
            for _ in 0..<Int.random(in: 0...4, using: &random) {
                let index = bytes.indices.randomElement(using: &random) ?? 0
                bytes[index] = UInt8.random(in: 0...255, using: &random)
            }
            var harness = try PushConnectionHarness(requests: 4)
            harness.receive(bytes, portion: Int.random(in: 1...60, using: &random))
            _ = harness.outcomes()
        }
    }

    /// The same with complete frames of random types, flags, streams and bodies.
    @Test(arguments: 0..<TestEffort.count(60, long: 200) as Range<UInt64>)
    func `random frames never trap`(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        for _ in 0..<10 {
            var harness = try PushConnectionHarness(requests: 4)
            for _ in 0..<20 {
                var payload = (0..<Int.random(in: 0...20, using: &random)).map { _ in
                    UInt8.random(in: 0...255, using: &random)
                }
                if Bool.random(using: &random) { payload = Wire.block([Self.ok]) }
                harness.receive(
                    Wire.frame(
                        UInt8.random(in: 0...10, using: &random),
                        flags: [0, 1, 4, 5, 0xD, 0x2D, 0xFF].randomElement(using: &random) ?? 0,
                        stream: UInt32.random(in: 0...9, using: &random),
                        payload
                    ),
                    portion: Int.random(in: 1...60, using: &random),
                    sends: Bool.random(using: &random)
                )
                if harness.machine.room > 0, harness.failure == nil, Bool.random(using: &random) {
                    try harness.write()
                }
            }
            harness.send()
            _ = harness.outcomes()
        }
    }
}
