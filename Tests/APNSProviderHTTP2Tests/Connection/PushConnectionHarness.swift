// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOCore
import TestSupport
import Testing

@testable import APNSProviderHTTP2

/// A connection without its channel, with a service that sends the bytes of the test.
///
/// The requests are numbers, from 0. Each must have one report, which ``reports`` contains.
struct PushConnectionHarness {
    /// The outcome of a request.
    enum Report: Equatable {
        case accepted
        case rejected(Int)
        /// Verified as not processed.
        case unprocessed
        case unknown(DeliveryOutcome.Reason)
        /// It was sent completely when the connection was lost.
        case lost
        /// It was not sent completely then.
        case unwritten
    }

    /// A frame that the client sent.
    struct Frame: Equatable {
        var kind: UInt8
        var flags: UInt8
        var stream: UInt32
        var payload: [UInt8]
    }

    var machine: PushConnectionStateMachine<Int>
    private(set) var reports: [[Report]] = []
    private(set) var failure: HTTP2Failure?
    private(set) var isOpen = false
    private(set) var isGoingAway = false
    /// What the client has sent, without the preface.
    private(set) var frames: [Frame] = []
    private(set) var sentByteCount = 0
    /// Where each complete request ends in what the client has sent, in their order.
    private(set) var requestEnds: [Int] = []
    private var sent: [UInt8] = []
    private var hasPreface = false

    init(streamCountMax: Int = 1000, authority: String = "host") {
        self.machine = PushConnectionStateMachine(
            authority: authority,
            streamCountMax: streamCountMax,
            startsWithOne: false
        )
    }

    /// A connection whose service has sent its settings, with this many requests, sent as far as the service permits.
    init(requests: Int, settings: [(UInt16, UInt32)] = [], payload: String = "{}") throws {
        self.init()
        self.receive(HTTP2Wire.settings(settings) + HTTP2Wire.frame(.settings, flags: 1))
        #expect(self.isOpen)
        for _ in 0..<requests { try self.write(payload: payload) }
        self.send()
    }

    /// Writes a request.
    mutating func write(payload: String = "{}") throws {
        try self.write(PushRequest(token: DeviceToken(bytes: [1, 2]), payload: ByteBuffer(string: payload)))
    }

    mutating func write(_ request: PushRequest, authorization: String? = nil) {
        let isWritten = self.machine.write(self.reports.count, request, authorization: authorization)
        #expect(isWritten)
        if isWritten { self.reports.append([]) }
    }

    /// Passes bytes of the service to the client, in portions, and sends the client's output unless disabled.
    mutating func receive(_ bytes: [UInt8], portion: Int = 16_384, sends: Bool = true) {
        var rest = bytes[...]
        while !rest.isEmpty {
            self.machine.receive(ByteBuffer(bytes: rest.prefix(portion)))
            rest = rest.dropFirst(portion)
            self.perform()
            if sends { self.send() }
        }
    }

    /// Sends the pending output.
    mutating func send(atMost limit: Int = 65_536) {
        while let bytes = self.machine.nextBytes(atMost: limit) {
            self.sentByteCount += bytes.readableBytes
            self.sent += Array(bytes.readableBytesView)
        }
        self.perform()
        self.readFrames()
    }

    /// The connection is lost; this many bytes have left the system, if that is known.
    mutating func lose(sentByteCount: Int? = nil) {
        let lost = self.machine.takeLost(sentByteCount: sentByteCount)
        for number in lost.unknown { self.reports[number].append(.lost) }
        for number in lost.accepting { self.reports[number].append(.unknown(.acceptanceIncomplete)) }
        for number in lost.unprocessed { self.reports[number].append(.unwritten) }
    }

    private mutating func perform() {
        while let action = self.machine.nextAction() {
            switch action {
            case .opened: self.isOpen = true
            case .answered(let number, let answer):
                self.reports[number].append(answer.outcome == .accepted ? .accepted : .rejected(answer.status))
                #expect(answer.body.readableBytes <= PushResponse.bodyByteCountMax)
            case .unprocessed(let number): self.reports[number].append(.unprocessed)
            case .unknown(let number, let trouble): self.reports[number].append(.unknown(trouble))
            case .goingAway(let unanswered):
                self.isGoingAway = true
                for number in unanswered.unprocessed { self.reports[number].append(.unprocessed) }
                for number in unanswered.accepting { self.reports[number].append(.unknown(.acceptanceIncomplete)) }
                for number in unanswered.unknown { self.reports[number].append(.unknown(.streamReset(code: 7))) }
            case .failed(let failure):
                #expect(self.failure == nil)
                self.failure = failure
            }
        }
    }

    private mutating func readFrames() {
        if !self.hasPreface, self.sent.count >= 24 {
            #expect(self.sent.prefix(24) == Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)[...])
            self.sent.removeFirst(24)
            self.hasPreface = true
        }
        var position = 0
        while self.sent.count - position >= 9 {
            let header = self.sent[position..<(position + 9)].map { UInt32($0) }
            let end = position + 9 + Int(header[0] << 16 | header[1] << 8 | header[2])
            guard self.sent.count >= end else { break }
            self.frames.append(
                Frame(
                    kind: self.sent[position + 3],
                    flags: self.sent[position + 4],
                    stream: header[5] << 24 | header[6] << 16 | header[7] << 8 | header[8],
                    payload: Array(self.sent[(position + 9)..<end])
                )
            )
            position = end
            let isEnd = header[3] == HTTP2Wire.Kind.data.rawValue && header[4] & 1 != 0
            if isEnd { self.requestEnds.append(self.sentByteCount - self.sent.count + position) }
        }
        self.sent.removeFirst(position)
    }

    /// The frames of a kind that the client sent.
    func frames(_ kind: HTTP2Wire.Kind) -> [Frame] { self.frames.filter { $0.kind == kind.rawValue } }

    /// The bytes of bodies that were sent, by stream.
    var bodies: [UInt32: [UInt8]] {
        self.frames(.data).reduce(into: [:]) { $0[$1.stream, default: []] += $1.payload }
    }

    /// The code of the GOAWAY frame, which must be the last frame.
    var goAwayCode: UInt32? {
        guard let last = self.frames.last, last.kind == HTTP2Wire.Kind.goAway.rawValue else { return nil }
        return last.payload[4..<8].reduce(0) { $0 << 8 | UInt32($1) }
    }

    /// The outcome of each request, after checking that each has one report.
    mutating func outcomes(
        sentByteCount: Int? = nil,
        _ location: SourceLocation = #_sourceLocation
    ) -> [Report] {
        self.lose(sentByteCount: sentByteCount)
        #expect(self.reports.allSatisfy { $0.count == 1 }, "\(self.reports)", sourceLocation: location)
        return self.reports.map { $0.first ?? .unknown(.stopped) }
    }
}
