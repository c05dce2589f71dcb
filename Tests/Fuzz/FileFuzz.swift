// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Foundation

@testable import APNSFeedback
@testable import APNSSimulator
@testable import GatewayService
@testable import ServiceSupport
@testable import SimulatorService
@testable import TokenStore

/// Files that are read whole or in order.
enum FileFuzz {
    /// A folder of this process, in memory where the system has such a folder.
    static let folder: String = {
        let parent = FileManager.default.fileExists(atPath: "/dev/shm") ? "/dev/shm" : NSTemporaryDirectory()
        let folder = "\(parent)/apns-legacy-fuzz-\(getpid())"
        try? FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        atexit { try? FileManager.default.removeItem(atPath: FileFuzz.folder) }
        return folder
    }()

    static func write(_ bytes: [UInt8], to path: String) {
        let file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
        _ = bytes.withUnsafeBytes { Glibc.write(file, $0.baseAddress, $0.count) }
        close(file)
    }

    /// A segment of feedback ends, and no tuple is longer than its bytes.
    ///
    /// With `+` in front, the input is the text of the header, a line with a dot, and records of which the first byte
    /// is the length, and gets checksums. A record of length 0 is the end.
    static func spool(_ bytes: [UInt8]) throws {
        let path = self.folder + "/segment"
        self.write(bytes.first == UInt8(ascii: "+") ? self.segment(Array(bytes.dropFirst())) : bytes, to: path)
        guard let reader = try? SpoolReader.open(path: path).reader else { return }
        var records = reader
        for _ in 0..<bytes.count { if case .end? = try? records.next() { break } }
        var cursor = SpoolCursor(reader, readBy: 1_800_000_000)
        var count: UInt64 = 0
        while let tuple = cursor.next() {
            count += 1
            try require(tuple.failedAtSeconds <= 1_800_000_000, "no tuple is of later than it was read")
        }
        try require(cursor.tupleCount == count && cursor.endReason != nil, "the cursor counts what it returns")
        try require(cursor.segmentOffset <= bytes.count, "the tuples are in the file")
        var rest = SpoolCursor(reader, readBy: 1_800_000_000)
        rest.skip(toOffset: cursor.segmentOffset / 2)
        while rest.next() != nil {}
        try require(rest.tupleCount == count, "the tuples are the same after a skip")
        if cursor.isDrained {
            // The last bytes of a service, which could not be stored.
            let byteCount = cursor.partial.count + bytes.count
            cursor.feed(bytes)
            while let tuple = cursor.next() {
                try require(tuple.failedAtSeconds <= 1_800_000_000, "no tuple behind the segment is of later")
            }
            try require(cursor.tupleCount - count <= byteCount / 7, "there are no more tuples than bytes for them")
        }
    }

    private static func segment(_ bytes: [UInt8]) -> [UInt8] {
        var input = FuzzInput(bytes)
        let version = input.byte()
        let text = input.bytes(upTo: UInt8(ascii: "."))
        func length(_ count: Int, at offset: UInt64) -> [UInt8] {
            let length = SpoolFormat.bytes(UInt32(count))
            return length + (version == 1 ? [] : SpoolFormat.lengthChecksum(length, at: offset) ?? [])
        }
        var file = SpoolFormat.mark + [version] + length(text.count, at: 0) + text + (SpoolDigest.of(text, at: 0) ?? [])
        var offset: UInt64 = 0
        while !input.isEmpty {
            let count = Int(input.byte())
            let record = input.bytes(count)
            file += length(count, at: offset) + (SpoolDigest.of(record, at: offset) ?? []) + record
            offset += UInt64(count)
        }
        return file
    }

    /// The lines of a segment of outcomes are those between its line feeds, and no damaged line is believed.
    ///
    /// With `+` in front, each line of the input gets its checksum; with `*`, the input has long lines; with `/`, it is
    /// the names in the folder.
    static func outcomes(_ bytes: [UInt8]) throws {
        let segment = OutcomeSegment(firstNumber: 1, isOpen: false)
        let file: [UInt8]
        switch bytes.first {
        case UInt8(ascii: "+"): file = bytes.dropFirst().split(separator: 0x0A).flatMap { self.outcome(Array($0)) }
        case UInt8(ascii: "*"): file = self.lengthened(bytes.dropFirst())
        case UInt8(ascii: "/"): return try self.segments(bytes.dropFirst())
        default: file = bytes
        }
        self.write(file, to: "\(self.folder)/\(segment.name)")
        var reader = try OutcomeSegmentReader(segment, in: self.folder)
        var count = 0
        reading: while true {
            switch try reader.next() {
            case .line(_, let text):
                count += 1
                try require(!text.contains(0x0A), "a line ends with its line feed")
            case .damage(let offset):
                count += 1
                try require(offset < file.count, "the damage is in the file")
            case .end: break reading
            }
        }
        try require(count == file.count { $0 == 0x0A }, "each line is one")
        if let other = OutcomeSegment(name: String(decoding: bytes, as: UTF8.self)) {
            try require(OutcomeSegment(name: other.name) == other, "a name is the same again")
        }
    }

    private static func outcome(_ line: [UInt8]) -> [UInt8] {
        var checksum = CRC64()
        line.withUnsafeBytes { checksum.add($0) }
        let digits = String(checksum.value, radix: 16)
        let zeros = String(repeating: "0", count: 16 - digits.count)
        return line + Array(",\"checksum\":\"\(zeros)\(digits)\"}\n".utf8)
    }

    /// The input, in which each byte FF is 256 KiB of zeros, up to four times the length of the longest line.
    private static func lengthened(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
        var file: [UInt8] = []
        for byte in bytes where file.count < 4 * OutcomeSegmentReader.lineByteCountMax {
            let isLong = byte == 0xFF
            file += repeatElement(isLong ? 0 : byte, count: isLong ? OutcomeSegmentReader.lineByteCountMax / 4 : 1)
        }
        return file
    }

    /// The segments of a folder are in the order of their outcomes, and each is in the folder under its name.
    ///
    /// The input is lines with names; one with a slash at its end is that of a folder, which cannot be read.
    private static func segments(_ lines: ArraySlice<UInt8>) throws {
        let folder = self.folder + "/outcomes"
        mkdir(folder, 0o700)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        for line in lines.split(separator: 0x0A).prefix(16) {
            let slash = UInt8(ascii: "/")
            guard !line.contains(0), !line.dropLast().contains(slash), line.first != UInt8(ascii: ".") else { continue }
            let path = "\(folder)/" + String(decoding: line, as: UTF8.self)
            if line.last == slash { mkdir(path, 0o700) } else { self.write([], to: path) }
        }
        let segments = try OutcomeSegment.all(in: folder)
        try require(
            zip(segments, segments.dropFirst()).allSatisfy { $0.firstNumber <= $1.firstNumber },
            "the segments are in order"
        )
        for segment in segments {
            var reader = try OutcomeSegmentReader(segment, in: folder)
            if case .line? = try? reader.next() { try require(false, "no file has a line") }
        }
    }

    /// With `+` in front, the input begins with lines of environment variables, without their prefix, up to an empty
    /// line.
    static func gateway(_ bytes: [UInt8]) {
        var input = FuzzInput(bytes)
        var environment: [String: String] = [:]
        if bytes.first == UInt8(ascii: "+") {
            _ = input.byte()
            while case let line = input.bytes(upTo: 0x0A), !line.isEmpty {
                let name = String(decoding: line.prefix { $0 != UInt8(ascii: "=") }, as: UTF8.self)
                let value = line.drop { $0 != UInt8(ascii: "=") }.dropFirst()
                environment["APNS_LEGACY_" + name] = String(decoding: value, as: UTF8.self)
            }
        }
        do throws(YAMLNode.Problem) {
            _ = try GatewayFile(yaml: String(decoding: input.all(), as: UTF8.self), environment: environment)
        } catch {
            _ = "\(error)"
        }
    }

    /// Faults are the same when they are written as JSON and read again.
    static func faults(_ bytes: [UInt8]) throws {
        guard let file = try? FaultsFile(String(decoding: bytes, as: UTF8.self)) else { return }
        for entry in file.entries {
            let json = try JSONEncoder().encode(entry.fault)
            let again = try JSONDecoder().decode(Fault.self, from: json)
            try require(again == entry.fault, "a fault is the same again")
            _ = entry.fault.impossibility(at: [])
            _ = entry.fault.precludes(entry.fault)
        }
    }
}
