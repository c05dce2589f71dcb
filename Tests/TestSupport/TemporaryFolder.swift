// SPDX-License-Identifier: Apache-2.0

import Foundation

/// A folder for one test, removed with this object.
package final class TemporaryFolder: Sendable {
    package let path: String

    package init() throws {
        let path = FileManager.default.temporaryDirectory.appending(path: "apns-legacy-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        self.path = path
    }

    deinit {
        try? FileManager.default.removeItem(atPath: self.path)
    }

    /// Writes a file and returns its path.
    package func write(_ name: String, _ bytes: [UInt8]) throws -> String {
        let path = self.path + "/" + name
        try Data(bytes).write(to: URL(filePath: path))
        return path
    }
}
