// SPDX-License-Identifier: Apache-2.0

package import Foundation
import NIOCore
import NIOPosix

/// Programs that tests run, each with a deadline.
package enum Program {
    package struct Failure: Error, CustomStringConvertible {
        package let description: String
    }

    /// Runs a program to completion, and returns its standard output.
    ///
    /// Its standard input is `input`, and stays open after it if `keepsInputOpen` is set.
    package static func run(
        _ path: String,
        _ arguments: [String],
        input: Data = Data(),
        keepsInputOpen: Bool = false,
        deadlineSeconds: Int
    ) async throws -> Data {
        let folder = FileManager.default.temporaryDirectory.appending(path: "apns-legacy-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        // Unlike pipes, files never fill up and block the program.
        let output = folder.appending(path: "output")
        let errors = folder.appending(path: "errors")
        for file in [output, errors] { try Data().write(to: file) }
        let process = Process()
        process.executableURL = URL(filePath: path)
        process.arguments = arguments
        let pipe = Pipe()
        process.standardInput = pipe
        process.standardOutput = try FileHandle(forWritingTo: output)
        process.standardError = try FileHandle(forWritingTo: errors)
        try await Self.end(process, within: deadlineSeconds) {
            try pipe.fileHandleForWriting.write(contentsOf: input)
            if !keepsInputOpen { try pipe.fileHandleForWriting.close() }
        }
        guard process.terminationReason == .exit, process.terminationStatus == 0 else {
            let said = String(decoding: try Data(contentsOf: errors), as: UTF8.self)
            throw Failure(description: "\(path) ended with \(process.terminationStatus): \(said)")
        }
        return try Data(contentsOf: output)
    }

    private static func end(_ process: Process, within seconds: Int, _ feed: () throws -> Void) async throws {
        let (ended, continuation) = AsyncStream.makeStream(of: Void.self)
        process.terminationHandler = { _ in continuation.finish() }
        try process.run()
        let identifier = process.processIdentifier
        let overdue = MultiThreadedEventLoopGroup.singleton.any()
            .scheduleTask(in: .seconds(Int64(seconds))) { _ = kill(identifier, SIGKILL) }
        defer { overdue.cancel() }
        try feed()
        for await _ in ended {}
    }
}
