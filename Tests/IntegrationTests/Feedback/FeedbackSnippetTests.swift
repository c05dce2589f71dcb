// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Foundation
import NIOPosix
import TestSupport
import Testing

/// The snippets of APNSFeedback as separate processes, which show the behavior of programs with `FeedbackClient`.
@Suite(.timeLimit(.minutes(3))) struct FeedbackSnippetTests {
    /// The default maximum number of tokens in a page.
    private static let pageTokenCount = 10_000

    let scene: SendScene

    init() throws { self.scene = try SendScene() }

    /// The read end of a pipe whose other end a program has.
    private final class Reader: Sendable {
        let descriptor: CInt

        init(_ descriptor: CInt) { self.descriptor = descriptor }

        deinit { close(self.descriptor) }

        /// Reads until this number of lines is available, or to the end.
        func read(lineCountMin: Int = .max) async throws -> [UInt8] {
            try await NIOThreadPool.singleton.runIfActive {
                var bytes: [UInt8] = []
                var lineCount = 0
                var part = [UInt8](repeating: 0, count: 4096)
                while lineCount < lineCountMin {
                    let count = Glibc.read(self.descriptor, &part, part.count)
                    guard count > 0 else { break }
                    lineCount += part[..<count].count { $0 == UInt8(ascii: "\n") }
                    bytes += part[..<count]
                }
                return bytes
            }
        }
    }

    /// Starts a snippet whose output goes through a pipe.
    private func start(_ name: String, _ port: Int) throws -> (child: Child, reader: Reader) {
        var ends: [CInt] = [0, 0]
        let code = pipe(&ends)
        try #require(code == 0)
        defer { close(ends[1]) }
        // Only the program keeps the write end open, so that the pipe ends with it.
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        let reader = Reader(ends[0])
        let streams = Child.Streams(outputDescriptor: ends[1], error: self.scene.path("err"))
        return (try Child(self.arguments(port), streams, program: Child.program(named: name)), reader)
    }

    private func arguments(_ port: Int) -> [String] {
        ["localhost", "\(port)", self.scene.path("provider.pem"), self.scene.path("ca.pem"), self.scene.spool]
    }

    /// The complete lines with a token.
    private static func lines(_ output: [UInt8]) -> [String] {
        let text = String(decoding: output, as: UTF8.self)
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false).dropLast()
        return lines.filter { $0.hasPrefix("cccc") }.map(String.init)
    }

    private static func line(_ number: Int) -> String {
        "\(SendScene.token(number)) \(Timestamp(secondsSince1970: Int64(1_600_000_000 + number)))"
    }

    /// Goal: nothing that a process received before it died is lost: the current page is delivered again at the next
    /// start, and earlier pages are not.
    ///
    /// Method: the service deletes entries when it writes them, and the program prints tokens to a pipe, which is read
    /// up to the middle of a page. The program then waits within its closure, where it is killed.
    @Test(arguments: 0..<3) func `a process killed in its closure receives the page again`(_ page: Int) async throws {
        let (scene, count) = (self.scene, 2 * Self.pageTokenCount + 5000)
        let store = ForgetfulStore()
        store.add(try (0..<count).map { try SendScene.tuple($0) })
        let expected = (0..<count).map(Self.line)
        try await SendScene.withFeedback(store) { port in
            let (child, reader) = try self.start("DrainFeedback", port)
            var output = try await reader.read(lineCountMin: page * Self.pageTokenCount + 100)
            child.send(SIGKILL)
            #expect(try await child.end().signal == SIGKILL, "\(scene.read("err"))")
            output += try await reader.read()
            let begun = Self.lines(output)
            // Within the page: after its start and before its end.
            let range = page * Self.pageTokenCount + 100..<min(count, (page + 1) * Self.pageTokenCount)
            #expect(range.contains(begun.count), "\(begun.count)")
            let isPrefix = begun == Array(expected.prefix(begun.count))
            #expect(isPrefix)
            #expect(store.taken.map(\.count) == [count] && !scene.spoolNames.isEmpty)

            let (again, rest) = try self.start("DrainFeedback", port)
            let text = try await rest.read()
            #expect(try await again.end().code == 0, "\(scene.read("err"))")
            let lines = Self.lines(text)
            let isRest = lines == Array(expected.dropFirst(page * Self.pageTokenCount))
            #expect(isRest, "\(lines.count) lines, the first \(lines.first ?? "none")")
            let left = count - page * Self.pageTokenCount
            let last = String(decoding: text, as: UTF8.self).split(separator: "\n").last
            let summary = "\(left) dead tokens, \(left) of them from the spool, the service closed the connection"
            #expect(last == "com.example.app (production): \(summary)")
            #expect(store.taken.map(\.count) == [count, 0] && scene.spoolNames.isEmpty)
        }
    }

    @Test func `the poller drains in a service group, and a graceful shutdown ends it`() async throws {
        let scene = self.scene
        let store = ForgetfulStore()
        store.add(try (0..<50).map { try SendScene.tuple($0) })
        try await SendScene.withFeedback(store) { port in
            let (child, reader) = try self.start("PollFeedback", port)
            let output = try await reader.read(lineCountMin: 50)
            #expect(Self.lines(output) == (0..<50).map(Self.line))
            child.send(SIGTERM)
            #expect(try await child.end().code == 0, "\(scene.read("err"))")
            #expect(try await reader.read().isEmpty)
            #expect(store.taken.map(\.count) == [50] && scene.spoolNames.isEmpty)
        }
    }
}
