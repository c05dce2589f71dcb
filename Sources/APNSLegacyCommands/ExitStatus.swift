// SPDX-License-Identifier: Apache-2.0

import APNSFeedback
import APNSGateway
import APNSProvider
import APNSProviderHTTP2
import APNSServer
import APNSSession
import APNSTransport
import APNSWire
import Batch
import APNSCertificates
import FileSupport
import GatewayService
import OpenSSLTLS
import TokenStore

/// The exit codes of all commands, based on sysexits.h.
package enum ExitStatus: Int32, CaseIterable, Sendable {
    /// 0: all accepted, or done.
    case success = 0
    /// 1: some rejected, invalid or suppressed.
    case someRefused = 1
    /// 2: a check found a critical problem.
    case checkFailed = 2
    /// 64: the command line is wrong.
    case usage = 64
    /// 65: the input as a whole is wrong.
    case dataError = 65
    /// 66: the input cannot be read.
    case noInput = 66
    /// 69: the gateway or service cannot be reached, or does not answer.
    case unavailable = 69
    /// 70: a bug in this program.
    case software = 70
    /// 71: the system refuses a resource, such as open files.
    case systemError = 71
    /// 73: an output file cannot be created.
    case cannotCreate = 73
    /// 74: output cannot be written.
    case ioError = 74
    /// 75: something is indeterminate or unsent; run again.
    case tryAgain = 75
    /// 77: TLS or a certificate was refused.
    case notPermitted = 77
    /// 78: the configuration, a certificate or a key cannot be used.
    case configuration = 78
    /// 79: more rows would be deleted than the limit; nothing was changed.
    case limitExceeded = 79
}

extension ExitStatus {
    /// The exit code of one drain.
    init(_ report: FeedbackReport) {
        var status = ExitStatus.success
        if let failure = report.failure {
            status = CommandFailure(failure).status
        } else if let reason = report.ending?.reason, !reason.isByService {
            status = .tryAgain
        }
        // A connection that breaks leaves an incomplete tuple.
        let isFaulty = report.leftovers.contains { report.failure == nil || $0.kind != .partial }
        self = isFaulty ? status.worse(.dataError) : status
    }

    /// The exit code of a batch.
    init(_ summary: SendSummary) {
        let counts = summary.outcomeCounts
        let isOpen = summary.isInterrupted || counts[.indeterminate] > 0 || counts[.unsent] > 0
        self = isOpen ? .tryAgain : counts[.accepted] == counts.total ? .success : .someRefused
    }

    /// Whether the command failed, as opposed to a command that found something wrong.
    var isFailure: Bool { self.rawValue >= ExitStatus.usage.rawValue }

    /// The worse of two: what you must fix takes precedence over what another run fixes.
    func worse(_ other: ExitStatus) -> ExitStatus {
        let order: [ExitStatus] = [
            .success, .someRefused, .checkFailed, .tryAgain, .unavailable, .dataError, .ioError, .cannotCreate,
            .notPermitted, .configuration, .usage, .software,
        ]
        let (mine, its) = (order.firstIndex(of: self) ?? order.count, order.firstIndex(of: other) ?? order.count)
        return mine >= its ? self : other
    }
}

/// An error that ends a command: its exit code, and one line with what failed, where, and what to do.
struct CommandFailure: Error, CustomStringConvertible {
    var status: ExitStatus
    /// The line, with its code, and the place and the address that it is about.
    var diagnostic: Diagnostic {
        didSet { self.diagnostic.code = self.status }
    }
    /// The connection that failed, if that is the reason.
    private(set) var connection: ConnectionFailure?

    var description: String { self.diagnostic.text }

    init(_ status: ExitStatus, _ sentence: String) { self.init(status, .error(sentence)) }

    init(_ status: ExitStatus, _ diagnostic: Diagnostic) {
        self.status = status
        self.diagnostic = diagnostic
        self.diagnostic.code = status
    }

    /// An error at a place in a file.
    init(_ status: ExitStatus, at place: Diagnostic.Place, _ sentence: String) {
        self.init(status, Diagnostic(.error, at: place, sentence))
    }

    /// Converts an error of a lower layer.
    init(_ error: any Error) {
        switch error {
        case let failure as CommandFailure: self = failure
        case let error as AtomicFolderError: self.init(error)
        case let error as SimulatorFiles.Failure: self.init(error)
        case FeedbackError.spool(let error): self.init(error)
        case FeedbackError.notDelivered(let error): self.init(error)
        case let error as any CommandError:
            self.init(error.status, error.diagnostic)
            switch (error as? ProviderError)?.kind {
            case .notPermitted(let failure), .unavailable(let failure): self.connection = failure
            default: break
            }
        default: self.init(.software, "internal error: \(error)")
        }
        if self.diagnostic.cause == nil { self.diagnostic.cause = error }
    }

    /// Creates the exit code and the line for a list that was not read.
    init(_ error: FeedbackError, _ tls: TLSConfiguration?) {
        self.init(error)
        switch error {
        case .notPermitted(let endpoint, let error as TLSError), .unavailable(let endpoint, let error as TLSError):
            let remote = RemoteRole.feedbackService.name(endpoint)
            let names = tls.map { TLSErrorNames(remote: remote, $0) } ?? TLSErrorNames(remote: remote)
            let cause = self.diagnostic.cause
            self.diagnostic = Diagnostic(.error, ConnectionFailure(error, names), to: endpoint)
            self.diagnostic.cause = cause
        default: break
        }
    }
}

extension Diagnostic {
    /// A failed connection, with the option to use.
    init(_ level: Level, _ failure: ConnectionFailure, to endpoint: Endpoint?) {
        let advice =
            switch failure.kind {
            case .unknownAuthority: "if it is the right one, add --trust FILE with the certificate of its authority"
            case .certificateRequired: "add --certificate FILE and --key FILE"
            case .tlsVersion: "an old server needs --tls-min 1.0"
            case .wrongProtocol where failure.advice == ConnectionFailure.http2Advice:
                "add --transport http2, or connect to the port of the gateway, usually 2195"
            case .proxyAuthentication: "give them as --proxy http://user:password@host:port"
            default: failure.advice
            }
        self.init(level, failure.detail, advice: advice, endpoint: endpoint)
        self.cause = failure
    }
}

/// What to do about a reason with which the HTTP/2 service rejects a sender.
private func advice(_ reason: PushReason) -> String? {
    switch reason {
    case .invalidProviderToken, .missingProviderToken: "check --p8-key, --key-id and --team-id"
    case .expiredProviderToken: "check the clock of this machine"
    case .badCertificate: "the certificate may be revoked; check it: apns-legacy certificate check FILE"
    case .badCertificateEnvironment: "check --environment"
    case .topicDisallowed, .badTopic: "the certificate or key is not for this app; check --topic"
    case .missingTopic: "add --topic BUNDLE-ID"
    default: nil
    }
}

/// An error of a lower layer that has an exit code.
private protocol CommandError: Error {
    var status: ExitStatus { get }
    var diagnostic: Diagnostic { get }
}

extension CommandError {
    fileprivate var diagnostic: Diagnostic { .error("\(self)") }
}

extension BatchFileError: CommandError {
    fileprivate var status: ExitStatus {
        switch self.kind {
        case .unreadable: .noInput
        case .badData, .lost: .dataError
        case .uncreatable: .cannotCreate
        case .unwritable: .ioError
        case .inUse: .tryAgain
        case .unsuitable: .usage
        }
    }

    fileprivate var diagnostic: Diagnostic {
        let place = self.place.map { Diagnostic.Place(file: $0.file, line: $0.lineNumber, column: $0.column) }
        return Diagnostic(.error, self.description, place: place)
    }
}

extension TLSError: CommandError {
    fileprivate var status: ExitStatus { .configuration }
}

// MARK: Sending

extension ProviderError: CommandError {
    fileprivate var status: ExitStatus {
        switch self.kind {
        case .configuration, .tls: .configuration
        case .notPermitted, .closedWithoutAnswer, .senderRefused: .notPermitted
        case .unavailable, .serviceTrouble: .unavailable
        case .tooManyInvalidTokens: .dataError
        case .stopped: .tryAgain
        case .alreadyRan: .software
        }
    }

    fileprivate var diagnostic: Diagnostic {
        switch self.kind {
        case .notPermitted(let failure), .unavailable(let failure): Diagnostic(.error, failure, to: nil)
        case .senderRefused(let answer): Diagnostic(.error, "\(self)", advice: advice(answer.reason))
        default: .error("\(self)")
        }
    }
}

// MARK: Servers

extension GatewayFailure: CommandError {
    fileprivate var status: ExitStatus {
        switch self {
        case .unreadable: .noInput
        case .configuration, .line: .configuration
        case .inUse: .tryAgain
        }
    }

    fileprivate var diagnostic: Diagnostic {
        guard case .line(let path, let line, _) = self else { return .error("\(self)") }
        return Diagnostic(.error, "\(self)", place: .init(file: path, line: line))
    }
}

extension GatewayStoreError: CommandError {
    fileprivate var status: ExitStatus { .ioError }
}

extension ServerError: CommandError {
    fileprivate var status: ExitStatus {
        switch self {
        case .tls: .configuration
        case .listen: .unavailable
        case .ranAlready, .notListening: .software
        }
    }

    fileprivate var diagnostic: Diagnostic {
        guard case .listen(let host, let port, _) = self else { return .error("\(self)") }
        return Diagnostic(.error, "\(self)", endpoint: Endpoint(host: host, port: port))
    }
}

// MARK: Dead tokens

extension FeedbackError: CommandError {
    fileprivate var status: ExitStatus {
        switch self {
        case .unavailable: .unavailable
        case .notPermitted, .refused: .notPermitted
        case .spool(let error): error.status
        case .notDelivered(let error): CommandFailure(error).status
        case .lost: .ioError
        case .newerSpool: .dataError
        case .topicMissing, .topicForeign, .topicUnusable: .configuration
        case .held, .heldElsewhere, .stopped: .tryAgain
        }
    }

    fileprivate var diagnostic: Diagnostic {
        let endpoint: Endpoint? =
            switch self {
            case .unavailable(let endpoint, _), .notPermitted(let endpoint, _), .refused(let endpoint),
                .held(let endpoint, _), .heldElsewhere(let endpoint, _):
                endpoint
            default: nil
            }
        return Diagnostic(.error, "\(self)", endpoint: endpoint)
    }
}

extension SpoolError: CommandError {
    fileprivate var status: ExitStatus {
        switch self {
        case .held: .tryAgain
        case .cannotCreate, .unsafeFolder: .cannotCreate
        case .full, .noRoom, .inputOutput: .ioError
        }
    }
}

extension PurgeListError: CommandError {
    fileprivate var status: ExitStatus {
        switch self {
        case .missing: .noInput
        case .cannotOpen, .readOnly, .danglingLink: .cannotCreate
        case .notAFile, .empty, .notAPurgeList, .newerVersion, .corrupt, .tokenByteCount, .nameByteCount,
            .controlCharacter, .time, .trigger, .futureFailure:
            .dataError
        case .full, .inputOutput, .replaced: .ioError
        case .busy: .tryAgain
        case .database: .software
        case .server(let error): error.status
        }
    }
}

extension TokenTableError: CommandError {
    fileprivate var status: ExitStatus {
        switch self {
        case .missingFile, .notAFile, .cannotOpen: .noInput
        case .connectionLost, .commitLost: .tryAgain
        case .notPermitted, .notAdmitted: .notPermitted
        case .notADatabase, .corrupt, .noTokens, .noTimes, .notAFlag, .constraint: .dataError
        case .readOnly, .full, .inputOutput: .ioError
        case .busy: .tryAgain
        case .missingTable, .notATable, .missingColumn, .generatedColumn, .takenColumn, .hiddenRowNumber, .name,
            .severalTopics, .fewTopics, .unknownTopics, .noKey, .noTransactions, .invalidAddress:
            .usage
        case .database, .statementFailed: .software
        }
    }
}

// MARK: Queues

extension QueueError: CommandError {
    fileprivate var status: ExitStatus {
        switch self {
        case .notSupported: .usage
        case .missing, .version, .present, .unknownBatch, .done, .damaged: .dataError
        case .cancelled, .uncertain, .busy, .connectionLost, .notHeard: .tryAgain
        case .notPermitted: .notPermitted
        }
    }
}
