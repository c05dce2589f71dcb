// SPDX-License-Identifier: Apache-2.0

import APNSFeedback
import APNSGateway
import APNSProvider
import APNSProviderHTTP2
import APNSServer
import APNSSession
import BatchFiles
import GatewayService
import OpenSSLTLS
import TokenStore

/// The exit codes of all commands, after sysexits.h.
package enum ExitStatus: Int32, CaseIterable, Sendable {
    /// 0: all accepted, or done.
    case success = 0
    /// 1: some rejected, invalid or suppressed.
    case someRefused = 1
    /// 2: a check for monitoring found something that fails.
    case checkFailed = 2
    /// 64: the command line is wrong.
    case usage = 64
    /// 65: the input as a whole is wrong.
    case dataError = 65
    /// 66: the input cannot be read.
    case noInput = 66
    /// 69: the gateway cannot be reached or does not serve.
    case unavailable = 69
    /// 70: a fault in this program.
    case software = 70
    /// 71: the system refuses what a command cannot run without, such as open files.
    case systemError = 71
    /// 73: an output file cannot be made.
    case cannotCreate = 73
    /// 74: an output file cannot be written.
    case ioError = 74
    /// 75: something is indeterminate or unsent; run again.
    case tryAgain = 75
    /// 77: TLS or the certificate does not permit it.
    case notPermitted = 77
    /// 78: the configuration, a certificate or a key cannot be used.
    case configuration = 78
    /// 79: more would be pruned than may go at once; nothing was changed.
    case brake = 79
}

extension ExitStatus {
    /// The exit code of one drain.
    init(_ outcome: FeedbackOutcome) {
        var status = ExitStatus.success
        if let failure = outcome.failure {
            status = CommandFailure(failure).status
        } else if let cause = outcome.ending?.cause, !cause.isByService {
            status = .tryAgain
        }
        // A tuple without its end is what a connection that breaks leaves.
        let isFaulty = outcome.leftovers.contains { outcome.failure == nil || $0.kind != .partial }
        self = isFaulty ? status.worse(.dataError) : status
    }

    /// The exit code of a batch that came to its end.
    init(_ summary: SendSummary) {
        let counts = summary.outcomeCounts
        let isOpen = summary.isInterrupted || counts[.indeterminate] > 0 || counts[.unsent] > 0
        self = isOpen ? .tryAgain : counts[.accepted] == counts.total ? .success : .someRefused
    }

    /// The worse of two: what a person must mend comes before what another run mends.
    func worse(_ other: ExitStatus) -> ExitStatus {
        let order: [ExitStatus] = [
            .success, .someRefused, .checkFailed, .tryAgain, .unavailable, .dataError, .ioError, .cannotCreate,
            .notPermitted, .configuration, .usage, .software,
        ]
        let (mine, its) = (order.firstIndex(of: self) ?? order.count, order.firstIndex(of: other) ?? order.count)
        return mine >= its ? self : other
    }
}

/// An error that ends a command with its own exit code and a sentence for people.
struct CommandFailure: Error, CustomStringConvertible {
    var status: ExitStatus
    var description: String

    init(_ status: ExitStatus, _ description: String) {
        self.status = status
        self.description = description
    }

    /// Finds the exit code for an error from below, and what to do about it.
    init(_ error: any Error) {
        switch error {
        case let failure as CommandFailure: self = failure
        case FeedbackError.spool(let error): self.init(error)
        case FeedbackError.notTaken(let error): self.init(error)
        case let error as any CommandError: self.init(error.status, "\(error)" + (Self.remedy(for: error) ?? ""))
        default: self.init(.software, "\(error)")
        }
    }

    /// A sentence that names the option to use, with a space before it; `nil` where there is none.
    private static func remedy(for error: any Error) -> String? {
        switch error {
        case FeedbackError.notPermitted(_, let underlying): self.remedy(for: underlying)
        case let error as ProviderError: self.remedy(for: error.kind)
        case TLSError.passphraseMissing, TLSError.passphraseWrong:
            " Say --passphrase-file FILE, which has it in its first line."
        case TLSError.unknownAuthority: " Say --trust FILE, with the authority's certificate in PEM."
        default: nil
        }
    }

    private static func remedy(for kind: ProviderError.Kind) -> String? {
        switch kind {
        case .tls(let error): self.remedy(for: error)
        case .notPermitted(let failure) where failure.kind == .unknownAuthority:
            self.remedy(for: TLSError.unknownAuthority(detail: failure.detail))
        default: nil
        }
    }
}

/// An error from below that has an exit code.
private protocol CommandError: Error {
    var status: ExitStatus { get }
}

extension BatchFileError: CommandError {
    fileprivate var status: ExitStatus {
        switch self.kind {
        case .unreadable: .noInput
        case .badData: .dataError
        case .uncreatable: .cannotCreate
        case .unwritable: .ioError
        case .inUse: .tryAgain
        case .unsuitable: .usage
        }
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
}

// MARK: Servers

extension GatewayFailure: CommandError {
    fileprivate var status: ExitStatus {
        switch self {
        case .unreadable: .noInput
        case .configuration: .configuration
        case .unavailable: .unavailable
        case .databaseInUse: .tryAgain
        }
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
}

// MARK: Dead tokens

extension FeedbackError: CommandError {
    fileprivate var status: ExitStatus {
        switch self {
        case .unavailable: .unavailable
        case .notPermitted, .refused: .notPermitted
        case .spool(let error): error.status
        case .notTaken(let error): CommandFailure(error).status
        case .lost: .ioError
        case .newerSpool: .dataError
        case .topicMissing, .topicForeign, .topicUnusable: .configuration
        case .held, .stopped: .tryAgain
        }
    }
}

extension SpoolError: CommandError {
    fileprivate var status: ExitStatus {
        switch self {
        case .held: .tryAgain
        case .cannotCreate: .cannotCreate
        case .full, .noRoom, .inputOutput: .ioError
        }
    }
}

extension PurgeListError: CommandError {
    fileprivate var status: ExitStatus {
        switch self {
        case .missing: .noInput
        case .cannotOpen, .readOnly: .cannotCreate
        case .notAFile, .empty, .notAPurgeList, .newerVersion, .corrupt, .tokenByteCount, .nameByteCount,
            .controlCharacter, .time:
            .dataError
        case .full, .inputOutput: .ioError
        case .busy: .tryAgain
        case .database: .software
        }
    }
}

extension TokenTableError: CommandError {
    fileprivate var status: ExitStatus {
        switch self {
        case .missingFile, .notAFile, .cannotOpen: .noInput
        case .notADatabase, .corrupt, .noTokens, .noTimes, .notAFlag, .constraint: .dataError
        case .readOnly, .full: .ioError
        case .busy: .tryAgain
        case .missingTable, .notATable, .missingColumn, .generatedColumn, .takenColumn, .hiddenRowNumber, .name,
            .severalTopics, .fewTopics, .unknownTopics:
            .usage
        case .database: .software
        }
    }
}
