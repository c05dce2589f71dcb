// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Foundation
import Testing

@testable import Batch

@Suite(.timeLimit(.minutes(2))) struct BatchMemoryTests {
    /// The permitted growth of resident memory, in bytes: that of the reader and some of the runtime.
    static let growthMax = 8 * 1_048_576
    /// The same while results are written: at most 6 MiB wait at a time, and the test itself uses 2 MiB.
    static let resultGrowthMax = 12 * 1_048_576

    /// The resident memory of this process.
    static func residentByteCount() throws -> Int {
        let status = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8)
        let pageCount = status.split(separator: " ").dropFirst().first.flatMap { Int($0) }
        return try #require(pageCount) * sysconf(Int32(_SC_PAGESIZE))
    }

    /// Reads 64 MiB of a repeated line; returns the number of records, or `nil` if a line is invalid.
    static func read(_ line: String) throws -> Int? {
        var reader = try BatchReader(format: .jsonLines, options: BatchOptions(now: 1_700_000_000))
        var record = BatchRecord()
        let lines = Array(String(repeating: line, count: 1000).utf8)
        var count = 0
        var filledByteCount = 0
        while filledByteCount < 64 * 1_048_576 {
            switch reader.next(&record) {
            case .record:
                count += 1
            case .needMore:
                filledByteCount += reader.fill { target in
                    let first = filledByteCount % lines.count
                    let count = min(target.count, lines.count - first)
                    target.copyBytes(from: lines[first..<(first + count)])
                    return count
                }
            case .bad, .refused, .end:
                return nil
            }
        }
        return count
    }

    /// Whether a sanitizer is active, which keeps shadow memory and freed memory.
    static var isSanitized: Bool {
        dlsym(nil, "__asan_init") != nil || dlsym(nil, "__tsan_init") != nil
    }

    /// Runs in its own process, since other tests allocate memory at the same time.
    @Test(.enabled(if: !isSanitized)) func `memory does not grow with a long input`() async {
        await #expect(processExitsWith: .success) {
            let before = try Self.residentByteCount()
            let token = String(repeating: "1a", count: 32)
            let padding = String(repeating: "x", count: 1900)
            let line = "{\"token\":\"\(token)\",\"payload\":{ \"a\":\"\(padding)\"},\"id\":1}\n"
            guard let count = try Self.read(line), count > 10_000 else { exit(2) }
            guard try Self.residentByteCount() - before < Self.growthMax else { exit(3) }
        }
    }

    /// Writes results to a disk that is sometimes so slow that many blocks wait for it.
    static func writeResults() throws {
        let token = try DeviceToken(bytes: [UInt8](repeating: 0x1A, count: 32))
        // So long that each line needs its own block.
        let id = [UInt8](repeating: 0x31, count: 200_000)
        var results = try SendResults(
            path: "/dev/null",
            isOnlyExceptions: false,
            journal: nil,
            retriesIndeterminate: false
        )
        var line: UInt64 = 0
        // Other allocations that stay, and occupy memory between the blocks.
        var others: [[UInt8]] = Array(repeating: [], count: 1000)
        var random: UInt32 = 1
        func next(_ count: UInt32) -> Int {
            random = random &* 1_664_525 &+ 1_013_904_223
            return Int((random >> 8) % count)
        }
        for _ in 0..<600 {
            for _ in 0..<(4 + next(20)) {
                line += 1
                let result = LineResult(line, LineOutcome(.accepted), attempts: 1)
                unsafe id.withUnsafeBytes { unsafe results.write(result, id: $0, token: token) }
                others[Int(line) % others.count] = [UInt8](repeating: 0, count: 16 + next(3000))
            }
            try results.writePortion()
        }
        try results.finish(isComplete: true, lastGivenLine: line)
    }

    // With an alignment of 64 bytes, the blocks did not fit into memory freed earlier, in glibc before 2.38.
    @Test(.enabled(if: !isSanitized)) func `memory does not grow with many results`() async {
        await #expect(processExitsWith: .success) {
            let before = try Self.residentByteCount()
            try Self.writeResults()
            guard try Self.residentByteCount() - before < Self.resultGrowthMax else { exit(3) }
        }
    }
}
