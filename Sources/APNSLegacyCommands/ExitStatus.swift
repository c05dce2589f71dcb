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
package enum ExitStatus: Int32, Sendable {
    /// 0: all accepted, or done.
    case success = 0
    /// 1: some rejected, invalid or suppressed.
    case someRefused = 1
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

/// An error that ends a command with its own exit code and a sentence for people.
struct CommandFailure: Error, CustomStringConvertible {
    var status: ExitStatus
    var description: String

    init(_ status: ExitStatus, _ description: String) {
        self.status = status
        self.description = description
    }

    /// Finds the exit code for an error from below.
    init(_ error: any Error) {
        switch error {
        case let failure as CommandFailure: self = failure
        case let error as BatchFileError: self.init(error)
        case let error as ProviderError: self.init(error)
        case let error as FeedbackError: self.init(error)
        case let error as SpoolError: self.init(error)
        case let error as PurgeListError: self.init(error)
        case let error as TokenTableError: self.init(error)
        case let error as ServerError: self.init(error)
        case let error as GatewayFailure: self.init(error)
        case let error as GatewayStoreError: self.init(.ioError, "\(error)")
        case let error as PushError: self.init(error)
        case let error as TLSError: self.init(.configuration, "\(error)" + (error.remedy ?? ""))
        default: self.init(.software, "\(error)")
        }
    }

    private init(_ error: BatchFileError) {
        let status: ExitStatus =
            switch error.kind {
            case .unreadable: .noInput
            case .badData: .dataError
            case .uncreatable: .cannotCreate
            case .unwritable: .ioError
            case .inUse: .tryAgain
            case .unsuitable: .usage
            }
        self.init(status, error.description)
    }

    private init(_ error: GatewayFailure) {
        let status: ExitStatus =
            switch error {
            case .unreadable: .noInput
            case .configuration: .configuration
            case .unavailable: .unavailable
            case .databaseInUse: .tryAgain
            }
        self.init(status, "\(error)")
    }

    private init(_ error: ServerError) {
        let status: ExitStatus =
            switch error {
            case .tls: .configuration
            case .listen: .unavailable
            case .ranAlready, .notListening: .software
            }
        self.init(status, "\(error)")
    }

    private init(_ error: PushError) {
        let status: ExitStatus =
            switch error {
            case .configuration, .tls: .configuration
            case .notPermitted, .senderRefused: .notPermitted
            case .unavailable, .serviceTrouble: .unavailable
            case .tooManyInvalidTokens: .dataError
            case .alreadyRan: .software
            @unknown default: .software
            }
        self.init(status, "\(error)")
    }

    private init(_ error: ProviderError) {
        guard case .stopped(let ending, let underlying) = error else {
            self.init(.configuration, "\(error)")
            return
        }
        let status: ExitStatus =
            switch ending {
            case .completed: .success
            case .abandoned: .tryAgain
            case .notPermitted, .refused: .notPermitted
            case .unavailable: .unavailable
            case .tooManyInvalidTokens: .dataError
            }
        self.init(status, "\(error)" + ((underlying as? TLSError)?.remedy ?? ""))
    }
}
