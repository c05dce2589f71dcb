// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Batch
import FileSupport
import GatewayService
import Glibc
import NIOConcurrencyHelpers
import OpenSSLTLS
import SystemPackage

/// The option of a command that can write metrics.
struct MetricsFileOptions: ParsableArguments, Sendable {
    @Option(
        help: .value("file.prom", "Write metrics to this file at the end, for node_exporter's textfile collector."),
        completion: .file(extensions: ["prom"])
    )
    var metricsFile: String?

    /// Runs a command, and writes the file if there is one and this is no dry run.
    ///
    /// The exit codes of a complete run are `successes`.
    func record(
        in environment: CommandEnvironment,
        isDryRun: Bool = false,
        successes: Set<ExitStatus> = [.success],
        _ body: () async throws -> ExitStatus
    ) async throws -> ExitStatus {
        guard let metricsFile, !isDryRun else { return try await body() }
        return try await MetricsFile(metricsFile, command: environment.console.command).record(
            in: environment,
            successes: successes,
            body
        )
    }
}

/// The metrics of a command run, for the textfile collector of node_exporter, which serves all files in a folder whose
/// names end with ".prom".
///
/// The file is replaced atomically, and every user may read it.
struct MetricsFile: Sendable {
    /// How each of these files begins.
    private static let start = "# HELP apns_legacy_"
    private static let lastSuccess = "apns_legacy_job_last_success_timestamp_seconds"

    private let path: String
    private let labels: [(String, String)]

    /// Prepares a file.
    ///
    /// - Throws: `CommandFailure` if the file could not be created at the end.
    init(_ path: String, command: String) throws(CommandFailure) {
        self.path = path
        let slash = path.lastIndex(of: "/")
        let name = slash.map { path[path.index(after: $0)...] } ?? path[...]
        guard name.hasSuffix(".prom"), name.utf8.count > ".prom".utf8.count else {
            throw CommandFailure(.usage, "--metrics-file: the name must end with .prom, or Prometheus does not read it")
        }
        // Several files are served together, and no two of them may contain the same series.
        self.labels = [("command", command), ("name", String(name.dropLast(".prom".count)))]
        let folder = slash.map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
        guard unsafe access(folder, W_OK | X_OK) == 0 else { throw self.failure(Errno(rawValue: errno)) }
        guard self.isReplaceable else {
            throw CommandFailure(
                .cannotCreate,
                "--metrics-file: \(path.printable()) exists and has no metrics; choose another name, or remove it"
            )
        }
    }

    /// Whether there is no file, or one with metrics: the option may name a file of the same command by mistake.
    private var isReplaceable: Bool {
        guard FileIdentity(path: self.path) != nil else { return true }
        return (try? FileBytes.read(self.path)).map { $0.isEmpty || $0.starts(with: Self.start.utf8) } ?? false
    }

    /// Runs a command, and writes the file regardless of its result.
    ///
    /// Returns the exit code of the command, or, if it succeeded, that of writing the file.
    ///
    /// - Throws: what the command throws.
    func record(
        in environment: CommandEnvironment,
        successes: Set<ExitStatus> = [.success],
        _ body: () async throws -> ExitStatus
    ) async throws -> ExitStatus {
        let (start, startedAt) = (ContinuousClock.now, environment.now())
        let result: Result<ExitStatus, any Error>
        do { result = .success(try await body()) } catch { result = .failure(error) }
        let status = (try? result.get()) ?? Self.status(result)
        let endedAt = environment.now()
        func sample(_ name: String, _ value: Double) -> GatewayMetrics.Sample {
            GatewayMetrics.Sample(name: "apns_legacy_job_\(name)", value: value)
        }
        let lastSuccess = successes.contains(status) ? Double(endedAt) : self.lastSuccess
        let all = [
            sample("start_timestamp_seconds", Double(startedAt)), sample("end_timestamp_seconds", Double(endedAt)),
            sample("duration_seconds", (ContinuousClock.now - start) / .seconds(1)),
            sample("exit_code", Double(status.rawValue)), sample("last_success_timestamp_seconds", lastSuccess),
        ]
        do {
            try self.write(all + environment.samples.withLockedValue { $0 })
        } catch {
            environment.console.emit(error.diagnostic)
            if case .success(let status) = result, successes.contains(status) { return error.status }
        }
        return try result.get()
    }

    private static func status(_ result: Result<ExitStatus, any Error>) -> ExitStatus {
        guard case .failure(let error) = result else { return .success }
        return CommandFailure(error).status
    }

    /// The time of the last successful run, from the previous file; 0 if it has none.
    private var lastSuccess: Double {
        let text = String(decoding: (try? FileBytes.read(self.path)) ?? [], as: UTF8.self)
        let line = text.split(separator: "\n").first { $0.hasPrefix(Self.lastSuccess + "{") }
        return line?.split(separator: " ").last.flatMap { Double($0) } ?? 0
    }

    private func write(_ samples: [GatewayMetrics.Sample]) throws(CommandFailure) {
        let labeled = samples.map { sample in
            var sample = sample
            sample.dimensions = self.labels + sample.dimensions
            return sample
        }
        let text = GatewayMetrics().text(with: labeled)
        do throws(Errno) {
            try AtomicFile.write(Array(text.utf8), to: self.path, mode: FileMode.shared, replaces: true)
        } catch {
            throw self.failure(error)
        }
    }

    private func failure(_ error: Errno) -> CommandFailure {
        CommandFailure(.cannotCreate, "cannot write \(self.path): \(error)")
    }
}
