// SPDX-License-Identifier: Apache-2.0

import APNSWire
import ArgumentParser

/// Finds a topic that no app can have before anything is read.
enum TopicCheck {
    /// Checks the value of `--topic`.
    ///
    /// - Throws: one line with what a topic is.
    static func check(_ topic: String?) throws {
        guard let topic, !TopicFamily.isTopic(topic) else { return }
        throw ValidationError(
            "invalid value '\(topic)' for --topic; expected a bundle identifier such as com.example.app"
        )
    }
}
