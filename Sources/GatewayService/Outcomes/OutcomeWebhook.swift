// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSTransport
import APNSWire
import CoreMetrics
import Glibc
import Logging
import NIOCore
import NIOHTTP1
import OpenSSLTLS

/// Sends the outcomes of an ``OutcomeLog`` to an HTTP server of the operator.
///
/// The requests are signed as the specification Standard Webhooks describes, if there is a secret.
struct OutcomeWebhook: Sendable {
    private static let bodyByteCountMax = 1 << 20
    private static let base64Prefix = "whsec_"
    private static let secretByteCountMin = 16

    private let url: WebhookURL
    private let exchange: HTTPExchange
    /// The key of the signatures; `nil` for none.
    private let secret: [UInt8]?
    private let countMax: Int
    private let version: String
    private let backoff: Backoff
    private let logger: Logger
    private let requests = ["accepted", "refused", "failed"].map {
        Counter(label: "apns.legacy.outcomes.webhook.requests", dimensions: [("result", $0)])
    }

    /// Reads the files that the settings name.
    ///
    /// - Throws: ``GatewayFailure/configuration(_:)``, which names the key.
    init(
        _ options: GatewayFile.Webhook,
        version: String,
        backoff: Backoff = WebhookStateMachine.backoff,
        logger: Logger
    ) throws(GatewayFailure) {
        guard let url = WebhookURL(options.url) else {
            throw .configuration("url: \(options.url): \(WebhookURL.expectation)")
        }
        self.url = url
        self.countMax = options.batch
        self.version = version
        self.backoff = backoff
        self.logger = logger
        var exchange = HTTPExchange(
            endpoint: url.endpoint,
            timeout: options.timeout,
            bodyByteCountMax: Self.bodyByteCountMax
        )
        do throws(TLSError) {
            self.secret = try options.secretFile.map { path throws(TLSError) in
                Array(FileBytes.firstLine(of: try FileBytes.read(path)))
            }
            if url.isSecure {
                let trust = options.trust.map { TLSTrust.file($0) } ?? .system
                exchange.opener = try ConnectionOpener(
                    endpoint: url.endpoint,
                    role: .server,
                    proxy: nil,
                    tls: .client(identity: nil, trust: trust),
                    connectTimeout: options.timeout,
                    keepaliveDelay: nil
                )
            }
        } catch {
            throw .configuration("\(error)")
        }
        self.exchange = exchange
        if let secret {
            let key = Self.key(secret)
            guard let key, key.count >= Self.secretByteCountMin else {
                let sentence = "expected at least \(Self.secretByteCountMin) bytes, or whsec_ followed by base64"
                throw .configuration("\(options.secretFile ?? ""): \(sentence)")
            }
        }
    }

    /// The key in a secret, which is base64 if it begins as Standard Webhooks prescribes.
    private static func key(_ secret: [UInt8]) -> [UInt8]? {
        let text = String(decoding: secret, as: UTF8.self)
        guard text.hasPrefix(Self.base64Prefix) else { return secret }
        let digits = text.dropFirst(Self.base64Prefix.count)
        guard Base64.isText(digits) else { return nil }
        let unpadded = digits.filter { $0 != "=" }
        return Base64.bytes(addressText: String(unpadded.map { $0 == "+" ? "-" : $0 == "/" ? "_" : $0 }))
    }

    // MARK: Sending

    /// Sends outcomes until the task is cancelled.
    func run(_ log: OutcomeLog) async {
        var machine = WebhookStateMachine(position: log.status.position, countMax: self.countMax, backoff: self.backoff)
        var batch: OutcomeLog.Batch?
        var additions = log.additions.makeAsyncIterator()
        while !Task.isCancelled {
            switch machine.next(lastNumber: log.status.lastNumber) {
            case .wait: await additions.next()
            case .pause(let duration): try? await Task.sleep(for: duration)
            case .read(let number, let countMax):
                let lastNumber = log.status.lastNumber
                do {
                    batch = try await log.read(after: number, countMax: countMax)
                    machine.read(batch?.lastNumber, count: batch?.count ?? 0, lastNumber: lastNumber)
                } catch {
                    machine.readFailed(jitter: .random(in: 0...1))
                    self.report(machine, "cannot read the outcomes: \(error)")
                }
            case .send:
                guard let batch else { return }
                let (response, reason) = await self.send(batch)
                guard !Task.isCancelled else { return }
                let isAccepted = machine.responded(response, jitter: .random(in: 0...1))
                if !isAccepted { self.report(machine, reason) }
            case .store(let position):
                let failureCount = machine.failureCount
                do {
                    try await log.store(position: position)
                    machine.stored(true, jitter: 0)
                    if failureCount > 0 { self.logger.notice("webhook accepts outcomes again") }
                } catch {
                    machine.stored(false, jitter: .random(in: 0...1))
                    self.report(machine, "cannot write its position: \(error)")
                }
            }
        }
    }

    /// Logs the first failure of several.
    private func report(_ machine: WebhookStateMachine, _ reason: String) {
        guard machine.failureCount == 1 else { return }
        self.logger.error(
            "outcomes not sent to the webhook; trying again until it accepts them",
            metadata: [LogKey.endpoint: "\(self.url.endpoint)", LogKey.failure: "\(reason)"]
        )
    }

    private func send(_ batch: OutcomeLog.Batch) async -> (response: WebhookStateMachine.Response, reason: String) {
        do {
            let response = try await self.exchange.response(
                .POST,
                self.url.path,
                headers: self.headers(of: batch, seconds: Int64(time(nil))),
                body: ByteBuffer(bytes: batch.body)
            )
            let isAccepted = (200...299).contains(response.status)
            self.requests[isAccepted ? 0 : 1].increment()
            let seconds = response.headers.first(name: "retry-after").flatMap { UInt32($0) }
            return (
                .status(response.status, retryAfter: seconds.map { .seconds(Int64($0)) }),
                "it answered with status \(response.status)"
            )
        } catch {
            self.requests[2].increment()
            return (.none, "\(error)")
        }
    }

    /// The headers of a request with a batch.
    func headers(of batch: OutcomeLog.Batch, seconds: Int64) -> HTTPHeaders {
        // The same for each attempt of this process; after a restart, a batch may begin or end elsewhere.
        let identifier = "outcomes-\(batch.firstNumber)-\(batch.lastNumber)"
        var headers: HTTPHeaders = [
            "host": self.url.host, "user-agent": "apns-legacy/\(self.version)", "content-type": "application/json",
            "webhook-id": identifier, "webhook-timestamp": "\(seconds)",
        ]
        if let secret, let key = Self.key(secret) {
            let code = SHA256.authenticationCode(Array("\(identifier).\(seconds).".utf8) + batch.body, key: key)
            headers.add(name: "webhook-signature", value: "v1,\(Base64.text(code))")
        }
        return headers
    }
}

/// The address of a webhook.
struct WebhookURL: Hashable, Sendable {
    /// What a valid address looks like.
    static let expectation = "expected https://HOST[:PORT][/PATH], or http:// for a server on this machine"

    var isSecure: Bool
    var endpoint: Endpoint
    /// The path and the query.
    var path: String
    /// The value of the header `Host`.
    var host: String

    /// Reads an address; `nil` if it is not one of HTTP, or contains a user name or a fragment.
    init?(_ text: String) {
        let schemes = [("https://", true, 443), ("http://", false, 80)]
        guard let (scheme, isSecure, port) = schemes.first(where: { text.hasPrefix($0.0) }) else { return nil }
        let isPrintable = text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F }
        guard isPrintable, !text.contains("#") else { return nil }
        let rest = text.dropFirst(scheme.count)
        let authority = rest.prefix { $0 != "/" && $0 != "?" }
        guard !authority.isEmpty, !authority.contains("@") else { return nil }
        let path = rest.dropFirst(authority.count)
        self.isSecure = isSecure
        self.path = path.hasPrefix("/") ? String(path) : "/\(path)"
        self.host = String(authority)
        var name = authority
        var number = port
        // The colons of an IPv6 address are in brackets.
        if let colon = authority.lastIndex(of: ":"), !authority.hasSuffix("]") {
            guard let value = UInt16(authority[authority.index(after: colon)...]), value > 0 else { return nil }
            (name, number) = (authority[..<colon], Int(value))
        }
        if name.hasPrefix("["), name.hasSuffix("]") { name = name.dropFirst().dropLast() }
        guard !name.isEmpty, !name.contains("["), !name.contains("]") else { return nil }
        self.endpoint = Endpoint(host: String(name), port: number)
    }
}
