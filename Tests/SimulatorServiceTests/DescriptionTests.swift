// SPDX-License-Identifier: Apache-2.0

import APNSSimulator
import APNSTestKit
import Foundation
import HTTPTypes
import Testing
import Yams

@testable import SimulatorService

/// Goal: the description of the control API matches the routes exactly.
@Suite(.timeLimit(.minutes(1))) struct DescriptionTests {
    private static let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "Sources/SimulatorService")

    /// The served operations, such as "GET /status"; files of the page count as one.
    private static func served() async throws -> Set<String> {
        var configuration = try SimulatorConfiguration(tls: CertificateAuthority().makeServerTLS())
        let control = SimulatorControl(ControlConfiguration(), version: "test", of: &configuration)
        return try await Simulator.withRunning(configuration) { simulator in
            Set(
                control.routes(simulator).map { route in
                    let path = route.path.hasPrefix("/page/") ? "/page/{file}" : route.path
                    return "\(route.method.rawValue) \(path)"
                }
            )
        }
    }

    private static func described() throws -> Set<String> {
        let text = try String(contentsOf: self.folder.appending(path: "openapi.yaml"), encoding: .utf8)
        let paths = try #require(try Yams.compose(yaml: text)?.mapping?["paths"]?.mapping)
        var operations: Set<String> = []
        for (path, item) in paths {
            for (key, _) in try #require(item.mapping) where key.string != "parameters" {
                operations.insert("\(try #require(key.string).uppercased()) \(try #require(path.string))")
            }
        }
        return operations
    }

    @Test func `each operation is described, and each description has an operation`() async throws {
        let (served, described) = (try await Self.served(), try Self.described())
        #expect(served.count > 25)
        #expect(served.subtracting(described).sorted() == [])
        #expect(described.subtracting(served).sorted() == [])
    }

    @Test func `each file of the page is part of the program, byte for byte`() throws {
        let files = try FileManager.default.contentsOfDirectory(atPath: Self.folder.appending(path: "Page").path)
        #expect(files.count > 3)
        let served = EmbeddedFiles.routes.map(\.path)
        for file in files {
            #expect(served.contains(file == "index.html" ? "/" : "/page/\(file)"), "SimulatorPage.c leaves out \(file)")
        }
        #expect(served.count == files.count + 1)
    }
}
