// SPDX-License-Identifier: Apache-2.0

/// The keys under which data stands in log messages.
enum LogKey {
    static let topic = "push.topic"
    static let provider = "push.provider"
    static let failure = "push.connection.failure"
    static let pause = "push.feedback.pause"
    static let tokens = "push.feedback.tokens"
}
