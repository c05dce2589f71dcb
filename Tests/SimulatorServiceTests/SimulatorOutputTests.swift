// SPDX-License-Identifier: Apache-2.0

import FileSupport
import Foundation
import TestSupport
import Testing

@testable import SimulatorService

@Suite struct SimulatorOutputTests {
    @Test func `a file of ports exists while its owner does, and has one owner`() throws {
        let folder = try TemporaryFolder()
        let path = folder.path + "/ports.json"
        try Data("left by a killed process".utf8).write(to: URL(filePath: path))
        do {
            let announcement = try Announcement(path)
            #expect(!FileManager.default.fileExists(atPath: path))
            try announcement.write("{}")
            #expect(try String(contentsOfFile: path, encoding: .utf8) == "{}\n")
            #expect(throws: FileLock.Failure.held(holder: getpid())) { try Announcement(path) }
        }
        #expect(!FileManager.default.fileExists(atPath: path))
    }

    @Test func `a log of notifications has one writer, and loses only an incomplete line`() throws {
        let folder = try TemporaryFolder()
        let path = folder.path + "/log.jsonl"
        try Data("{\"number\":1}\n{\"number\":2".utf8).write(to: URL(filePath: path))
        do {
            let log = try NotificationLog(path) { _ in }
            #expect(throws: NotificationLog.Failure.inUse) { try NotificationLog(path) { _ in } }
            log.append("{\"number\":3}")
            #expect(log.isComplete)
        }
        #expect(try String(contentsOfFile: path, encoding: .utf8) == "{\"number\":1}\n{\"number\":3}\n")
        try Data("a letter".utf8).write(to: URL(filePath: path))
        #expect(throws: NotificationLog.Failure.self) { try NotificationLog(path) { _ in } }
        #expect(try String(contentsOfFile: path, encoding: .utf8) == "a letter")
    }
}
