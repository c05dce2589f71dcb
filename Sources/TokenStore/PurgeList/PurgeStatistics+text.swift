// SPDX-License-Identifier: Apache-2.0

package import APNSJSON
import APNSWire

extension PurgeStatistics {
    /// The counts as lines of text.
    package var text: String {
        var lines = [self.count.counted("token")]
        for part in self.parts {
            lines.append(
                "  \(part.count.padded) \(part.scope.topic), "
                    + "\(part.scope.environment.rawValue), from \(part.source), failed "
                    + "\(TimeText(seconds: part.oldestFailureSeconds).text) to "
                    + TimeText(seconds: part.newestFailureSeconds).text
            )
        }
        return lines.joined(separator: "\n") + "\n"
    }

    /// The counts as a JSON object.
    package var json: JSONObject {
        let parts = self.parts.map { part in
            JSONObject { object in
                object.add("topic", part.scope.topic)
                object.add("environment", part.scope.environment.rawValue)
                object.add("source", part.source)
                object.add("count", part.count)
                object.add("oldestFailure", part.oldestFailureSeconds)
                object.add("newestFailure", part.newestFailureSeconds)
            }
        }
        return JSONObject { object in
            object.add("count", self.count)
            object.add("parts", elements: parts)
        }
    }
}
