// SPDX-License-Identifier: Apache-2.0

import Foundation

/// An independent program that a test connects to, or that connects to a test.
enum PeerProgram {
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    static func path(_ name: String) throws -> String {
        for folder in ["/usr/bin", "/usr/sbin", "/usr/local/bin"] {
            let path = "\(folder)/\(name)"
            if FileManager.default.isExecutableFile(atPath: path) { return path }
        }
        throw Failure(description: "\(name) is not installed; Scripts/test installs it")
    }

    /// Runs it to its end; the program has its own time limits.
    static func output(_ name: String, _ arguments: [String]) async throws -> String {
        let process = Process()
        process.executableURL = URL(filePath: try Self.path(name))
        process.arguments = arguments
        let output = Pipe()
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        process.standardInput = FileHandle.nullDevice
        try process.run()
        try output.fileHandleForWriting.close()
        let handle = output.fileHandleForReading
        return await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                let bytes = handle.readDataToEndOfFile()
                continuation.resume(returning: String(decoding: bytes, as: UTF8.self))
            }
        }
    }
}
