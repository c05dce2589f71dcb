// SPDX-License-Identifier: Apache-2.0

import APNSLegacyCommands
import ArgumentParser

@main
struct Main {
    static func main() async {
        await ApnsLegacyCommand.main()
    }
}
