// SPDX-License-Identifier: Apache-2.0

import Foundation

/// The files of the repository, without build products.
struct SourceTree: Sendable {
    /// The source tree that contains this file.
    static let repository = Result { try SourceTree(containing: #filePath) }

    let root: URL
    let files: [SourceFile]
    /// Every path, including those of binary files.
    let paths: [String]

    private init(containing file: String) throws {
        var root = URL(fileURLWithPath: file)
        repeat {
            guard root.path != "/" else { throw CocoaError(.fileNoSuchFile) }
            root.deleteLastPathComponent()
        } while !FileManager.default.fileExists(atPath: root.appendingPathComponent("Package.swift").path)
        self.root = root
        var files: [SourceFile] = []
        var paths: [String] = []
        for path in try Self.paths(below: root) {
            paths.append(path)
            let bytes = try Data(contentsOf: root.appendingPathComponent(path))
            if let text = String(data: bytes, encoding: .utf8) { files.append(SourceFile(path: path, text: text)) }
        }
        self.files = files
        self.paths = paths
    }

    /// Folders that builds and tools create.
    static func isLeftBehind(_ name: String) -> Bool {
        name.hasPrefix(".build") || [".git", ".swiftpm", "__pycache__", "Package.resolved", ".DS_Store"].contains(name)
            || name.hasSuffix(".xcodeproj")
    }

    private static func paths(below root: URL) throws -> [String] {
        var found: [String] = []
        var folders = [""]
        while let folder = folders.popLast() {
            let at = root.appendingPathComponent(folder)
            for name in try FileManager.default.contentsOfDirectory(atPath: at.path) where !self.isLeftBehind(name) {
                let path = folder.isEmpty ? name : folder + "/" + name
                let attributes = try FileManager.default.attributesOfItem(
                    atPath: root.appendingPathComponent(path).path
                )
                switch attributes[.type] as? FileAttributeType {
                case .typeDirectory?: folders.append(path)
                case .typeRegular?: found.append(path)
                default: break
                }
            }
        }
        return found.sorted()
    }
}
