// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSSimulator
import ArgumentParser
import FileSupport
import OpenSSLTLS
import ServiceSupport
import SimulatorService
import SystemPackage

/// The simulator's control API, its page, and its output for programs.
struct SimulatorControlOptions: ParsableArguments {
    @Option(help: .value("port", "The port of the control API and its page; 0: any free port."))
    var controlPort = 0

    @Option(
        help: .value("address", "The address of the control API; one that is not loopback needs --control-token-file.")
    )
    var controlHost = "127.0.0.1"

    @Option(
        name: .customLong("control-name"),
        help: .value(
            "name",
            "Another host name of the control API; requests for other names are refused. Repeat for each."
        )
    )
    var controlNames: [String] = []

    @Option(
        help: .value(
            "file",
            "A file with a secret in its first line that requests must have, as 'Authorization: Bearer' or as the "
                + "password in a browser."
        ),
        completion: .file()
    )
    var controlTokenFile: String?

    @Option(help: .value("file", "Also write the line with the ports to this file."), completion: .file())
    var announce: String?

    @Option(
        help: .value(
            "file",
            "Append a line of JSON for each notification to this file, as the control API returns it."
        ),
        completion: .file()
    )
    var logNotifications: String?

    @Option(
        help: .value("file", "The app's texts for the page: its Localizable.strings, or a JSON object."),
        completion: .file()
    )
    var strings: String?

    @Option(help: .value("file", "Faults that are planned from the start, as YAML or JSON."), completion: .file())
    var faults: String?

    func validate() throws {
        try self.requirePort("--control-port", self.controlPort, from: 0)
        guard self.controlTokenFile != nil || self.addresses.isLoopback else {
            throw ValidationError(
                "--control-host \(self.controlHost) can be reached from other machines; use --control-token-file FILE"
            )
        }
    }

    private var addresses: ControlConfiguration {
        var configuration = ControlConfiguration()
        configuration.host = self.controlHost
        configuration.port = self.controlPort
        configuration.names = self.controlNames
        return configuration
    }

    /// The minimum length of a token, in characters.
    private static let tokenCharacterCountMin = 16

    /// Reads the files that the options name.
    ///
    /// - Throws: `CommandFailure` for a file that cannot be read, or a token that cannot be used.
    func configuration() throws -> ControlConfiguration {
        var configuration = self.addresses
        configuration.strings = try self.localizedStrings()
        guard let path = self.controlTokenFile else { return configuration }
        let line = String(decoding: FileBytes.firstLine(of: try Self.read(path, allowsNamedPipe: true)), as: UTF8.self)
        guard line.utf8.count >= Self.tokenCharacterCountMin, line.utf8.allSatisfy({ 0x21...0x7E ~= $0 }) else {
            throw CommandFailure(
                .configuration,
                "\(path): invalid token in the first line: expected \(Self.tokenCharacterCountMin) or more letters, "
                    + "digits or punctuation marks; to make one: openssl rand -hex 32 > \(path)"
            )
        }
        configuration.token = line
        return configuration
    }

    private static func read(
        _ path: String,
        allowsNamedPipe: Bool = false
    ) throws(CommandFailure) -> [UInt8] {
        do { return try FileBytes.read(path, allowsNamedPipe: allowsNamedPipe) } catch {
            throw CommandFailure(.noInput, "\(error)")
        }
    }

    /// Reads the localized strings of the app.
    private func localizedStrings() throws(CommandFailure) -> LocalizedStrings {
        guard let path = self.strings else { return [:] }
        let bytes = try Self.read(path)
        do { return try LocalizedStrings(parsing: bytes) } catch {
            throw CommandFailure(.configuration, "\(path): \(error)")
        }
    }

    /// Reads the initial faults.
    ///
    /// - Throws: `CommandFailure` with the file, the line and what is wrong.
    func plannedFaults() throws -> [PlannedFault] {
        guard let path = self.faults else { return [] }
        let bytes = try Self.read(path)
        do {
            return try FaultsFile(String(decoding: bytes, as: UTF8.self)).entries
        } catch {
            var failure = CommandFailure(.configuration, error.text(path: path))
            failure.diagnostic.place = error.line.map { .init(file: path, line: $0) }
            throw failure
        }
    }

    // MARK: Outputs

    /// Locks the file of `--announce`.
    func openAnnouncement() throws(CommandFailure) -> Announcement? {
        guard let path = self.announce else { return nil }
        do throws(FileLock.Failure) {
            return try Announcement(path)
        } catch {
            switch error {
            case .held(let holder):
                let process = holder.map { "process \($0)" } ?? "another process"
                throw CommandFailure(
                    .tryAgain,
                    "\(path) is in use by another simulator, \(process); stop it or choose another --announce path"
                )
            case .system(_, let code):
                let reason = Errno(rawValue: code)
                throw CommandFailure(.cannotCreate, "cannot write \(Announcement.lockPath(path)): \(reason)")
            }
        }
    }

    /// Writes the ports to the file of `--announce`.
    func announce(_ line: String, _ announcement: Announcement?) throws(CommandFailure) {
        do throws(Errno) {
            try announcement?.write(line)
        } catch {
            throw CommandFailure(.cannotCreate, "cannot write \(self.announce ?? ""): \(error)")
        }
    }

    /// Opens the file of `--log-notifications`.
    func openNotificationLog(
        _ emit: @escaping @Sendable (String) -> Void
    ) throws(CommandFailure) -> NotificationLog? {
        guard let path = self.logNotifications else { return nil }
        do throws(NotificationLog.Failure) {
            return try NotificationLog(path, emit: emit)
        } catch {
            switch error {
            case .inUse:
                throw CommandFailure(.tryAgain, "\(path) is in use by another process; stop it or choose another file")
            case .unwritable(let reason): throw CommandFailure(.cannotCreate, "cannot write \(path): \(reason)")
            }
        }
    }

    /// The address of the page.
    func address(port: Int) -> String {
        let host = self.controlHost.contains(":") ? "[\(self.controlHost)]" : self.controlHost
        return "http://\(host):\(port)/"
    }
}
