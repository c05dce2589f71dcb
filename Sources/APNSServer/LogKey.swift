// SPDX-License-Identifier: Apache-2.0

/// The keys under which data stands in log messages.
package enum LogKey {
    package static let connection = "push.connection.id"
    /// At the backend, which may have several listeners that each count for themselves.
    package static let bridgeConnection = "push.bridge.connection.id"
    package static let remoteAddress = "push.connection.remote"
    package static let topic = "push.topic"
    package static let status = "push.error.status"
    package static let identifier = "push.notification.identifier"
    package static let failure = "push.connection.failure"
    package static let count = "push.connection.count"
    package static let accepted = "push.notifications.accepted"
    package static let dropped = "push.notifications.dropped"
    package static let unparsed = "push.bytes.unparsed"
    package static let address = "push.gateway.address"
    package static let provider = "push.provider"
    package static let message = "push.notification.number"
    package static let request = "push.request.identifier"
    package static let answer = "push.upstream.answer"
    package static let cause = "push.settled.cause"
    package static let reason = "push.refusal.reason"
    package static let fingerprint = "push.certificate.fingerprint"
    package static let subject = "push.certificate.subject"
    package static let duration = "push.refusal.duration"
    package static let pause = "push.feedback.pause"
    package static let tokens = "push.feedback.tokens"
    package static let leftOut = "push.refusal.leftout"
    /// "false" in each line that anybody can bring about who is not let in, so that a log can bound those apart.
    package static let isAdmitted = "push.provider.admitted"
}
