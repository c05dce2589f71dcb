// SPDX-License-Identifier: Apache-2.0

package import APNSWire

/// What a test of a gateway found.
package enum GatewayTestResult: Hashable, Sendable {
    /// The service accepted the notification for a device.
    case delivered
    /// The service accepted it, for a token that no device should have.
    case acceptedWithoutDevice
    /// The service refused the token that no device has, so everything up to the service works; with or without an
    /// error response of the gateway.
    case refusedAsExpected(isReported: Bool)
    /// The app is no longer on the device.
    case appRemoved
    /// The service refused it, which the gateway does not report to the provider.
    case refusedUnreported
    /// The service answered, and the gateway does not report how.
    case unreported
    /// The gateway could not reach the service in the time for retries.
    case serviceNotReached
    /// The service refuses the gateway's credentials.
    case credentialsRefused
    /// The gateway refused it.
    case rejected(Rejection)
    /// It was not sent.
    case notSent(DeliveryOutcome)
    /// The gateway did not answer in time.
    case noAnswer
    /// Another authority issued the gateway's certificate.
    case untrusted
    /// The gateway's certificate is not for the host name that providers connect to.
    case wrongName
    /// The gateway's certificate is not acceptable for another reason.
    case serverCertificate(ConnectionFailure)
    /// The port is of another protocol.
    case wrongProtocol(ConnectionFailure)
    /// There was no connection.
    case notConnected(ConnectionFailure)
    /// The gateway does not admit the certificate, for this reason.
    case notAdmitted(String)
    /// The gateway closed the connection, without an error response or with status 10 (shutdown).
    case closed

    /// The result of a notification with an outcome.
    ///
    /// The gateway's metrics count it under `cause`, if they can be read.
    init(_ outcome: DeliveryOutcome, cause: String?, hasDevice: Bool, reportsRejections: Bool) {
        self =
            switch outcome {
            case .accepted where cause == "dead": .appRemoved
            case .accepted where cause == "ignored":
                hasDevice ? .refusedUnreported : .refusedAsExpected(isReported: false)
            case .accepted where !reportsRejections && cause != "accepted": .unreported
            case .accepted: hasDevice ? .delivered : .acceptedWithoutDevice
            case .rejected(.binary(.invalidToken)) where !hasDevice: .refusedAsExpected(isReported: true)
            case _ where cause == "budget-spent": .serviceNotReached
            case .rejected where cause == "credential-fault": .credentialsRefused
            case .rejected(let rejection): .rejected(rejection)
            case .unsent, .indeterminate: .noAnswer
            case .invalid, .suppressed: .notSent(outcome)
            }
    }

    /// The result of a notification without an outcome, because of a connection; `nil` if the metrics tell more.
    ///
    /// `refusal` is why the configuration would not admit the certificate.
    init?(_ failure: ConnectionFailure, isServerNamed: Bool, refusal: String?, cause: String?) {
        guard cause != "budget-spent" else { return nil }
        self =
            switch failure.kind {
            case .unknownAuthority: .untrusted
            case .serverCertificate: isServerNamed ? .serverCertificate(failure) : .wrongName
            case .wrongProtocol: .wrongProtocol(failure)
            case .nameNotResolved, .refused, .unreachable, .timedOut, .localLimit, .stalled, .tlsVersion, .other:
                .notConnected(failure)
            case .identity where refusal == nil, .certificateRequired where refusal == nil: .notAdmitted("\(failure)")
            default: refusal.map { .notAdmitted($0) } ?? .closed
            }
    }
}
