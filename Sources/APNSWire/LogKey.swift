// SPDX-License-Identifier: Apache-2.0

/// The metadata keys of log messages in all modules.
package enum LogKey {
    // MARK: Connections

    package static let closeReason = "apns.legacy.connection.reason"
    package static let connection = "apns.legacy.connection.id"
    package static let connectionDuration = "apns.legacy.connection.duration"
    /// The connection's number at the backend, which counts per listener.
    package static let bridgeConnection = "apns.legacy.bridge.connection.id"
    package static let count = "apns.legacy.connection.count"
    package static let connectionPause = "apns.legacy.connection.pause"
    package static let endpoint = "apns.legacy.endpoint"
    package static let failure = "apns.legacy.connection.failure"
    /// The port of the listener that a provider connected to.
    package static let localPort = "apns.legacy.listener.port"
    package static let isSessionReused = "apns.legacy.connection.session.reused"
    package static let remoteAddress = "apns.legacy.connection.remote"
    package static let tlsVersion = "apns.legacy.connection.tls"
    package static let unparsed = "apns.legacy.bytes.unparsed"

    // MARK: Providers

    package static let fingerprint = "apns.legacy.certificate.fingerprint"
    /// "false" for messages that an unauthenticated client can cause, so that a log can rate-limit them separately.
    package static let isAdmitted = "apns.legacy.provider.admitted"
    package static let provider = "apns.legacy.provider"
    package static let issuer = "apns.legacy.certificate.issuer"
    package static let subject = "apns.legacy.certificate.subject"
    package static let topic = "apns.legacy.topic"

    // MARK: Notifications

    package static let attempts = "apns.legacy.attempts"
    package static let cause = "apns.legacy.settled.cause"
    /// How many notifications of several have an outcome.
    package static func count(of kind: DeliveryOutcome.Kind) -> String { "apns.legacy.notifications.\(kind.name)" }
    package static let delivered = "apns.legacy.notifications.delivered"
    package static let dropped = "apns.legacy.notifications.dropped"
    package static let identifier = "apns.legacy.notification.identifier"
    /// How many notifications the service may have already.
    package static let inDoubt = "apns.legacy.notifications.indoubt"
    package static let message = "apns.legacy.notification.number"
    /// Notifications whose tokens are dead, which are added to the feedback list.
    package static let listed = "apns.legacy.notifications.feedback"
    package static let outcome = "apns.legacy.outcome"
    package static let received = "apns.legacy.notifications.received"
    package static let rejected = "apns.legacy.notifications.rejected"
    /// How many notifications were delivered although they may be resends.
    package static let possibleResends = "apns.legacy.notifications.resent.possible"
    package static let request = "apns.legacy.request.identifier"
    /// How many notifications were resends, and were not delivered again.
    package static let resent = "apns.legacy.notifications.resent"
    /// How many of these have another expiry than before.
    package static let resentWithNewExpiry = "apns.legacy.notifications.resent.expiry"
    /// The protocol of a client: `binary` or `http2`.
    package static let transport = "apns.legacy.protocol"
    /// How many notifications a spool has.
    package static let spooled = "apns.legacy.notifications.spooled"
    /// The folder of a spool.
    package static let spool = "apns.legacy.spool"
    package static let unsettled = "apns.legacy.notifications.unsettled"

    // MARK: Answers and refusals

    package static let answer = "apns.legacy.upstream.answer"
    package static let answerReason = "apns.legacy.answer.reason"
    package static let answerStatus = "apns.legacy.answer.status"
    package static let errorStatus = "apns.legacy.error.status"
    package static let refusalDuration = "apns.legacy.refusal.duration"
    package static let refusalReason = "apns.legacy.refusal.reason"
    /// The explanation of a reason.
    package static let refusalDetail = "apns.legacy.refusal.detail"
    /// What to do about a refusal.
    package static let remedy = "apns.legacy.refusal.remedy"
    package static let refusalsLeftOut = "apns.legacy.refusal.leftout"

    // MARK: Feedback

    package static let nextDrain = "apns.legacy.feedback.next"
    package static let replayedTuples = "apns.legacy.feedback.replayed"
    package static let storePause = "apns.legacy.feedback.pause"
    package static let tokens = "apns.legacy.feedback.tokens"
    package static let tuples = "apns.legacy.feedback.tuples"

    // MARK: The gateway

    package static let adminAddress = "apns.legacy.admin.address"
    package static let allowedConnections = "apns.legacy.connections.allowed"
    package static let allowedFiles = "apns.legacy.files.allowed"
    package static let configurationFailure = "apns.legacy.failure"
    package static let configurationProblem = "apns.legacy.configuration.problem"
    package static let feedbackAddress = "apns.legacy.feedback.address"
    package static let gatewayAddress = "apns.legacy.gateway.address"
    package static let logKind = "apns.legacy.log.kind"
    package static let logLinesLeftOut = "apns.legacy.log.leftout"
    package static let neededFiles = "apns.legacy.files.needed"
    package static let outcomeFile = "apns.legacy.outcomes.file"
    package static let refusedParts = "apns.legacy.configuration.refused"
    package static let unappliedKeys = "apns.legacy.configuration.unapplied"
}
