// SPDX-License-Identifier: Apache-2.0

package import APNSGateway
import APNSProviderHTTP2
import APNSSession
package import APNSTransport
package import APNSWire
package import OpenSSLTLS
package import TokenStore

extension ResolvedConfiguration {
    /// Returns a description of the gateway in lines for people.
    package func summary(now: Int64) -> [String] {
        let listen = self.file.listen
        func place(_ host: String, _ port: Int) -> String {
            port == 0 ? "any free port of \(host)" : "\(Endpoint(host: host, port: port))"
        }
        let (lowest, highest) = (listen.tlsMinimum, listen.tlsMaximum)
        let versions = lowest == highest ? "\(lowest)" : "\(lowest) to \(highest)"
        let certificate = self.identity.certificate
        let names = certificate.hostNames.joined(separator: ", ")
        var lines = [
            "listens on \(place(listen.host, listen.port)), "
                + "for feedback on \(place(listen.host, listen.feedbackPort)); \(versions)",
            "server certificate \(self.file.server.certificate): for \(names); \(Self.validity(certificate, now))",
            "metrics and health: " + (self.file.admin.map { place($0.host, $0.port) } ?? "off"),
            "feedback database \(self.file.feedback)",
        ]
        if let store = self.file.store { lines.append("shared database \(store)") }
        if let outcomes = self.file.outcomes {
            let tokens = outcomes.tokens == .plain ? "tokens" : "digests of tokens"
            let kinds = outcomes.include == .all ? "all outcomes" : "failures"
            lines.append("\(kinds) in \(outcomes.folder), with \(tokens)")
            if let webhook = outcomes.webhook { lines.append("webhook \(webhook.url)") }
        }
        for provider in self.providers { lines += provider.summary(now: now) }
        return lines
    }

    fileprivate static func validity(_ certificate: TLSCertificate, _ now: Int64) -> String {
        let days = (certificate.notAfter - now) / 86_400
        return "\(days) day\(days == 1 ? "" : "s") left, until \(TimeText(seconds: certificate.notAfter).text)"
    }
}

extension ResolvedConfiguration.Provider {
    fileprivate func summary(now: Int64) -> [String] {
        let file = self.file
        var ways: [String] = []
        if let authority = file.authority { ways.append("certificates that \(authority) issued") }
        if !file.pins.isEmpty {
            ways.append("\(file.pins.count) certificate\(file.pins.count == 1 ? "" : "s") by fingerprint")
        }
        let topic = file.topic ?? "the topic of its certificate"
        let credentials: String
        switch file.service.credentials {
        case .certificate(let identity):
            let validity = self.push.tls.identity.map { ResolvedConfiguration.validity($0.certificate, now) }
            credentials = "certificate \(identity.certificate); \(validity ?? "")"
        case .providerToken(let path, let keyID, let teamID):
            credentials = "key \(path), key ID \(keyID), team ID \(teamID)"
        }
        return [
            "provider \(file.name): \(topic), \(file.environment.rawValue); admits \(ways.joined(separator: " and "))",
            "  rejections: \(file.rejections.rawValue)" + (file.spool.map { ", stored in \($0)" } ?? ""),
            "  sends to \(self.push.endpoint) with \(credentials)",
        ]
    }
}

extension ResolvedConfiguration {
    /// Finds the provider that a certificate belongs to.
    ///
    /// Returns the name of the provider, or why there is none.
    package func admission(
        of certificate: TLSCertificate,
        intermediates: [TLSCertificate],
        now: Int64
    ) -> (provider: String?, problem: String?) {
        var reasons: [String] = []
        for provider in self.providers {
            let refusal = provider.admission.refusal(of: certificate, intermediates: intermediates, now: now)
            guard let refusal else { return (provider.file.name, nil) }
            reasons.append("provider \(provider.file.name): \(refusal)")
        }
        return (nil, reasons.joined(separator: "; "))
    }

    /// Checks the certificates with which a gateway with the same database has admitted providers.
    ///
    /// Returns their number, and a line for each one that this configuration does not admit but the running one does,
    /// if there is one; `nil` if there is no database, or one of a release that stored none. The database is that of
    /// the configuration, unless a running gateway uses another one.
    ///
    /// - Throws: an error if the database cannot be read.
    package func checkStoredCertificates(
        now: Int64,
        running: Self? = nil,
        database: String? = nil
    ) throws(GatewayStoreError) -> (count: Int, problems: [String])? {
        let path = database ?? self.file.feedback
        guard let stored = try StoredCertificate.read(fromDatabase: path, now: now) else { return nil }
        // Providers that are kept out are refusals already.
        let refused = Set(self.refusals.filter { !$0.hasOld }.compactMap(\.provider))
        let certificates = stored.filter { !refused.contains($0.provider) }
        let admitted = certificates.filter { running?.problem(of: $0, now) == nil }
        return (certificates.count, admitted.compactMap { self.problem(of: $0, now) })
    }

    private func problem(of stored: StoredCertificate, _ now: Int64) -> String? {
        let place = "provider \(stored.provider): the certificate"
        let date = TimeText(seconds: stored.admittedAt).text.prefix(10)
        let chain = stored.chain.compactMap { try? TLSCertificate(der: $0) }
        guard chain.count == stored.chain.count, let certificate = chain.first,
            certificate.fingerprint == stored.fingerprint
        else {
            return "\(place) with the fingerprint \(stored.fingerprint), last admitted on \(date), is damaged in the "
                + "feedback database; to check it, use --provider-certificate"
        }
        let intermediates = Array(chain.dropFirst())
        guard let problem = self.admission(of: certificate, intermediates: intermediates, now: now).problem else {
            return nil
        }
        let reason =
            self.providers.first { $0.file.name == stored.provider }?
            .admission.refusal(of: certificate, intermediates: intermediates, now: now) ?? problem
        return "\(place) \(certificate.subject) with the fingerprint \(stored.fingerprint), last admitted on \(date), "
            + "will not be admitted: \(reason)"
    }

    /// What a test of a running gateway needs.
    package struct TestTarget: Sendable {
        /// The provider's name.
        package var name: String
        /// The address of the gateway.
        package var endpoint: Endpoint
        /// The service for this provider.
        package var environment: PushEnvironment
        /// Whether the provider receives error responses for rejections.
        package var reportsRejections: Bool
        /// The authorities of the provider's certificate; `nil` if only fingerprints are configured.
        package var authority: String?
        /// The host names of the gateway's certificate.
        package var serverNames: [String]
        /// The newest version of TLS that the gateway accepts.
        package var tlsMaximum: TLSVersion
        /// The address of the metrics; `nil` if there is none, or if the system chooses the port.
        package var admin: Endpoint?
        /// The certificates to admit.
        package var admission: AdmissionRule
    }

    /// Returns what a test needs for a provider.
    package func testTarget(of name: String?) -> TestTarget? {
        guard let provider = self.providers.first(where: { name == nil || $0.file.name == name }) else { return nil }
        let listen = self.file.listen
        // A wildcard address cannot be connected to.
        func reachable(_ host: String) -> String { host == "0.0.0.0" ? "127.0.0.1" : host == "::" ? "::1" : host }
        let admin = self.file.admin.flatMap {
            $0.port == 0 ? nil : Endpoint(host: reachable($0.host), port: $0.port)
        }
        return TestTarget(
            name: provider.file.name,
            endpoint: Endpoint(host: reachable(listen.host), port: listen.port),
            environment: provider.file.environment,
            reportsRejections: provider.file.rejections == .report,
            authority: provider.file.authority,
            serverNames: self.identity.certificate.hostNames,
            tlsMaximum: listen.tlsMaximum,
            admin: admin,
            admission: provider.admission
        )
    }
}
