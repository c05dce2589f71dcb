// SPDX-License-Identifier: Apache-2.0

import APNSLegacyCommands
import ArgumentParser
import CoreMetrics

@main
struct Main {
    static func main() async {
        // Before the first await, for which the runtime needs descriptors, too.
        ApnsLegacyCommand.requireSystemResources()
        do {
            var command = try ApnsLegacyCommand.parseAsRoot()
            if command is GatewayCommand { MetricsSystem.bootstrap(GatewayCommand.metrics) }
            if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                try command.run()
            }
        } catch {
            ApnsLegacyCommand.exit(withError: error)
        }
    }
}
