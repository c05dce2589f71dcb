// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Foundation
import NIOConcurrencyHelpers
import TestSupport
import Testing
import TokenStore

@testable import APNSFeedback

/// Segments as left by a crash, a bad disk or another release.
@Suite(.timeLimit(.minutes(2))) struct FeedbackSpoolTests {
    typealias Fixture = FeedbackFixture

    let folder: FeedbackFolder

    init() throws { self.folder = try FeedbackFolder() }

    /// Writes a segment with these portions.
    func segment(_ portions: [[UInt8]], isFinished: Bool = true) throws -> String {
        let header = SpoolHeader(scope: Fixture.scope, host: "localhost", startedAt: 1_700_000_000)
        let segment = try self.folder.spool.begin(header)
        for portion in portions { try portion.withUnsafeBytes { try segment.append($0) } }
        if isFinished { try segment.finish() }
        return segment.path
    }

    /// Later than all times of the fixtures and their files.
    static let now: Int64 = 4_000_000_000

    func replay(now: Int64 = Self.now) async throws -> SpoolImport.Report { try await self.folder.replay(now: now) }

    static func bytes(_ range: Range<Int>) throws -> [UInt8] { try range.flatMap { try Fixture.tuple($0).bytes } }

    var endings: [String] { self.folder.files.map { ($0 as NSString).pathExtension } }

    @Test(arguments: [true, false]) func `what an earlier run left is recorded once`(_ isFinished: Bool) async throws {
        let bytes = try Self.bytes(0..<100)
        let portions = [Array(bytes[..<1000]), Array(bytes[1000..<1001]), Array(bytes[1001...])]
        _ = try self.segment(portions, isFinished: isFinished)
        _ = try self.segment(portions, isFinished: isFinished)
        let result = try await self.replay()
        #expect(result.tupleCount == 200 && result.leftovers.isEmpty)
        #expect(self.folder.recorder.change.addedCount == 100 && self.folder.recorder.change.unchangedCount == 100)
        #expect(self.folder.files.isEmpty)
        #expect(try await self.replay().tupleCount == 0)
    }

    /// Goal: a process that is killed at any byte of an append loses no complete tuple.
    ///
    /// Method: truncate the file at every length.
    @Test func `a segment truncated at any byte has all complete tuples`() async throws {
        let tuples = [0..<3, 3..<5, 5..<6]
        let portions = try tuples.map { try Self.bytes($0) }
        let path = try self.segment(portions)
        let whole = try #require(FileManager.default.contents(atPath: path))
        try FileManager.default.removeItem(atPath: path)
        let headerByteCount = SpoolHeader(scope: Fixture.scope, host: "localhost", startedAt: 1_700_000_000).bytes
            .count
        for count in 0...whole.count {
            let folder = self.folder
            let name = Fixture.scope.fileStem + ".1-1-0.spool"
            try whole.prefix(count).write(to: URL(filePath: folder.spool.folder + "/" + name))
            let result = try await folder.replay(now: Self.now)
            var expected = 0
            var end = headerByteCount
            for range in tuples {
                end += SpoolFormat.recordHeaderByteCount
                for number in range {
                    end += try Fixture.tuple(number).bytes.count
                    if count >= end { expected += 1 }
                }
            }
            #expect(result.tupleCount == UInt64(expected), "cut at \(count) of \(whole.count)")
            #expect(result.leftovers.isEmpty && folder.files.isEmpty, "cut at \(count): \(result.leftovers)")
        }
    }

    /// Records the tokens.
    private final class Notes: Sendable {
        private let noted = NIOLockedValueBox<Set<[UInt8]>>([])
        var tokens: Set<[UInt8]> { self.noted.withLockedValue { $0 } }
        var consumer: PageConsumer {
            PageConsumer(tokenCountMax: 10_000) { page in
                self.noted.withLockedValue { $0.formUnion(page.map(\.token.bytes)) }
            }
        }
    }

    /// Goal: a flipped bit neither loses a token without a report, nor adds one that was never received.
    ///
    /// Method: flip each bit of a segment with its end, and of one that a kill left between two records; except in the
    /// long run, one bit of each byte.
    @Test(arguments: [true, false])
    func `no flipped bit loses a token without a report`(_ isFinished: Bool) async throws {
        let portions = [try Self.bytes(0..<2), try Self.bytes(2..<3), try Self.bytes(3..<6)]
        let path = try self.segment(portions, isFinished: isFinished)
        let whole = try #require(FileManager.default.contents(atPath: path))
        let tokens = Set(try Fixture.tuples(6).map(\.token.bytes))
        for bit in stride(from: 0, to: whole.count * 8, by: TestEffort.isLong ? 1 : 9) {
            var changed = whole
            changed[bit / 8] ^= 1 << UInt8(bit % 8)
            try changed.write(to: URL(filePath: path))
            let notes = Notes()
            do {
                let result = try await self.folder.replay(now: Self.now, into: notes.consumer)
                let kept = result.leftovers.map { FileManager.default.contents(atPath: $0.path) }
                #expect(kept == [] || kept == [changed], "bit \(bit)")
                if notes.tokens != tokens {
                    #expect(result.leftovers.map(\.kind) == [.damaged], "bit \(bit): \(result.leftovers)")
                }
            } catch FeedbackError.newerSpool {
                #expect(bit / 8 == 7, "bit \(bit)")
            }
            #expect(notes.tokens.isSubset(of: tokens), "bit \(bit)")
            for name in self.folder.files { try FileManager.default.removeItem(atPath: self.folder.spool.path(name)) }
        }
    }

    @Test func `the part of a segment before damage is delivered, and all of it is kept`() async throws {
        let path = try self.segment([try Self.bytes(0..<2), try Self.bytes(2..<4), try Self.bytes(4..<6)])
        var bytes = try #require(FileManager.default.contents(atPath: path))
        let third = try #require(bytes.range(of: Data(try Self.bytes(2..<3))))
        bytes[third.lowerBound] ^= 1
        try bytes.write(to: URL(filePath: path))
        let result = try await self.replay()
        #expect(result.tupleCount == 2 && result.leftovers.map(\.kind) == [.damaged])
        #expect(try self.folder.tokens() == Set(try Fixture.tuples(2).map(\.token.bytes)))
        #expect(FileManager.default.contents(atPath: result.leftovers.first?.path ?? "") == bytes)
        #expect(result.leftovers.first.map { "\($0)".contains("after 2 delivered tuples") } == true)
    }

    /// Goal: a spool of the first version is still read.
    ///
    /// Method: write one as that release did, with its end, without it, and truncated at each byte.
    @Test func `a spool of the first version is still read`() async throws {
        let header = SpoolHeader(scope: Fixture.scope, host: "localhost", startedAt: 1_700_000_000)
        let text = Array(header.text)
        var bytes = Array("APNSFBS".utf8) + [1] + SpoolFormat.bytes(UInt32(text.count)) + text
        bytes += try #require(SpoolDigest.of(text, at: 0))
        var offset: UInt64 = 0
        var ends: [Int] = []
        for portion in [try Self.bytes(0..<2), try Self.bytes(2..<5), []] {
            if portion.isEmpty { ends.append(bytes.count) }
            bytes += SpoolFormat.bytes(UInt32(portion.count)) + (try #require(SpoolDigest.of(portion, at: offset)))
            bytes += portion
            offset += UInt64(portion.count)
        }
        let path = self.folder.spool.path(Fixture.scope.fileStem + ".1-1-0.spool")
        for count in [bytes.count, ends[0], ends[0] - 3, ends[0] - 15] {
            try Data(bytes.prefix(count)).write(to: URL(filePath: path))
            let result = try await self.replay()
            let expected = count >= ends[0] ? 5 : count == ends[0] - 3 ? 4 : 3
            #expect(result.tupleCount == expected && result.leftovers.isEmpty, "cut at \(count): \(result)")
            #expect(self.folder.files.isEmpty)
        }
    }

    /// If the file was not changed since; a clock that was set back, or a copy, must not make the time later than now,
    /// and a file without its time not earlier than its connection.
    @Test(
        arguments: [
            (1_750_000_000, 1_750_000_000), (0, 1_700_000_000), (1_950_000_000, 1_780_000_000),
        ] as [(written: Int, believed: Int64)]
    )
    func `a future timestamp is clamped to the time of reading`(written: Int, believed: Int64) async throws {
        let token = try DeviceToken(bytes: [1, 2, 3])
        let path = try self.segment([FeedbackTuple(token: token, failedAt: .max).bytes + (try Self.bytes(0..<1))])
        let times = [timespec(tv_sec: written, tv_nsec: 0), timespec(tv_sec: written, tv_nsec: 0)]
        try #require(utimensat(AT_FDCWD, path, times, 0) == 0)
        let result = try await self.replay(now: 1_780_000_000)
        #expect(result.tupleCount == 2 && result.futureTupleCount == 1)
        var failures: Set<Int64> = []
        try self.folder.list.entries { failures.insert($0.failedAtSeconds) }
        #expect(failures == [believed, 1_600_000_000])
    }

    @Test func `a spool folder that another user can change is refused`() throws {
        let path = self.folder.path + "/shared"
        try #require(mkdir(path, 0o777) == 0 && chmod(path, 0o777) == 0)
        #expect(throws: SpoolError.unsafeFolder(path: path, detail: "can be written by every user")) {
            try FeedbackSpool(folder: path)
        }
        try #require(chmod(path, 0o775) == 0)
        _ = try FeedbackSpool(folder: path)
        // Only root can give a folder to another user.
        guard geteuid() == 0 else { return }
        try #require(chown(path, 12_345, 12_345) == 0)
        #expect(throws: SpoolError.unsafeFolder(path: path, detail: "belongs to another user (12345)")) {
            try FeedbackSpool(folder: path)
        }
    }

    @Test func `a truncated record has its tuples up to the first with an implausible time`() async throws {
        let token = try DeviceToken(bytes: [1, 2, 3])
        let impossible = [0, 1_199_145_599, 1_900_000_000].map { FeedbackTuple(token: token, failedAt: $0).bytes }
        for bytes in impossible {
            let folder = try FeedbackFolder()
            let record = try Self.bytes(2..<4) + bytes + Self.bytes(4..<5) + [0]
            let path = try self.segment([try Self.bytes(0..<2), record], isFinished: false)
            let whole = try #require(FileManager.default.contents(atPath: path))
            try FileManager.default.removeItem(atPath: path)
            let name = Fixture.scope.fileStem + ".1-1-0.spool"
            try whole.dropLast().write(to: URL(filePath: folder.spool.folder + "/" + name))
            let result = try await folder.replay(now: 1_800_000_000)
            #expect(result.tupleCount == 4 && result.leftovers.map(\.kind) == [.torn])
            #expect(try folder.tokens() == Set((0..<4).map { try Fixture.tuple($0).token.bytes }))
            let leftover = try #require(result.leftovers.first)
            #expect("\(leftover)".contains("2 complete tuples") && leftover.path.hasSuffix(".torn"))
            #expect(FileManager.default.contents(atPath: leftover.path) == whole.dropLast())
        }
    }

    @Test func `zeros in a token of a truncated record are not its end`() async throws {
        let token = try DeviceToken(bytes: [UInt8](repeating: 0, count: 100))
        let zeros = FeedbackTuple(token: token, failedAt: 1_600_000_000).bytes
        let path = try self.segment([try Self.bytes(0..<2), try Self.bytes(2..<3) + zeros], isFinished: false)
        let whole = try #require(FileManager.default.contents(atPath: path))
        try whole.dropLast(10).write(to: URL(filePath: path))
        let result = try await self.replay()
        #expect(result.tupleCount == 3 && result.leftovers.isEmpty, "\(result.leftovers)")
    }

    @Test(arguments: [1, 10, 31]) func `a token of a truncated record whose end is lost is no token`(
        zeroCount: Int
    ) async throws {
        let path = try self.segment([try Self.bytes(30..<32), try Self.bytes(32..<35)], isFinished: false)
        var bytes = try #require(FileManager.default.contents(atPath: path)).dropLast()
        // After a power failure, a part of the file that was not written reads as zeros.
        let end = bytes.count + 1 - (try Self.bytes(34..<35)).count
        for index in (end - zeroCount)..<bytes.count { bytes[index] = 0 }
        try bytes.write(to: URL(filePath: path))
        let result = try await self.replay()
        #expect(result.tupleCount == 3 && result.leftovers.map(\.kind) == [.torn])
        #expect(try self.folder.tokens() == Set((30..<33).map { try Fixture.tuple($0).token.bytes }))
    }

    @Test func `a last record that does not agree with its checksum is damage`() async throws {
        let path = try self.segment([try Self.bytes(0..<2), try Self.bytes(2..<4)], isFinished: false)
        var bytes = try #require(FileManager.default.contents(atPath: path))
        bytes[bytes.count - 1] ^= 1
        try bytes.write(to: URL(filePath: path))
        let result = try await self.replay()
        #expect(result.tupleCount == 2 && result.leftovers.map(\.kind) == [.damaged])
        #expect(FileManager.default.contents(atPath: result.leftovers.first?.path ?? "") == bytes)
    }

    @Test func `zeros after a segment are the result of a power failure`() async throws {
        let path = try self.segment([try Self.bytes(0..<4)], isFinished: false)
        let file = try FileHandle(forWritingTo: URL(filePath: path))
        try file.seekToEnd()
        try file.write(contentsOf: Data(count: 5000))
        try file.close()
        let result = try await self.replay()
        #expect(result.tupleCount == 4 && result.leftovers.map(\.kind) == [.torn] && self.endings == ["torn"])
    }

    @Test func `an incomplete tuple after a kill is not the service's fault, and no file remains`() async throws {
        let bytes = try Self.bytes(30..<32)
        for count in 1..<37 {
            _ = try self.segment([bytes.dropLast(count)], isFinished: false)
            let result = try await self.replay()
            #expect(result.tupleCount == 1 && result.leftovers.isEmpty && self.folder.files.isEmpty, "\(count)")
        }
    }

    @Test func `an incomplete tuple in a complete list is kept and reported, also by the next run`() async throws {
        let bytes = try Self.bytes(30..<32)
        _ = try self.segment([bytes.dropLast(5)], isFinished: true)
        let result = try await self.replay()
        #expect(result.tupleCount == 1 && self.endings == ["partial"])
        #expect(result.leftovers.first?.isFromEarlier == true)
        #expect(try await self.replay().leftovers.isEmpty)
    }

    @Test func `the spool of a newer release is unchanged`() async throws {
        let path = try self.segment([try Self.bytes(0..<4)])
        var bytes = try #require(FileManager.default.contents(atPath: path))
        bytes[7] = 9
        try bytes.write(to: URL(filePath: path))
        await #expect(throws: FeedbackError.self) { try await self.replay() }
        #expect(FileManager.default.contents(atPath: path) == bytes)
    }

    @Test func `topics are converted to safe file names`() {
        let scope = TokenScope(topic: "../a b_c/é", environment: .production)
        #expect(scope.fileStem == "..%2Fa%20b%5Fc%2F%C3%A9_production")
    }

    @Test func `a released lock is free`() throws {
        for _ in 0..<3 { withExtendedLifetime(try self.folder.spool.lock(Fixture.scope)) {} }
    }

    @Test func `a refused process gets the process that holds the lock`() throws {
        let lock = try self.folder.spool.lock(Fixture.scope)
        let path = self.folder.spool.path(Fixture.scope.fileStem + ".lock")
        for _ in 0..<3 {
            #expect(throws: SpoolError.held(path: path, holder: getpid())) { try self.folder.spool.lock(Fixture.scope) }
        }
        withExtendedLifetime(lock) {}
        #expect("\(SpoolError.held(path: "P", holder: nil))".hasPrefix("another process is draining with the lock P;"))
    }

    @Test func `a file where the folder should be is an error`() throws {
        let path = self.folder.spool.path("file")
        #expect(FileManager.default.createFile(atPath: path, contents: nil))
        let error = SpoolError.cannotCreate(path: path, detail: "Not a directory")
        #expect(throws: error) { try FeedbackSpool(folder: path) }
    }
}
