// SPDX-License-Identifier: Apache-2.0

import APNSFeedback
import OpenSSLTLS

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

    /// The worse of two: what a person must mend comes before what another run mends.
    func worse(_ other: ExitStatus) -> ExitStatus {
        let order: [ExitStatus] = [
            .success, .tryAgain, .unavailable, .dataError, .ioError, .cannotCreate, .notPermitted, .configuration,
            .usage, .software,
        ]
        let (mine, its) = (order.firstIndex(of: self) ?? order.count, order.firstIndex(of: other) ?? order.count)
        return mine >= its ? self : other
    }
}

extension CommandFailure {
    /// Finds the exit code for a drain that failed.
    init(_ error: FeedbackError) {
        switch error {
        case .unavailable: self.init(.unavailable, "\(error)")
        case .notPermitted(_, let underlying):
            self.init(.notPermitted, "\(error)" + ((underlying as? TLSError)?.remedy ?? ""))
        case .refused: self.init(.notPermitted, "\(error)")
        case .spool(let error): self.init(error)
        case .sink(let error): self.init(error)
        case .lost: self.init(.ioError, "\(error)")
        case .newerSpool: self.init(.dataError, "\(error)")
        case .topicMissing, .topicUnusable: self.init(.configuration, "\(error)")
        case .held, .stopped: self.init(.tryAgain, "\(error)")
        @unknown default: self.init(.software, "\(error)")
        }
    }

    /// Finds the exit code for a fault of the spool.
    init(_ error: SpoolError) {
        let status: ExitStatus =
            switch error {
            case .held: .tryAgain
            case .cannotCreate: .cannotCreate
            case .full, .noRoom, .inputOutput: .ioError
            @unknown default: .software
            }
        self.init(status, "\(error)")
    }
}
