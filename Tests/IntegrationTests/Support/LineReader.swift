// SPDX-License-Identifier: Apache-2.0

import Foundation

/// Reads lines from a pipe on threads that may block.
final class LineReader {
    private let handle: FileHandle
    private var rest = Data()

    init(_ handle: FileHandle) { self.handle = handle }

    /// - Returns: the next line, or `nil` at the end.
    func next() async throws -> String? {
        while true {
            if let end = self.rest.firstIndex(of: UInt8(ascii: "\n")) {
                defer { self.rest = Data(self.rest[(end + 1)...]) }
                return String(decoding: self.rest[..<end], as: UTF8.self)
            }
            let handle = self.handle
            let piece = await withCheckedContinuation { continuation in
                Thread.detachNewThread { continuation.resume(returning: handle.availableData) }
            }
            guard !piece.isEmpty else { return nil }
            self.rest += piece
        }
    }
}

extension Child {
    /// Starts the program, and waits for its first line of output, when it listens.
    ///
    /// - Parameters:
    ///   - arguments: the command and its options.
    ///   - program: a program to run instead of the built one.
    ///   - log: the file for its standard error.
    ///   - deadline: the number of seconds after which it is killed.
    /// - Returns: the process, and the line.
    /// - Throws: an error with its log if it ends without a line.
    static func start(
        _ arguments: [String],
        program: String? = nil,
        log: String,
        deadline: Int64 = 120
    ) async throws -> (child: Child, line: String) {
        let output = Pipe()
        var streams = Streams()
        streams.outputDescriptor = output.fileHandleForWriting.fileDescriptor
        streams.error = log
        let child = try Child(arguments, streams, program: program, deadline: deadline)
        try output.fileHandleForWriting.close()
        guard let line = try await LineReader(output.fileHandleForReading).next() else {
            child.send(SIGKILL)
            let text = (try? String(contentsOfFile: log, encoding: .utf8)) ?? ""
            throw Failure(description: "\(try await child.end()): \(text)")
        }
        return (child, line)
    }
}
