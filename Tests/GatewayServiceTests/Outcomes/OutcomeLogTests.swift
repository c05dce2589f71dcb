// SPDX-License-Identifier: Apache-2.0

import APNSGateway
import APNSWire
import Foundation
import ListenerFixtures
import Logging
import TestSupport
import Testing

@testable import GatewayService

/// Goal: what is recorded is in the files, in order, whatever happens to them.
@Suite(.timeLimit(.minutes(1))) struct OutcomeLogTests {
    private let folder: TemporaryFolder
    private let lines = LogLines()
    private var options: GatewayFile.Outcomes

    init() throws {
        self.folder = try TemporaryFolder()
        self.options = OutcomeScene.options(self.folder)
    }

    private func log() throws -> OutcomeLog { try OutcomeLog(self.options, logger: self.lines.logger(.debug)) }

    private func files(_ limits: OutcomeFiles.Limits? = nil) throws -> OutcomeFiles {
        try OutcomeFiles(self.options.folder, limits ?? self.options.limits)
    }

    /// Appends lines with these identifiers.
    private func append(_ identifiers: ClosedRange<Int>, to files: inout OutcomeFiles) throws {
        var writer = OutcomeLineWriter(tokens: .plain)
        for (index, identifier) in identifiers.enumerated() {
            writer.append(try OutcomeScene.outcome(identifier), number: files.nextNumber + UInt64(index))
        }
        try files.append(writer.bytes, count: identifiers.count)
    }

    // MARK: Lines

    @Test func `a line has the keys of the results of send`() throws {
        var writer = OutcomeLineWriter(tokens: .plain)
        let dead = PushRejection(
            status: 410,
            reason: .unregistered,
            timestamp: Timestamp(secondsSince1970: 1_700_000_000)
        )
        writer.append(try OutcomeScene.outcome(7, .rejected(.http2(dead)), .dead), number: 3)
        let token = String(repeating: "ab", count: 32)
        let expected = """
            {"number":3,"time":"2026-01-05T10:00:00.123Z","provider":"shop \\"1\\"","topic":"com.example.app",\
            "environment":"sandbox","identifier":7,"token":"\(token)",\
            "apnsId":"00000000-0000-4000-8000-000000000001","outcome":"rejected","cause":"dead","status":410,\
            "statusText":"unregistered","reason":"Unregistered","timestamp":1700000000000,"checksum":"
            """
        let text = String(decoding: writer.bytes, as: UTF8.self)
        #expect(text.hasPrefix(expected), "\(text)")
        let value = try JSONSerialization.jsonObject(with: Data(writer.bytes)) as? [String: Any]
        #expect(value?["provider"] as? String == "shop \"1\"")
        let line = try #require(OutcomeLine(writer.bytes.dropLast()))
        #expect(line.number == 3 && line.seconds == 1_767_607_200)
    }

    @Test func `a rejection without a time of the service has the gateway's`() throws {
        var writer = OutcomeLineWriter(tokens: .digest)
        let bad = Rejection.http2(PushRejection(status: 400, reason: .badDeviceToken))
        writer.append(try OutcomeScene.outcome(7, .rejected(bad), .ignored), number: 1)
        let text = String(decoding: writer.bytes, as: UTF8.self)
        #expect(text.contains("\"reason\":\"BadDeviceToken\",\"failedAt\":1767607200,"))
        // The digest of 32 bytes 0xAB, from sha256sum.
        #expect(text.contains("\"tokenDigest\":\"9a2db2e23f1504cd056606553ac049c5e718e8f9ce9233876df1a7a1821af885\""))
        #expect(!text.contains("\"token\""))
    }

    @Test func `an explanation of any length and content is one line`() throws {
        var writer = OutcomeLineWriter(tokens: .plain)
        let reason = DeliveryOutcome.Reason.other(String(repeating: "\u{1}\"\n", count: 10_000))
        writer.append(try OutcomeScene.outcome(1, .unsent(reason), .budgetSpent), number: 1)
        #expect(writer.bytes.count { $0 == UInt8(ascii: "\n") } == 1)
        #expect(OutcomeLine(writer.bytes.dropLast()) != nil)
    }

    @Test func `no changed bit of a line goes unnoticed`() throws {
        var writer = OutcomeLineWriter(tokens: .plain)
        writer.append(try OutcomeScene.outcome(1), number: 12)
        let line = Array(writer.bytes.dropLast())
        #expect(OutcomeLine(line[...])?.number == 12)
        for bit in 0..<line.count * 8 {
            var changed = line
            changed[bit / 8] ^= 1 << (bit % 8)
            #expect(OutcomeLine(changed[...]) == nil, "bit \(bit)")
        }
        for count in 0..<line.count { #expect(OutcomeLine(line[..<count]) == nil) }
    }

    // MARK: Files

    @Test func `outcomes are kept in order, and the numbers continue after a restart`() async throws {
        do {
            let log = try self.log()
            try await OutcomeScene.record(1...500, in: log)
            await log.flush()
            #expect(log.status.lastNumber == 500)
        }
        let log = try await OutcomeScene.open(self.options, self.lines)
        try await OutcomeScene.record(501...502, in: log)
        #expect(log.status.lastNumber == 502)
        #expect(try OutcomeScene.identifiers(self.options.folder) == Array(1...502))
        #expect(try OutcomeScene.names(self.options.folder) == ["outcomes-0000000000000001.jsonl.open"])
    }

    @Test func `failures are recorded without what was delivered or is delivered again`() throws {
        var options = self.options
        options.include = .failures
        let log = try OutcomeLog(options, logger: self.lines.logger(.debug))
        let left = DeliveryCause.allCases.filter { !log.records($0) }
        #expect(Set(left) == [.accepted, .resent, .resentWithNewExpiry, .leftToResend])
    }

    @Test func `a second gateway cannot use the folder`() throws {
        let files = try self.files()
        let failure = #expect(throws: GatewayFailure.self) { _ = try self.files() }
        #expect("\(failure as Any)".contains("in use by another gateway"))
        withExtendedLifetime(files) {}
    }

    @Test func `an incomplete line is cut off, at any place`() throws {
        do {
            var files = try self.files()
            try self.append(1...3, to: &files)
        }
        let name = try OutcomeScene.names(self.options.folder)[0]
        let whole = OutcomeScene.bytes(self.options.folder, name)
        let lineEnd = try #require(whole.dropLast().lastIndex(of: UInt8(ascii: "\n")))
        let ends = stride(from: lineEnd + 1, to: whole.count, by: TestEffort.isLong ? 1 : 37)
        for end in ends {
            try Data(whole[..<end]).write(to: URL(filePath: OutcomeScene.path(self.options.folder, name)))
            var files = try self.files()
            #expect(files.recovery.cutByteCount == UInt64(end - lineEnd - 1))
            #expect(files.nextNumber == 3)
            try self.append(4...4, to: &files)
            #expect(try OutcomeScene.identifiers(self.options.folder) == [1, 2, 4])
        }
    }

    @Test func `files are finished by size, and the oldest are removed and counted`() throws {
        var files = try self.files(.init(byteCountMax: 8000, fileByteCountMax: 2000))
        var removals: [OutcomeFiles.Removal] = []
        for start in stride(from: 1, through: 91, by: 5) {
            try self.append(start...start + 4, to: &files)
            if files.openByteCount >= 2000 { removals += try files.rotate(hasWebhook: false) }
        }
        let names = try OutcomeScene.names(self.options.folder)
        #expect(names == names.sorted() && names.filter { $0.hasSuffix(".open") }.count == 1)
        let left = try OutcomeScene.identifiers(self.options.folder)
        let removedCount = removals.reduce(0) { $0 + $1.unreadCount }
        #expect(left == Array(Int(removedCount) + 1...95))
        #expect(removals.count > 2 && files.byteCount <= 10_000)
    }

    @Test func `what the webhook has accepted is not counted when it is removed`() throws {
        var files = try self.files(.init(byteCountMax: 7000, fileByteCountMax: 2000))
        try self.append(1...8, to: &files)
        let none = try files.rotate(hasWebhook: true)
        #expect(none == [])
        try files.store(position: 5)
        try self.append(9...16, to: &files)
        let removals = try files.rotate(hasWebhook: true)
        #expect(removals.first == .init(name: "outcomes-0000000000000001.jsonl", unreadCount: 3))
    }

    @Test func `two open files of a killed process become one that is finished and one that goes on`() throws {
        do {
            var files = try self.files()
            try self.append(1...2, to: &files)
        }
        // Killed between the creation of the next file and the renaming of this one.
        _ = try self.folder.write("outcomes/outcomes-0000000000000003.jsonl.open", [])
        var files = try self.files()
        try self.append(3...3, to: &files)
        #expect(
            try OutcomeScene.names(self.options.folder) == [
                "outcomes-0000000000000001.jsonl", "outcomes-0000000000000003.jsonl.open",
            ]
        )
        #expect(try OutcomeScene.identifiers(self.options.folder) == [1, 2, 3])
    }

    @Test func `an open file that was removed is replaced, and no number is used twice`() async throws {
        let log = try self.log()
        try await OutcomeScene.record(1...2, in: log)
        let name = try OutcomeScene.names(self.options.folder)[0]
        try FileManager.default.removeItem(atPath: OutcomeScene.path(self.options.folder, name))
        try await OutcomeScene.record(3...3, in: log)
        #expect(log.status.lastNumber == 3)
        #expect(try OutcomeScene.names(self.options.folder) == ["outcomes-0000000000000003.jsonl.open"])
        // Without files, the position of the webhook has the number.
        try await log.store(position: 3)
        await log.flush()
    }

    @Test func `a file is finished when it is old`() async throws {
        var options = self.options
        options.fileAge = .milliseconds(1)
        let log = try OutcomeLog(options, logger: self.lines.logger(.debug))
        try await OutcomeScene.record(1...2, in: log)
        try await eventually("a finished file") {
            try OutcomeScene.names(options.folder).contains("outcomes-0000000000000001.jsonl")
        }
    }

    @Test func `a folder that cannot be written delays no notification, and is written later`() async throws {
        let log = try self.log()
        try await OutcomeScene.record(1...1, in: log)
        let moved = "\(self.folder.path)/moved"
        // The open file is in the other folder, so it has to be removed, too.
        let name = try OutcomeScene.names(self.options.folder)[0]
        try FileManager.default.removeItem(atPath: OutcomeScene.path(self.options.folder, name))
        try FileManager.default.moveItem(atPath: self.options.folder, toPath: moved)
        try await OutcomeScene.record(2...200, in: log)
        #expect(self.lines.of("outcomes not written; notifications are still delivered").count == 1)
        #expect(!log.status.isWritable)
        try FileManager.default.moveItem(atPath: moved, toPath: self.options.folder)
        try await eventually("written") { log.status.lastNumber == 200 }
        #expect(try OutcomeScene.identifiers(self.options.folder) == Array(2...200))
        #expect(self.lines.of("outcomes are written again").count == 1)
    }

    @Test func `a damaged position means that everything is sent again`() async throws {
        do {
            var files = try self.files()
            try self.append(1...3, to: &files)
            try files.store(position: 3)
        }
        let path = OutcomeScene.path(self.options.folder, "webhook.position")
        var bytes = OutcomeScene.bytes(self.options.folder, "webhook.position")
        #expect(try self.files().position == 3)
        bytes[0] ^= 1
        try Data(bytes).write(to: URL(filePath: path))
        let log = try self.log()
        #expect(log.status.position == 0 && log.status.lastNumber == 3)
        #expect(
            self.lines.of("position of the webhook is damaged; all outcomes in the folder are sent again").count == 1
        )
    }

    // MARK: Reading

    /// The identifiers that a webhook would get, in batches of this size.
    private func read(_ log: OutcomeLog, countMax: Int) async throws -> [Int] {
        var (identifiers, number) = ([Int](), UInt64(0))
        while let batch = try await log.read(after: number, countMax: countMax) {
            #expect(batch.firstNumber > number && batch.count <= countMax)
            let objects = try JSONSerialization.jsonObject(with: Data(batch.body)) as? [[String: Any]]
            #expect(objects?.count == batch.count)
            identifiers += OutcomeScene.identifiers(in: batch.body)
            number = batch.lastNumber
        }
        return identifiers
    }

    @Test(arguments: [1, 3, 1000]) func `batches go on over all files`(countMax: Int) async throws {
        do {
            var files = try self.files()
            for start in stride(from: 1, through: 41, by: 10) {
                try self.append(start...start + 9, to: &files)
                _ = try files.rotate(hasWebhook: true)
            }
        }
        let log = try self.log()
        #expect(try await self.read(log, countMax: countMax) == Array(1...50))
        // Lines that are appended later, and reading again from the middle.
        try await OutcomeScene.record(51...52, in: log)
        #expect(
            OutcomeScene.identifiers(in: try await log.read(after: 48, countMax: 9)?.body ?? []) == [49, 50, 51, 52]
        )
    }

    @Test func `a damaged line is left out, counted and named, and hides no other`() async throws {
        do {
            var files = try self.files()
            try self.append(1...20, to: &files)
        }
        let name = try OutcomeScene.names(self.options.folder)[0]
        let path = OutcomeScene.path(self.options.folder, name)
        let whole = OutcomeScene.bytes(self.options.folder, name)
        var random = SplitMix64(seed: 7)
        let lineLength = whole.count / 20
        for _ in 0..<TestEffort.count(40, long: 4000) {
            let bit = random.below(whole.count * 8)
            var bytes = whole
            bytes[bit / 8] ^= 1 << (bit % 8)
            try Data(bytes).write(to: URL(filePath: path))
            let lines = LogLines()
            do {
                let log = try await OutcomeScene.open(self.options, lines)
                let read = try await self.read(log, countMax: 7)
                let missing = Set(1...20).subtracting(read)
                #expect(read == read.sorted() && (1...2).contains(missing.count), "bit \(bit): \(read)")
                #expect(missing.allSatisfy { abs(($0 - 1) - bit / 8 / lineLength) <= 1 }, "bit \(bit)")
                let isEnd = lines.of("incomplete outcome cut off, as after a kill").count == 1
                #expect(isEnd || lines.of("damaged outcome not sent to the webhook").count >= 1, "bit \(bit)")
                #expect(log.status.lastNumber >= (isEnd ? 19 : 20))
                await log.flush()
            }
        }
    }
}
