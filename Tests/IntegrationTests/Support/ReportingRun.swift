// SPDX-License-Identifier: Apache-2.0

import APNSFeedback
import APNSLegacyCommands
import APNSProvider
import APNSWire
import Batch

/// A command that ended within this process, and the messages it wrote.
///
/// Tests compare exit codes, places, causes and data such as names of options and files. The sentences around them are
/// compared in the table of mistakes and in the documents.
protocol ReportingRun {
    /// The exit code; `nil` after a signal.
    var exitCode: Int32? { get }
    /// The messages on standard error, in order.
    var diagnostics: [Diagnostic] { get }
}

extension ReportingRun {
    /// The messages about errors.
    var failures: [Diagnostic] { self.diagnostics.filter { $0.level == .error || $0.level == .critical } }

    /// Whether the command ended with an exit code, for which it reported an error at a place.
    ///
    /// - Parameters:
    ///   - code: the exit code.
    ///   - file: the file at fault, as the message has it; by default any or none, and then `line` is not compared.
    ///   - line: the line in it.
    ///   - column: the column in the line; by default any.
    ///   - port: the port of the server at fault; by default any or none.
    ///   - names: what the message must contain without change: options, files, hosts and numbers, but no prose.
    ///   - isCause: what must be true of the typed error that the message is about; by default, there may be none.
    /// - Returns: whether one message has all of it.
    func failed(
        _ code: Int32,
        at file: String? = nil,
        line: Int? = nil,
        column: Int? = nil,
        port: Int? = nil,
        naming names: String...,
        where isCause: (((any Error)?) -> Bool) = { _ in true }
    ) -> Bool {
        guard self.exitCode == code else { return false }
        return self.failures.contains { failure in
            failure.code?.rawValue == code && names.allSatisfy(failure.text.contains)
                && (file == nil || failure.place?.file == file && failure.place?.line == line)
                && (column == nil || failure.place?.column == column)
                && (port == nil || failure.endpoint?.port == port) && isCause(failure.cause)
        }
    }

    /// Whether the command ended with an exit code because of an error.
    func failed<Cause: Error & Equatable>(_ code: Int32, _ cause: Cause) -> Bool {
        self.failed(code, where: { $0 as? Cause == cause })
    }

    /// Whether the command ended with an exit code because of a file whose name the message has.
    func failed(_ code: Int32, _ reason: BatchFileError.Reason, of file: String) -> Bool {
        self.failed(code, naming: file, where: { ($0 as? BatchFileError)?.reason == reason })
    }

    /// Whether the command ended with an exit code because of a connection.
    func failed(_ code: Int32, _ kind: ConnectionFailure.Kind, port: Int? = nil) -> Bool {
        self.failed(code, port: port) { cause in
            switch cause {
            case let failure as ConnectionFailure: return failure.kind == kind
            case let error as ProviderError:
                switch error.kind {
                case .notPermitted(let failure), .unavailable(let failure): return failure.kind == kind
                default: return false
                }
            case FeedbackError.notPermitted(_, let failure as ConnectionFailure)?,
                FeedbackError.unavailable(_, let failure as ConnectionFailure)?:
                return failure.kind == kind
            default: return false
            }
        }
    }

    /// Whether the command ended with an exit code because sending ended for a reason.
    func failed(_ code: Int32, _ kind: ProviderError.Kind) -> Bool {
        self.failed(code, where: { ($0 as? ProviderError)?.kind == kind })
    }

    /// Whether a warning has a place and contains names without change.
    func warned(at file: String? = nil, line: Int? = nil, column: Int? = nil, naming names: String...) -> Bool {
        self.diagnostics.contains { message in
            message.level == .warning && names.allSatisfy(message.text.contains)
                && (file == nil || message.place?.file == file && message.place?.line == line)
                && (column == nil || message.place?.column == column)
        }
    }
}
