// SPDX-License-Identifier: Apache-2.0

/// The metadata keys of log messages in all modules.
package enum LogKey {
    // MARK: Connections

    package static let closeReason = "push.connection.reason"
    package static let connection = "push.connection.id"
    package static let connectionDuration = "push.connection.duration"
    /// The connection's number at the backend, which counts per listener.
    package static let bridgeConnection = "push.bridge.connection.id"
    package static let count = "push.connection.count"
    package static let connectionPause = "push.connection.pause"
    package static let endpoint = "push.endpoint"
    package static let failure = "push.connection.failure"
    /// The port of the listener that a provider connected to.
    package static let localPort = "push.listener.port"
    package static let isSessionReused = "push.connection.session.reused"
    package static let remoteAddress = "push.connection.remote"
    package static let tlsVersion = "push.connection.tls"
    package static let unparsed = "push.bytes.unparsed"

    // MARK: Providers

    package static let fingerprint = "push.certificate.fingerprint"
    /// "false" for messages that an unauthenticated client can cause, so that a log can rate-limit them separately.
    package static let isAdmitted = "push.provider.admitted"
    package static let provider = "push.provider"
    package static let issuer = "push.certificate.issuer"
    package static let subject = "push.certificate.subject"
    package static let topic = "push.topic"

    // MARK: Notifications

    package static let cause = "push.settled.cause"
    package static let delivered = "push.notifications.delivered"
    package static let dropped = "push.notifications.dropped"
    package static let identifier = "push.notification.identifier"
    package static let message = "push.notification.number"
    /// Notifications whose tokens are dead, which are added to the feedback list.
    package static let listed = "push.notifications.feedback"
    package static let outcome = "push.outcome"
    package static let received = "push.notifications.received"
    package static let rejected = "push.notifications.rejected"
    /// How many notifications were delivered although they may be resends.
    package static let possibleResends = "push.notifications.resent.possible"
    package static let request = "push.request.identifier"
    /// How many notifications were resends, and were not delivered again.
    package static let resent = "push.notifications.resent"
    /// How many of these have another expiry than before.
    package static let resentWithNewExpiry = "push.notifications.resent.expiry"
    package static let unsettled = "push.notifications.unsettled"

    // MARK: Answers and refusals

    package static let answer = "push.upstream.answer"
    package static let answerReason = "push.answer.reason"
    package static let answerStatus = "push.answer.status"
    package static let errorStatus = "push.error.status"
    package static let refusalDuration = "push.refusal.duration"
    package static let refusalReason = "push.refusal.reason"
    /// The explanation of a reason.
    package static let refusalDetail = "push.refusal.detail"
    /// What to do about a refusal.
    package static let remedy = "push.refusal.remedy"
    package static let refusalsLeftOut = "push.refusal.leftout"

    // MARK: Feedback

    package static let nextDrain = "push.feedback.next"
    package static let replayedTuples = "push.feedback.replayed"
    package static let storePause = "push.feedback.pause"
    package static let tokens = "push.feedback.tokens"
    package static let tuples = "push.feedback.tuples"

    // MARK: The gateway

    package static let adminAddress = "push.admin.address"
    package static let allowedConnections = "push.connections.allowed"
    package static let allowedFiles = "push.files.allowed"
    package static let configurationFailure = "push.failure"
    package static let configurationProblem = "push.configuration.problem"
    package static let feedbackAddress = "push.feedback.address"
    package static let gatewayAddress = "push.gateway.address"
    package static let logKind = "push.log.kind"
    package static let logLinesLeftOut = "push.log.leftout"
    package static let neededFiles = "push.files.needed"
    package static let refusedParts = "push.configuration.refused"
    package static let unappliedKeys = "push.configuration.unapplied"
}
