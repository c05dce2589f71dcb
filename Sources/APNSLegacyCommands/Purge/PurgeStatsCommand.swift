// SPDX-License-Identifier: Apache-2.0

import APNSWire
import ArgumentParser
import Batch
import APNSJSON
import TokenStore

/// `apns-legacy purge stats`: prints counts.
struct PurgeStatsCommand: PurgeSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "stats",
        abstract: "Count tokens by topic, environment and source.",
        discussion: """
            Examples:
              apns-legacy purge stats --purge-list dead.sqlite
              apns-legacy purge stats --purge-list dead.sqlite --summary json

            \(ExitStatus.list([:], .success, .dataError, .noInput, .tryAgain))
            """
    )

    @OptionGroup var file: PurgeFileOptions

    @OptionGroup(title: "Output")
    package var reporting: ReportingOptions

    func run(in environment: CommandEnvironment) throws -> ExitStatus {
        let statistics = try self.file.open(environment.console).statistics()
        environment.summary.set(object: Self.json(statistics))
        try environment.report(Self.text(statistics))
        return .success
    }

    static func text(_ statistics: PurgeStatistics) -> String {
        var lines = [statistics.count.counted("token")]
        for part in statistics.parts {
            lines.append(
                "  \(part.count.padded) \(part.scope.topic), "
                    + "\(part.scope.environment.rawValue), from \(part.source), failed "
                    + "\(TimeText(seconds: part.oldestFailure).text) to "
                    + TimeText(seconds: part.newestFailure).text
            )
        }
        return lines.joined(separator: "\n") + "\n"
    }

    static func json(_ statistics: PurgeStatistics) -> String {
        let parts = statistics.parts.map { part in
            JSONObject { object in
                object.add("topic", part.scope.topic)
                object.add("environment", part.scope.environment.rawValue)
                object.add("source", part.source)
                object.add("count", part.count)
                object.add("oldestFailure", part.oldestFailure)
                object.add("newestFailure", part.newestFailure)
            }
        }
        return JSONObject { object in
            object.add("count", statistics.count)
            object.add("parts", elements: parts)
        }.text
    }
}
