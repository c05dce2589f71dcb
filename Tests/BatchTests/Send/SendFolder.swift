// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Foundation

@testable import Batch

/// A folder for one test, removed with this object.
final class SendFolder: Sendable {
    let path: String

    init() throws {
        self.path = FileManager.default.temporaryDirectory.appending(path: "results-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: self.path, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(atPath: self.path) }

    func file(_ name: String) -> String { self.path + "/" + name }

    func write(_ name: String, _ text: String) throws { try Data(text.utf8).write(to: URL(filePath: self.file(name))) }

    func read(_ name: String) -> String {
        String(decoding: FileManager.default.contents(atPath: self.file(name)) ?? Data(), as: UTF8.self)
    }

    func bytes(_ name: String) -> [UInt8] { Array(FileManager.default.contents(atPath: self.file(name)) ?? Data()) }

    func write(_ name: String, _ bytes: [UInt8]) throws { try Data(bytes).write(to: URL(filePath: self.file(name))) }

    func journal(_ input: String = "batch", lineCount: UInt64 = 1000) throws -> SendJournal {
        try SendJournal(path: self.file("journal"), input: input) { lineCount }
    }

    /// The records without checksums.
    var records: [String] {
        self.read("journal").split(separator: "\n").map { $0.split(separator: " ").dropLast().joined(separator: " ") }
    }

    /// A journal with these records after its title, each with its checksum, and with a hash if the format has it.
    static func journal(_ records: [String], format: Int = 3, input: String = "batch") -> String {
        var checksum = FNV1aHash()
        return (["apns-legacy journal \(format) \(input)"] + records).map { record in
            let isOutcome = record.split(separator: " ").count == 6
            let record = isOutcome && format == 3 ? record + " 0123456789abcdef" : record
            checksum.add(record.utf8)
            return record + (format == 1 ? "\n" : " " + String(decoding: checksum.hexadecimal, as: UTF8.self) + "\n")
        }.joined()
    }

    /// The error that an operation throws; `nil` if it succeeds.
    static func failure(_ body: () throws -> Void) -> BatchFileError? {
        do {
            try body()
            return nil
        } catch {
            return error as? BatchFileError
        }
    }
}

extension SendResults {
    /// Writes the next portion.
    mutating func writePortion() throws {
        let portion = self.takePortion()
        try self.files.write(portion)
        self.complete(portion)
    }

    /// Writes a line with a fixed token.
    mutating func put(_ line: UInt64, _ outcome: DeliveryOutcome.Kind, status: UInt16? = nil, isDuplicate: Bool = false)
        throws
    {
        let token = try DeviceToken(bytes: [UInt8](repeating: 1, count: 32))
        let result = LineResult(line, LineOutcome(outcome, status: status, isDuplicate: isDuplicate), attempts: 1)
        self.write(result, id: UnsafeRawBufferPointer(start: nil, count: 0), token: token)
    }
}
