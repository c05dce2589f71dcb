// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import APNSSession

@Suite(.timeLimit(.minutes(1))) struct FeedbackReaderTests {
    static func reader() -> FeedbackReader { FeedbackReader(silence: .seconds(5), deadline: .seconds(60), now: .zero) }

    /// A tuple with a token of this length.
    static func tuple(_ tokenByteCount: Int, byte: UInt8 = 0xAB) -> [UInt8] {
        [0x5F, 0x00, 0x00, 0x01, UInt8(tokenByteCount >> 8), UInt8(tokenByteCount & 255)]
            + [UInt8](repeating: byte, count: tokenByteCount)
    }

    static func ending(
        _ reason: FeedbackEnding.Reason,
        tuples: UInt64 = 0,
        bytes: UInt64 = 0,
        partial: Int = 0
    ) -> FeedbackStep {
        .finish(FeedbackEnding(reason: reason, tupleCount: tuples, byteCount: bytes, partialByteCount: partial))
    }

    // MARK: States and events

    enum State: CaseIterable, Sendable {
        case reading, closed, silent, malformed, limited, finished

        func make() -> FeedbackReader {
            var reader = FeedbackReaderTests.reader()
            switch self {
            case .reading: break
            case .closed: _ = reader.peerClosed()
            case .silent: _ = reader.timePassed(now: .seconds(5))
            case .malformed: _ = reader.received([0, 0, 0, 0, 0, 0], now: .zero)
            case .limited:
                reader = FeedbackReader(silence: .seconds(5), deadline: .seconds(60), byteCountMax: 7, now: .zero)
                _ = reader.received(FeedbackReaderTests.tuple(2), now: .zero)
            case .finished: _ = reader.connectionClosed()
            }
            return reader
        }
    }

    enum Event: CaseIterable, Sendable {
        case bytes, peerClosed, truncated, failed, stop, time, connectionClosed

        func happen(to reader: inout FeedbackReader) -> FeedbackStep {
            switch self {
            case .bytes: reader.received(FeedbackReaderTests.tuple(1), now: .seconds(1))
            case .peerClosed: reader.peerClosed()
            case .truncated: reader.truncated(now: .seconds(1))
            case .failed: reader.failed()
            case .stop: reader.stop()
            case .time: reader.timePassed(now: .seconds(61))
            case .connectionClosed: reader.connectionClosed()
            }
        }
    }

    static func expected(_ state: State, _ event: Event) -> FeedbackStep {
        let malformed = FeedbackEnding.Reason.malformed(offset: 0, tokenByteCount: 0)
        switch (state, event) {
        case (.finished, _): return .ignore
        case (.reading, .bytes): return .spool(wakeAt: .seconds(6))
        case (.limited, .bytes): return .ignore
        case (.limited, .connectionClosed): return Self.ending(.limit, tuples: 1, bytes: 8)
        case (.reading, .connectionClosed): return Self.ending(.failed)
        case (.reading, .stop), (.reading, .time): return .abort
        case (.reading, _): return .close
        case (_, .bytes): return .spoolOnly
        case (.closed, .connectionClosed): return Self.ending(.closed)
        case (.silent, .connectionClosed): return Self.ending(.silence)
        case (.malformed, .connectionClosed): return Self.ending(malformed, bytes: 6, partial: 6)
        case (_, _): return .ignore
        }
    }

    @Test(arguments: State.allCases, Event.allCases)
    func `each event in each state has the documented step`(_ state: State, _ event: Event) {
        var reader = state.make()
        #expect(event.happen(to: &reader) == Self.expected(state, event))
    }

    @Test(arguments: [(true, .failed), (false, .closed)] as [(Bool, FeedbackEnding.Reason)])
    func `an end without close_notify is what the configuration says`(isRequired: Bool, reason: FeedbackEnding.Reason) {
        var reader = FeedbackReader(silence: nil, deadline: .zero, requiresCloseNotify: isRequired, now: .zero)
        _ = reader.received(Self.tuple(3) + [0], now: .zero)
        #expect(reader.truncated(now: .seconds(1)) == .close)
        #expect(reader.connectionClosed() == Self.ending(reason, tuples: 1, bytes: 10, partial: 1))
    }

    @Test(arguments: [true, false], [(1, .refused), (5, .failed)] as [(Int64, FeedbackEnding.Reason)])
    func `an end without close_notify before any byte is never a success`(
        isRequired: Bool,
        _ end: (seconds: Int64, reason: FeedbackEnding.Reason)
    ) {
        var reader = FeedbackReader(silence: nil, deadline: .zero, requiresCloseNotify: isRequired, now: .seconds(7))
        #expect(reader.truncated(now: .seconds(7 + end.seconds)) == .close)
        #expect(reader.connectionClosed() == Self.ending(end.reason))
    }

    // MARK: The limit

    @Test func `reading ends at the limit, with the bytes received together with the last one`() {
        var reader = FeedbackReader(silence: nil, deadline: .seconds(9), byteCountMax: 50, now: .zero)
        #expect(reader.received(Self.tuple(32), now: .zero) == .spool(wakeAt: .seconds(9)))
        #expect(reader.received(Self.tuple(32), now: .zero) == .abort)
        #expect(reader.received(Self.tuple(32), now: .zero) == .ignore)
        #expect(reader.peerClosed() == .ignore)
        #expect(reader.connectionClosed() == Self.ending(.limit, tuples: 2, bytes: 76))
    }

    @Test func `input after an invalid tuple, or while closing, ends at the limit`() {
        let bad: [UInt8] = [0, 0, 0, 0, 0, 0]
        var reader = FeedbackReader(silence: .seconds(1), deadline: .seconds(9), byteCountMax: 20, now: .zero)
        #expect(reader.received(bad, now: .zero) == .close)
        #expect(reader.received(bad, now: .zero) == .spoolOnly)
        #expect(reader.received(bad + bad, now: .zero) == .abort)
        #expect(reader.received(bad, now: .zero) == .ignore)
        let reason = FeedbackEnding.Reason.malformed(offset: 0, tokenByteCount: 0)
        #expect(reader.connectionClosed() == Self.ending(reason, bytes: 24, partial: 6))
        var silent = FeedbackReader(silence: .seconds(1), deadline: .seconds(9), byteCountMax: 20, now: .zero)
        #expect(silent.timePassed(now: .seconds(1)) == .close)
        #expect(silent.received(Self.tuple(32), now: .seconds(2)) == .abort)
        #expect(silent.connectionClosed() == Self.ending(.silence, tuples: 1, bytes: 38))
    }

    // MARK: Time

    @Test func `silence counts from the last byte, and the deadline from the start`() {
        var reader = Self.reader()
        #expect(reader.begin() == .wait(wakeAt: .seconds(5)))
        #expect(reader.timePassed(now: .seconds(4)) == .wait(wakeAt: .seconds(5)))
        #expect(reader.received([1], now: .seconds(4)) == .spool(wakeAt: .seconds(9)))
        #expect(reader.timePassed(now: .seconds(5)) == .wait(wakeAt: .seconds(9)))
        #expect(reader.received([2], now: .seconds(58)) == .spool(wakeAt: .seconds(60)))
        #expect(reader.timePassed(now: .seconds(60)) == .abort)
        #expect(reader.connectionClosed() == Self.ending(.deadline, bytes: 2, partial: 2))
    }

    @Test func `without a silence limit only the deadline counts`() {
        var reader = FeedbackReader(silence: nil, deadline: .seconds(60), now: .zero)
        #expect(reader.begin() == .wait(wakeAt: .seconds(60)))
        #expect(reader.timePassed(now: .seconds(59)) == .wait(wakeAt: .seconds(60)))
        #expect(reader.timePassed(now: .seconds(60)) == .abort)
    }

    @Test func `input while closing is counted and spooled`() {
        var reader = Self.reader()
        #expect(reader.timePassed(now: .seconds(5)) == .close)
        #expect(reader.received(Self.tuple(32), now: .seconds(6)) == .spoolOnly)
        #expect(reader.connectionClosed() == Self.ending(.silence, tuples: 1, bytes: 38))
    }

    // MARK: Tuples

    @Test(arguments: [1, 2, 31, 32, 33, 99, 100]) func `tokens of 1 to 100 bytes are complete at every split`(
        _ count: Int
    ) {
        let bytes = Self.tuple(count) + Self.tuple(101 - count)
        for split in 0...bytes.count {
            var reader = Self.reader()
            _ = reader.received(Array(bytes[..<split]), now: .zero)
            let isInside = split > 0 && split != 6 + count && split != bytes.count
            var other = reader
            _ = other.peerClosed()
            guard case .finish(let early) = other.connectionClosed() else {
                Issue.record("no ending at \(split)")
                return
            }
            #expect((early.partialByteCount > 0) == isInside, "split at \(split)")
            _ = reader.received(Array(bytes[split...]), now: .zero)
            _ = reader.peerClosed()
            #expect(reader.connectionClosed() == Self.ending(.closed, tuples: 2, bytes: UInt64(bytes.count)))
        }
    }

    @Test(arguments: [0, 101, 256, 65_535]) func `a token of any other length is reported with its offset`(_ count: Int)
    {
        let bad: [UInt8] = [1, 2, 3, 4, UInt8(count >> 8), UInt8(count & 255)]
        let bytes = Self.tuple(32) + Self.tuple(7) + bad + [9, 9, 9]
        let reason = FeedbackEnding.Reason.malformed(offset: 51, tokenByteCount: count)
        var drip = Self.reader()
        for byte in bytes { _ = drip.received([byte], now: .zero) }
        var whole = Self.reader()
        #expect(whole.received(bytes, now: .zero) == .close)
        for var reader in [drip, whole] {
            #expect(reader.received([1], now: .zero) == .spoolOnly)
            #expect(reader.connectionClosed() == Self.ending(reason, tuples: 2, bytes: 61, partial: 6))
        }
    }

    /// Goal: the result does not depend on how bytes are split.
    ///
    /// Method: tuples of random lengths, sometimes an invalid one or a truncation, fed in random portions and at once.
    @Test(arguments: 0..<300 as Range<UInt64>) func `splits change nothing`(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        var bytes: [UInt8] = []
        for _ in 0..<random.below(50) { bytes += Self.tuple(1 + random.below(100), byte: UInt8(random.below(256))) }
        if random.chance(30) { bytes += [0, 0, 0, 0, 1, UInt8(random.below(256))] + [UInt8](repeating: 3, count: 9) }
        if random.chance(50) { bytes.removeLast(random.below(bytes.count)) }
        var whole = Self.reader()
        _ = whole.received(bytes, now: .zero)
        var split = Self.reader()
        var rest = bytes[...]
        while !rest.isEmpty {
            let portion = rest.prefix(1 + random.below(random.chance(50) ? 3 : 80))
            rest = rest.dropFirst(portion.count)
            _ = split.received(Array(portion), now: .zero)
        }
        _ = (whole.peerClosed(), split.peerClosed())
        let (one, other) = (whole.connectionClosed(), split.connectionClosed())
        #expect(one == other, "seed \(seed)")
        guard case .finish(let ending) = one else {
            Issue.record("no ending, seed \(seed)")
            return
        }
        #expect(ending.byteCount == UInt64(bytes.count), "seed \(seed)")
    }
}

extension FeedbackReader {
    fileprivate mutating func received(_ bytes: [UInt8], now: Duration) -> FeedbackStep {
        bytes.withUnsafeBytes { self.received($0, now: now) }
    }
}
