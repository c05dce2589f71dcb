// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import TestSupport
import Testing

@testable import Batch

/// Goal: a gzip batch is read like its content, and damage never makes it look shorter or different.
///
/// Method: members and reads of random sizes; then each bit of a file flipped, and each of its prefixes.
@Suite(.timeLimit(.minutes(2))) struct GzipInputTests {
    /// Decodes bytes that arrive in chunks of this size.
    static func decode(_ bytes: [UInt8], chunk: Int = .max, room: Int = 4096) throws -> [UInt8] {
        let decoder = InputDecoder(bytes, chunk: chunk)
        var (decoded, portion): ([UInt8], [UInt8]) = ([], Array(repeating: 0, count: room))
        while true {
            let count = try portion.withUnsafeMutableBytes { try decoder.read(into: $0, expecting: .document) }
            if count == 0 { return decoded }
            decoded += portion[..<count]
        }
    }

    static let lines = (1...40).map { "{\"token\":\"\(String.token($0))\",\"payload\":{\"n\":\($0)}}\n" }.joined()

    @Test(arguments: 0..<TestEffort.count(40, long: 400) as Range<UInt64>)
    func `any members and any reads give the same records`(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        let content = Array(Self.lines.utf8)
        var bytes = gzipMembers(content, &random)
        if Bool.random(using: &random) { bytes += Array(repeating: 0, count: .random(in: 1...700, using: &random)) }
        let chunk = Int.random(in: 1...300, using: &random)
        let room = Int.random(in: 1...5000, using: &random)
        let decoded = try Self.decode(bytes, chunk: chunk, room: room)
        #expect(decoded == content, "seed \(seed)")
        #expect(try read(decoded, chunk: chunk) == read(content), "seed \(seed)")
        #expect(try Self.decode(content, chunk: chunk, room: room) == content, "seed \(seed): not compressed")
    }

    @Test func `a file with a flipped bit is rejected, or read unchanged`() throws {
        let content = Array(Self.lines.utf8.prefix(600))
        let bytes = gzip(Array(content[..<200])) + gzip(Array(content[200...]))
        var refusedCount = 0
        for bit in 0..<(8 * bytes.count) {
            var damaged = bytes
            damaged[bit / 8] ^= 1 << UInt8(bit % 8)
            // Without its first two bytes, it is not gzip, but other binary data.
            guard let decoded = try? Self.decode(damaged, chunk: 77) else {
                refusedCount += 1
                continue
            }
            #expect(decoded == content, "bit \(bit)")
        }
        // Only a few bits of the two headers do not affect the content.
        #expect(refusedCount > 8 * (bytes.count - 20))
    }

    @Test func `a prefix of a file is rejected, unless it ends after a member`() throws {
        let content = Array(Self.lines.utf8.prefix(600))
        let first = gzip(Array(content[..<200]))
        let bytes = first + gzip(Array(content[200...]))
        for count in 2..<bytes.count where count != first.count {
            #expect(throws: GzipDecoder.Failure.truncated, "\(count) bytes") {
                try Self.decode(Array(bytes[..<count]), chunk: 50)
            }
        }
        #expect(try Self.decode(first) == Array(content[..<200]))
    }

    @Test func `bytes after the last member are rejected, unless they are zero`() throws {
        let bytes = gzip(Array(Self.lines.utf8))
        for rest in [[1], [0, 0, 1], [0, 0x1F, 0x8B], Array("{}\n".utf8), [0x1F, 0x8C]] as [[UInt8]] {
            for chunk in [1, .max] {
                #expect(throws: GzipDecoder.Failure.corrupt) { try Self.decode(bytes + rest, chunk: chunk) }
            }
        }
        #expect(try Self.decode(bytes + [0, 0, 0]) == Array(Self.lines.utf8))
    }

    @Test func `a failure is permanent`() throws {
        var decoder = try GzipDecoder()
        var bytes = Array(gzip(Array(Self.lines.utf8)).prefix(100))
        var room = [UInt8](repeating: 0, count: 65_536)
        func read() throws -> Int {
            try room.withUnsafeMutableBytes { memory in
                try decoder.read(into: memory) { target in
                    let count = min(target.count, bytes.count)
                    target.copyBytes(from: bytes[..<count])
                    bytes.removeFirst(count)
                    return count
                }
            }
        }
        #expect(throws: GzipDecoder.Failure.truncated) { while try read() > 0 {} }
        bytes = gzip([])
        #expect(throws: GzipDecoder.Failure.truncated) { try read() }
    }

    @Test func `a decompression bomb needs only the memory of the buffers`() throws {
        // A thousand times larger than its file, in one line.
        let byteCount = 64 << 20
        let bytes = gzip(Array(repeating: UInt8(ascii: " "), count: byteCount), level: 9)
        #expect(bytes.count < byteCount / 500)
        let decoder = InputDecoder(bytes)
        var reader = try BatchReader(format: .jsonLines, options: BatchOptions(now: 1_700_000_000))
        var record = BatchRecord()
        var readCount = 0
        var results: [BatchReadResult] = []
        while results.last != .end {
            let result = reader.next(&record)
            guard result == .needMore else {
                results.append(result)
                continue
            }
            readCount += try reader.fill { try decoder.read(into: $0, expecting: .document) }
        }
        #expect(results == [.bad, .end] && readCount == byteCount)
    }

    // MARK: Files

    private let folder: SendFolder

    init() throws { self.folder = try SendFolder() }

    /// Writes a file, and opens it.
    private func open(_ name: String, _ bytes: [UInt8]) throws -> SendInput {
        let file = try OutputFile(path: self.folder.file(name))
        try file.append(bytes.span)
        return try SendInput(path: self.folder.file(name))
    }

    @Test func `a file has the lines and the content of the uncompressed file`() throws {
        var random = SplitMix64(seed: 1)
        for text in ["", "a\n", "a", Self.lines, String(repeating: Self.lines, count: 100)] {
            let plain = try self.open("a", Array(text.utf8))
            let compressed = try self.open("a.gz", gzipMembers(Array(text.utf8), &random))
            try compressed.begin(expecting: .document)
            #expect(try plain.lineCount() == compressed.lineCount())
            let (content, other) = (try #require(try plain.content()), try #require(try compressed.content()))
            #expect(content.byteCount == other.byteCount && content.head == other.head && content.tail == other.tail)
        }
    }

    @Test func `a journal resumes a batch in compressed or uncompressed form`() throws {
        let (plain, compressed) = (
            try self.open("a", Array(Self.lines.utf8)), try self.open("b", gzip(Array(Self.lines.utf8)))
        )
        let journal = self.folder.file("journal")
        _ = try SendJournal(path: journal, of: plain, payload: nil, results: nil)
        _ = try SendJournal(path: journal, of: compressed, payload: nil, results: nil)
        let other = try self.open("c", gzip(Array(Self.lines.utf8.dropLast(200))))
        let failure = #expect(throws: BatchFileError.self) {
            _ = try SendJournal(path: journal, of: other, payload: nil, results: nil)
        }
        #expect(failure?.reason == .otherBatch)
    }

    @Test func `a damaged file is rejected before it is read`() throws {
        let bytes = gzip(Array(Self.lines.utf8))
        let truncated = try self.open("a.gz", Array(bytes.dropLast(5)))
        let failure = #expect(throws: BatchFileError.self) { try truncated.begin(expecting: .batch(nil)) }
        #expect(failure?.kind == .badData && failure?.reason == .truncated)
        var damaged = bytes
        damaged[bytes.count - 6] ^= 1
        let corrupt = try self.open("b.gz", damaged)
        let second = #expect(throws: BatchFileError.self) { try corrupt.begin(expecting: .batch(nil)) }
        #expect(second?.kind == .badData && second?.reason == .corrupt)
    }
}
