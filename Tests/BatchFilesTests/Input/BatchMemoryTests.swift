// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Foundation
import Testing

@testable import BatchFiles

@Suite(.timeLimit(.minutes(2))) struct BatchMemoryTests {
    /// The growth of resident memory that is put up with, in bytes: the reader's own and some of the runtime's.
    static let growthMax = 8 * 1_048_576
    /// The same while results are written: the most that wait at a time, about 6 MiB, and 2 MiB of the test's own.
    static let resultGrowthMax = 12 * 1_048_576

    /// The resident memory of this process.
    static func residentByteCount() throws -> Int {
        let status = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8)
        let pageCount = status.split(separator: " ").dropFirst().first.flatMap { Int($0) }
        return try #require(pageCount) * sysconf(Int32(_SC_PAGESIZE))
    }

    /// Reads 64 MiB of a line again and again; returns the count of records, or `nil` when a line is at fault.
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

    /// Whether a sanitizer is at work, which keeps shadows and what was freed.
    static var isSanitized: Bool {
        dlsym(nil, "__asan_init") != nil || dlsym(nil, "__tsan_init") != nil
    }

    /// In a process of its own, since other tests take memory at the same time.
    @Test(.enabled(if: !isSanitized)) func `memory stays as it is over a long input`() async {
        await #expect(processExitsWith: .success) {
            let before = try Self.residentByteCount()
            let token = String(repeating: "1a", count: 32)
            let padding = String(repeating: "x", count: 1900)
            let line = "{\"token\":\"\(token)\",\"payload\":{ \"a\":\"\(padding)\"},\"id\":1}\n"
            guard let count = try Self.read(line), count > 10_000 else { exit(2) }
            guard try Self.residentByteCount() - before < Self.growthMax else { exit(3) }
        }
    }

    /// Takes results for a disk that is at times so slow that many blocks of them wait for it.
    static func writeResults() throws {
        let token = try DeviceToken(bytes: [UInt8](repeating: 0x1A, count: 32))
        // So long that each line has a block for itself.
        let id = [UInt8](repeating: 0x31, count: 200_000)
        var results = try SendResults(
            path: "/dev/null",
            isOnlyExceptions: false,
            journal: nil,
            retriesIndeterminate: false
        )
        var line: UInt64 = 0
        // What is kept besides, and takes room between the blocks.
        var others: [[UInt8]] = Array(repeating: [], count: 1000)
        var random: UInt32 = 1
        func next(_ count: UInt32) -> Int {
            random = random &* 1_664_525 &+ 1_013_904_223
            return Int((random >> 8) % count)
        }
        for _ in 0..<600 {
            for _ in 0..<(4 + next(20)) {
                line += 1
                unsafe id.withUnsafeBytes {
                    unsafe results.write(
                        line: line,
                        id: $0,
                        token: token,
                        .accepted,
                        status: nil,
                        attempts: 1,
                        isDuplicate: false
                    )
                }
                others[Int(line) % others.count] = [UInt8](repeating: 0, count: 16 + next(3000))
            }
            try results.writePortion()
        }
        try results.finish(isComplete: true, lastGivenLine: line)
    }

    // Aligned to 64 bytes, the blocks found no room among what glibc before 2.38 had taken back.
    @Test(.enabled(if: !isSanitized)) func `memory stays as it is over many results`() async {
        await #expect(processExitsWith: .success) {
            let before = try Self.residentByteCount()
            try Self.writeResults()
            guard try Self.residentByteCount() - before < Self.resultGrowthMax else { exit(3) }
        }
    }
}
