// SPDX-License-Identifier: Apache-2.0

import Foundation

/// A folder for one test, removed with this object.
final class TemporaryFolder: Sendable {
    let path: String

    init() throws {
        let path = FileManager.default.temporaryDirectory.appending(path: "purge-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        self.path = path
    }

    deinit {
        try? FileManager.default.removeItem(atPath: self.path)
    }

}
