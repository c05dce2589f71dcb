// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSWire
import ArgumentParser
import BatchFiles
import TokenStore

/// `apns-legacy purge stats`: counts.
struct PurgeStatsCommand: PurgeSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "stats",
        abstract: "Count tokens by topic, environment and source."
    )

    @OptionGroup var file: PurgeFileOptions

    @Option(help: .value("text|json", "How to print them."))
    var output = ReportForm.text

    func run(in environment: CommandEnvironment) throws -> ExitStatus {
        let statistics = try self.file.open().statistics()
        try environment.console.write(self.output == .json ? Self.json(statistics) : Self.text(statistics))
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
            "{\"topic\":\(JSONWriter.quoted(part.scope.topic)),\"environment\":\"\(part.scope.environment.rawValue)\","
                + "\"source\":\(JSONWriter.quoted(part.source)),\"count\":\(part.count),"
                + "\"oldestFailure\":\(part.oldestFailure),\"newestFailure\":\(part.newestFailure)}"
        }
        return "{\"count\":\(statistics.count),\"parts\":[\(parts.joined(separator: ","))]}\n"
    }
}
