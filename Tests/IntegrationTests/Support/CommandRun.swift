// SPDX-License-Identifier: Apache-2.0

import APNSLegacyCommands
import Foundation
import NIOConcurrencyHelpers

/// The result of a command run within this process.
struct CommandRun: ReportingRun, Sendable {
    var code: Int32
    var output: String
    var error: String
    var diagnostics: [Diagnostic]

    var exitCode: Int32? { self.code }

    /// Runs `apns-legacy` with arguments to completion.
    ///
    /// - Parameters:
    ///   - arguments: the command line without the name of the program.
    ///   - input: its standard input; by default empty.
    ///   - other: its standard output; by default ``output`` is what the command writes.
    ///   - change: changes the command's environment, such as signals and the time.
    /// - Throws: if the output files cannot be created.
    init(
        _ arguments: [String],
        input: CInt? = nil,
        output other: CInt? = nil,
        change: (inout CommandEnvironment) -> Void = { _ in }
    ) async throws {
        let nothing = open("/dev/null", O_RDONLY | O_CLOEXEC)
        let (output, error) = (try CommandRun.makeFile(), try CommandRun.makeFile())
        defer { for descriptor in [nothing, output, error] { close(descriptor) } }
        var environment = CommandEnvironment(
            console: Console(input: input ?? nothing, output: other ?? output, error: error)
        )
        let diagnostics = NIOLockedValueBox<[Diagnostic]>([])
        environment.console.onDiagnostic = { message in diagnostics.withLockedValue { $0.append(message) } }
        change(&environment)
        self.code = await ApnsLegacyCommand.run(arguments, in: environment)
        self.output = CommandRun.text(output)
        self.error = CommandRun.text(error)
        self.diagnostics = diagnostics.withLockedValue { $0 }
    }

    /// An unnamed file of any size.
    private static func makeFile() throws -> CInt {
        var path = Array((FileManager.default.temporaryDirectory.path + "/command-XXXXXX").utf8CString)
        let descriptor = mkstemp(&path)
        guard descriptor >= 0 else { throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO) }
        unlink(path)
        return descriptor
    }

    private static func text(_ file: CInt) -> String {
        lseek(file, 0, SEEK_SET)
        let bytes = try? FileHandle(fileDescriptor: file, closeOnDealloc: false).readToEnd()
        return String(decoding: bytes ?? Data(), as: UTF8.self)
    }
}
