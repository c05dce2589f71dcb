// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

/// Goal: the page of the simulator shows every notification with any content, in any browser.
///
/// Method: `apns-legacy simulator` as a process, and its page in headless Chromium, which Tests/Page drives.
@Suite(.timeLimit(.minutes(3))) struct PageTests {
    private static let secondsMax = 150

    /// The result of one of the checks in Tests/Page/check_page.py.
    private struct Check: Decodable {
        var name: String
        var seconds: Double
        var failure: String?
    }

    private static let folder = GatewayTests.repository.appending(path: "Tests/Page")

    @Test func `all checks of the page pass`() async throws {
        let environment = try await PythonEnvironment("websockets==17.4")
        let scene = try SendScene()
        let folder = scene.path("simulator")
        let arguments = ["simulator", "--key-type", "ec", "--folder", folder, "--control-port", "0"]
        let (child, line) = try await Child.start(arguments, log: scene.path("log"), deadline: Int64(Self.secondsMax))
        defer { child.send(SIGKILL) }
        let printed = try await Program.run(
            environment.python,
            [Self.folder.appending(path: "check_page.py").path, try Child.program, folder, line],
            deadlineSeconds: Self.secondsMax
        )
        let checks = try JSONDecoder().decode([Check].self, from: printed)
        #expect(checks.count >= 15)
        for check in checks {
            #expect(check.failure == nil, "\(check.name), after \(check.seconds) s")
        }
    }
}
