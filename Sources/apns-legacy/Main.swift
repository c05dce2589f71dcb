// SPDX-License-Identifier: Apache-2.0

import APNSLegacyCommands
import ArgumentParser

@main
struct Main {
    static func main() async {
        // Before the first await, for which the runtime needs descriptors, too.
        ApnsLegacyCommand.requireSystemResources()
        await ApnsLegacyCommand.main()
    }
}
