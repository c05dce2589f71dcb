// SPDX-License-Identifier: Apache-2.0

import APNSLegacyCommands
import CoreMetrics
import GatewayService
import Glibc

@main
struct Main {
    static func main() async {
        // Before the first await, for which the runtime needs descriptors, too.
        ApnsLegacyCommand.requireSystemResources()
        let environment = CommandEnvironment.process(commit: commit) {
            let metrics = GatewayMetrics()
            MetricsSystem.bootstrap(metrics)
            return metrics
        }
        exit(await ApnsLegacyCommand.run(Array(CommandLine.arguments.dropFirst()), in: environment))
    }
}
