// SPDX-License-Identifier: Apache-2.0

import BatchFiles
import Foundation
import Testing

@Suite(.timeLimit(.minutes(2))) struct BatchMemoryTests {
    /// The growth of resident memory that is put up with, in bytes: the reader's own and some of the runtime's.
    static let growthMax = 8 * 1_048_576

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
}
