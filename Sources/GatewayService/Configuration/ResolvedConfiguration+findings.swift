// SPDX-License-Identifier: Apache-2.0

import APNSProviderHTTP2
import APNSServer
import APNSWire
import Glibc
import OpenSSLTLS

extension ResolvedConfiguration {
    /// The dotted number of the extension with a certificate's alternative names.
    private static let alternativeNames = "2.5.29.17"

    /// What an SQLite database begins with.
    private static let databaseStart = Array("SQLite format 3\0".utf8)

    /// Finds what lets the gateway start, but keeps notifications or feedback from passing.
    ///
    /// - Parameter now: the time in seconds since 1970 (UTC).
    /// - Returns: the server's, then those of each provider in the order of the file.
    package func findings(now: Int64) -> [ConfigurationFinding] {
        var findings = self.serverFindings(now)
        findings += Self.databaseFindings(self.file.feedback)
        for provider in self.providers { findings += provider.findings(now) }
        return findings
    }

    private func serverFindings(_ now: Int64) -> [ConfigurationFinding] {
        let (certificate, path) = (self.identity.certificate, self.file.server.certificate)
        var findings: [ConfigurationFinding] = []
        if let sentence = Self.validitySentence(certificate, now, refusing: "providers that verify it refuse it") {
            findings.append(ConfigurationFinding(key: "server.certificate", value: path, sentence: sentence))
        }
        if certificate.extensions[Self.alternativeNames] == nil {
            findings.append(
                ConfigurationFinding(
                    key: "server.certificate",
                    value: path,
                    sentence: "the certificate has no subject alternative name (SAN), so most providers that verify it "
                        + "refuse it. Issue one for the host names that they connect to, such as gateway.push.apple.com"
                )
            )
        }
        return findings
    }

    /// What is wrong with the validity of a certificate, and what to do; `nil` where nothing is.
    fileprivate static func validitySentence(
        _ certificate: TLSCertificate,
        _ now: Int64,
        refusing: String
    ) -> String? {
        func text(_ seconds: Int64) -> String { TimeText(seconds: seconds).text }
        if certificate.isExpired(at: now) {
            return "the certificate expired on \(text(certificate.notAfter)), so \(refusing). Replace it"
        }
        if now < certificate.notBefore {
            return "the certificate is not valid before \(text(certificate.notBefore)), so \(refusing) until then. "
                + "Check the clock of this machine, or replace it"
        }
        return nil
    }

    private static func databaseFindings(_ path: String) -> [ConfigurationFinding] {
        func finding(_ sentence: String) -> [ConfigurationFinding] {
            [ConfigurationFinding(key: "feedback", value: path, sentence: sentence)]
        }
        let folder = path.lastIndex(of: "/").map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
        var facts = stat()
        guard unsafe stat(folder, &facts) == 0 else {
            let reason = unsafe String(cString: strerror(errno))
            return finding("the folder \(folder) cannot be used (\(reason)). Create it, or correct the path")
        }
        guard facts.st_mode & S_IFMT == S_IFDIR else {
            return finding("\(folder) is not a folder. Correct the path")
        }
        // SQLite makes files beside the database, too.
        guard unsafe access(folder, W_OK | X_OK) == 0 else {
            return finding("this user cannot write to the folder \(folder). Change its owner, or its permissions")
        }
        guard unsafe stat(path, &facts) == 0 else { return [] }
        guard facts.st_mode & S_IFMT != S_IFDIR else { return finding("this is a folder. Name a file in it") }
        guard unsafe access(path, R_OK | W_OK) == 0, let start = Self.start(of: path) else {
            return finding("this user cannot read and write the file. Change its owner, or its permissions")
        }
        guard start.isEmpty || start == Self.databaseStart else {
            return finding("the file is not an SQLite database. Name another one; it is created if missing")
        }
        return []
    }

    /// The first bytes of a file, as many as tell what it is; `nil` where it cannot be read.
    private static func start(of path: String) -> [UInt8]? {
        // Not to wait for the other end of a pipe.
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: Self.databaseStart.count)
        let count = unsafe bytes.withUnsafeMutableBytes { unsafe read(descriptor, $0.baseAddress, $0.count) }
        return count < 0 ? nil : Array(bytes.prefix(count))
    }
}

extension ResolvedConfiguration.Provider {
    fileprivate func findings(_ now: Int64) -> [ConfigurationFinding] {
        guard case .certificate(let file) = self.file.service.credentials,
            let certificate = self.push.tls.identity?.certificate
        else { return [] }
        var findings: [ConfigurationFinding] = []
        func add(_ key: String, _ value: String, _ sentence: String) {
            let key = "provider \(self.file.name): \(key)"
            findings.append(ConfigurationFinding(key: key, value: value, sentence: sentence))
        }
        let refusing = "the service refuses what this provider sends"
        if let sentence = ResolvedConfiguration.validitySentence(certificate, now, refusing: refusing) {
            add("upstream.certificate", file.certificate, sentence)
        }
        let identity = ProviderIdentity(certificate)
        if let topic = self.file.topic, !identity.topics.isEmpty, !identity.topics.contains(topic) {
            let topics = identity.topics.joined(separator: ", ")
            add(
                "topic",
                topic,
                "the upstream certificate \(file.certificate) is for \(topics), so \(refusing). Use a certificate for "
                    + "this topic, or correct the topic"
            )
        }
        // A certificate that says neither is not one of Apple's.
        if identity.isForSandbox != identity.isForProduction,
            identity.isForSandbox != (self.file.environment == .sandbox)
        {
            add(
                "environment",
                self.file.environment.rawValue,
                "the upstream certificate \(file.certificate) is for the other environment, so \(refusing). Use a "
                    + "certificate for this environment, or correct the environment"
            )
        }
        return findings
    }
}
