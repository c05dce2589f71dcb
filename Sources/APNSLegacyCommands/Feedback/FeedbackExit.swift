// SPDX-License-Identifier: Apache-2.0

import APNSFeedback
import OpenSSLTLS

extension ExitStatus {
    /// The exit code of one drain.
    init(_ outcome: FeedbackOutcome) {
        if let failure = outcome.failure {
            self = CommandFailure(failure).status
        } else if outcome.leftovers.contains(where: { $0.isFault }) {
            self = .dataError
        } else {
            self = outcome.ending?.cause == .deadline || outcome.ending?.cause == .stopped ? .tryAgain : .success
        }
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

extension SpoolLeftover {
    /// Whether a person should look; what a killed process had not read whole is only told.
    var isFault: Bool {
        switch self.kind {
        case .partial: !self.isFromEarlier
        case .torn: false
        case .malformed, .damaged: true
        }
    }
}

extension CommandFailure {
    /// Finds the exit code for a drain that failed.
    init(_ error: FeedbackError) {
        switch error {
        case .unavailable: self.init(.unavailable, "\(error)")
        case .notPermitted(_, let underlying):
            self.init(.notPermitted, "\(error)" + ((underlying as? TLSError)?.remedy ?? ""))
        case .spool(let error): self.init(error)
        case .purgeList(let error): self.init(error)
        case .output(let error): self.init(error)
        case .lost: self.init(.ioError, "\(error)")
        case .newerSpool: self.init(.dataError, "\(error)")
        case .topicMissing: self.init(.configuration, "\(error)")
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
