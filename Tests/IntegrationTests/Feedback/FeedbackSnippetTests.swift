// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Foundation
import NIOPosix
import TestSupport
import Testing

/// The snippets of APNSFeedback as processes of their own: what a program that is made of `FeedbackClient` does.
@Suite(.timeLimit(.minutes(3))) struct FeedbackSnippetTests {
    /// The most tokens of a page, by default.
    private static let pageTokenCount = 10_000

    let scene: SendScene

    init() throws { self.scene = try SendScene() }

    /// The read end of a pipe, of which a program has the other one.
    private final class Reader: Sendable {
        let descriptor: CInt

        init(_ descriptor: CInt) { self.descriptor = descriptor }

        deinit { close(self.descriptor) }

        /// Reads until so many lines are there, or to the end.
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
        // The program has what it writes to alone, so that the pipe ends with it.
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        let reader = Reader(ends[0])
        let streams = Child.Streams(outputDescriptor: ends[1], error: self.scene.path("err"))
        return (try Child(self.arguments(port), streams, program: Child.program(named: name)), reader)
    }

    private func arguments(_ port: Int) -> [String] {
        ["localhost", "\(port)", self.scene.path("provider.pem"), self.scene.path("ca.pem"), self.scene.spool]
    }

    /// The whole lines with a token.
    private static func lines(_ output: [UInt8]) -> [String] {
        let text = String(decoding: output, as: UTF8.self)
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false).dropLast()
        return lines.filter { $0.hasPrefix("cccc") }.map(String.init)
    }

    private static func line(_ number: Int) -> String { "\(SendScene.token(number)) \(1_600_000_000 + number)" }

    /// Goal: of what a process was given when it died, nothing is lost: the page comes again with the next start, and
    /// those before it do not.
    ///
    /// Method: a service that forgets what it writes, and a program that prints tokens into a pipe, which is read up to
    /// the midst of a page: so the program waits within its closure, where it is killed.
    @Test(arguments: 0..<3) func `a process killed in the closure is given the page again`(_ page: Int) async throws {
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
            // Within the page: neither before it began nor when it was over.
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
