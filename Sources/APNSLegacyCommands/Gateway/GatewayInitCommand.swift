// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSWire
import ArgumentParser
import FileSupport
import GatewayService
import Glibc
import OpenSSLTLS

/// `apns-legacy gateway init`: writes the files of a gateway for one provider, and prints the next steps.
struct GatewayInitCommand: ConsoleCommand {
    static let configuration = CommandConfiguration(
        commandName: "init",
        abstract: "Create the certificates and the configuration of a new gateway.",
        discussion: """
            Examples:
              apns-legacy gateway init
              apns-legacy gateway init --client php --environment production \\
                  --upstream-certificate push.p12 --upstream-passphrase-file pass.txt
              apns-legacy gateway init --client java --environment sandbox \\
                  --p8-key AuthKey_ABC123DEFG.p8 --team-id TEAM123456 --topic com.example
              apns-legacy gateway init --client wallet --upstream-certificate pass.pem

            On a terminal, the command asks for what the options do not give. It creates a certificate authority with \
            its key, a certificate for Apple's host names, the provider's certificate in the format that its language \
            reads, gateway.yaml, and a line for the provider's hosts file. Then it prints what to do next on both \
            machines, which is also in NEXT-STEPS.txt. It never overwrites a file.

            The provider is known by its language, or by its kind: an MDM server (mdm), a pass server (wallet), a \
            server for mail, calendar or contacts, Safari website push (safari), an XMPP or a SIP server. The kind \
            determines the topics, and except for xmpp and sip the environment, which is production. mdm, wallet, \
            mail, calendar and contacts need --upstream-certificate.

            \(ExitStatus.list(
                [
                    .success: "done",
                    .usage: "the command line is wrong, or an option is missing and the input is no terminal",
                    .cannotCreate: "a file exists or cannot be created",
                    .configuration: "a certificate or key is not usable, or the configuration has a problem",
                ],
                .noInput, .ioError
            ))
            """
    )

    @Option(help: .value("kind", "The language or kind of the provider; decides the format of its certificate."))
    var client: ClientFamily?

    @Option(help: .value("name", "The service to deliver to. (default: from the upstream certificate)"))
    var environment: PushEnvironment?

    @Option(help: .value("bundle-id", "The app. (default: from the upstream certificate)"))
    var topic: String?

    @Option(
        help: .value("file", "Your certificate from Apple, as PEM or PKCS#12 (.p12); it is copied."),
        completion: .file()
    )
    var upstreamCertificate: String?

    @Option(
        help: .value("file", "Its private key as PEM, if it is not in the certificate's file; it is copied."),
        completion: .file()
    )
    var upstreamKey: String?

    @Option(
        help: .value("file", "A file with the passphrase of the key or .p12 in its first line; it is copied."),
        completion: .file()
    )
    var upstreamPassphraseFile: String?

    @Option(
        name: [.customLong("p8-key"), .customLong("token-key")],
        help: .value("file", "Instead of a certificate: your key from Apple (.p8); it is copied."),
        completion: .file(extensions: ["p8"])
    )
    var tokenKey: String?

    @Option(help: .value("id", "The identifier of that key. (default: from its name, AuthKey_ID.p8)"))
    var keyId: String?

    @Option(help: .value("id", "The identifier of your team at Apple, for that key."))
    var teamId: String?

    @Option(help: .value("address", "The address of this machine for the provider's machine. (default: 127.0.0.1)"))
    var host: String?

    @Option(
        help: .value(
            "folder",
            "Where to create the files; created if missing. (default: for root /etc/apns-legacy if it exists, else "
                + "apns-legacy-gateway)"
        ),
        completion: .directory
    )
    var folder: String?

    @Option(help: .value("name", "Deliver to this service instead of Apple's, such as apns-legacy simulator."))
    var upstreamHost: String?

    @Option(help: .value("port", "The port of that service. (default: 443)"))
    var upstreamPort: Int?

    @Option(
        help: .value("file", "The certificate authority of that service as PEM; it is copied."),
        completion: .file()
    )
    var upstreamTrust: String?

    @OptionGroup(title: "Output")
    package var reporting: ReportingOptions

    func validate() throws {
        if self.upstreamCertificate != nil, self.tokenKey != nil {
            throw ValidationError("--upstream-certificate and --p8-key exclude each other; use one of them")
        }
        if self.upstreamCertificate == nil, self.upstreamKey != nil || self.upstreamPassphraseFile != nil {
            throw ValidationError("--upstream-key and --upstream-passphrase-file need --upstream-certificate")
        }
        if self.tokenKey == nil, self.keyId != nil || self.teamId != nil {
            throw ValidationError("--key-id and --team-id need --p8-key")
        }
        try self.requirePort("--upstream-port", self.upstreamPort)
        if self.tokenKey != nil, let reason = self.client?.certificateReason { throw ValidationError(reason) }
        if let environment, let problem = self.client?.problem(of: environment) {
            throw ValidationError("--environment \(environment.rawValue): \(problem)")
        }
        if let topic, !Self.isTopic(topic) { throw ValidationError(Self.topicRule) }
    }

    private static let topicRule = "invalid topic: expected letters, digits, hyphens, periods and underscores"

    private static func isTopic(_ text: String) -> Bool { TopicFamily.isTopic(text) }

    /// The address for a provider on this machine.
    private static let hostDefault = "127.0.0.1"

    private static let defaultFolder = "apns-legacy-gateway"

    func run(in environment: CommandEnvironment) async throws -> ExitStatus {
        let (console, now) = (environment.console, environment.now())
        let setup = try self.setup(SetupQuestions(console), now: now)
        let folder = try await AtomicFolder.open(setup.folder, replaces: false)
        do {
            try setup.write(to: folder, now: now)
        } catch let failure as GatewaySetup.Failure {
            throw CommandFailure(.cannotCreate, Self.sentence(failure, folder: setup.folder))
        }
        environment.summary.set("folder", setup.folder)
        environment.summary.set("configuration", setup.configurationPath)
        environment.reportLine("The gateway's files are in \(setup.folder).\n")
        try environment.report(setup.steps)
        let configuration = try ResolvedConfiguration(contentsOf: setup.configurationPath, environment: [:], now: now)
        let findings = configuration.findings(now: now)
        for finding in findings { console.emit(.error("\(setup.configurationPath): \(finding)", .configuration)) }
        return findings.isEmpty ? .success : .configuration
    }

    private static func sentence(_ failure: GatewaySetup.Failure, folder: String) -> String {
        switch failure {
        case .present(let names):
            "\(folder) already has \(names.joined(separator: ", ")); nothing was changed. To keep this gateway, see "
                + "\(folder)/\(GatewaySetup.stepsName); for a new one, move these files away or name another folder "
                + "with --folder"
        case .stateFolder(let path): "cannot create \(path) for the feedback database"
        }
    }

    // MARK: Options and answers

    private func setup(_ asker: SetupQuestions, now: Int64) throws -> GatewaySetup {
        var missing: [String] = []
        let (path, credentials) = try self.credentials(asker, &missing)
        let client = try self.client(asker)
        if client == nil { missing.append("--client") }
        let example = (client ?? .other).topicExample
        let topic =
            try self.topic ?? credentials?.topic
            ?? asker.ask("Topic (bundle identifier of the app), such as \(example):") {
                try Self.require(Self.isTopic($0) ? $0 : nil, Self.topicRule)
            }
        if topic == nil { missing.append("--topic") }
        let environment =
            try self.environment ?? client?.environment ?? credentials?.environment
            ?? asker.ask("Environment: production or sandbox?") {
                try Self.require(PushEnvironment(rawValue: $0.lowercased()), "\($0) is neither production nor sandbox")
            }
        if environment == nil { missing.append("--environment") }
        let host =
            try self.host
            ?? asker.ask("Address of this machine as the provider reaches it (empty if the provider runs here):") {
                _ = $0.isEmpty ? "" : try Self.address(of: $0)
                return $0.isEmpty ? Self.hostDefault : $0
            } ?? Self.hostDefault
        guard missing.isEmpty, let credentials, let topic, let environment, let client else {
            throw CommandFailure(
                .usage,
                "missing \(missing.joined(separator: ", ")); on a terminal, gateway init asks for them"
            )
        }
        guard Self.isTopic(topic) else { throw CommandFailure(.usage, Self.topicRule) }
        if !credentials.isCertificate, let reason = client.certificateReason { throw CommandFailure(.usage, reason) }
        if let problem = client.problem(of: topic) {
            throw CommandFailure(self.topic == nil ? .configuration : .usage, "\(problem); nothing was written")
        }
        var setup = GatewaySetup(
            topic: topic,
            environment: environment,
            credentials: credentials,
            client: client,
            host: host,
            address: try Self.address(of: host),
            folder: self.folder ?? GatewaySetup.folderOfSystem ?? Self.defaultFolder
        )
        setup.upstream.host = self.upstreamHost
        setup.upstream.port = self.upstreamPort
        setup.upstream.trust = try self.upstreamTrust.map { try Self.read($0) }
        let problems = credentials.findings(path: path ?? "", topic: topic, environment: environment, now: now)
        guard let last = problems.last else { return setup }
        for problem in problems.dropLast() {
            asker.console.emit(.error("\(problem); nothing was written", .configuration))
        }
        throw CommandFailure(.configuration, "\(last); nothing was written")
    }

    /// The kind of the provider, by its option or the answer; `nil` if neither is there.
    private func client(_ asker: SetupQuestions) throws -> ClientFamily? {
        if let client = self.client { return client }
        let families = ClientFamily.allCases.map(\.rawValue).joined(separator: ", ")
        return try asker.ask("Language or kind of the provider (\(families)):") {
            try Self.require(ClientFamily(name: $0), "\($0) is not in the list; for another language, enter other")
        }
    }

    private static func address(of host: String) throws(CommandFailure) -> String {
        let reason: String
        do throws(ReachableAddress.Failure) {
            return try ReachableAddress(host: host).text
        } catch {
            switch error {
            case .notAName: throw CommandFailure(.usage, "--host \(host): neither a host name nor an IP address")
            case .notResolved: reason = "the name cannot be resolved"
            case .loopback(let address): reason = "resolves to \(address), which other machines cannot reach"
            }
        }
        let advice = "name the IP address at which the provider's machine reaches this one"
        throw CommandFailure(.usage, "--host \(host): \(reason); \(advice)")
    }

    /// - Throws: ``CommandFailure`` with the sentence if the value is `nil`.
    private static func require<Value>(_ value: Value?, _ sentence: String) throws(CommandFailure) -> Value {
        guard let value else { throw CommandFailure(.usage, sentence) }
        return value
    }

    /// Checks that a file given as an answer can be read.
    private static func readable(_ path: String) throws(CommandFailure) -> String {
        guard let file = FileIdentity(path: path) else { throw CommandFailure(.usage, "\(path): no such file") }
        guard unsafe !file.isFolder && access(path, R_OK) == 0 else {
            throw CommandFailure(.usage, "\(path): cannot be read")
        }
        return path
    }

    private static func read(_ path: String, allowsNamedPipe: Bool = false) throws -> [UInt8] {
        do {
            return try FileBytes.read(path, allowsNamedPipe: allowsNamedPipe)
        } catch {
            throw CommandFailure(.noInput, "\(error)")
        }
    }

    // MARK: Credentials

    /// Returns the file of the credentials, and the credentials with what the options and answers add.
    private func credentials(
        _ asker: SetupQuestions,
        _ missing: inout [String]
    ) throws -> (path: String?, UpstreamCredentials?) {
        if let path = self.upstreamCertificate { return (path, try self.certificate(path, asker)) }
        if let path = self.tokenKey { return (path, try self.token(path, asker, &missing)) }
        let path = try asker.ask("File from Apple: a certificate (.p12 or .pem) or a key (.p8):") {
            try Self.readable($0)
        }
        guard let path else {
            missing.append("--upstream-certificate or --p8-key")
            return (nil, nil)
        }
        if (try? ES256PrivateKey(contentsOf: path)) != nil, path.hasSuffix(".p8") {
            return (path, try self.token(path, asker, &missing))
        }
        return (path, try self.certificate(path, asker))
    }

    private func certificate(_ path: String, _ asker: SetupQuestions) throws -> UpstreamCredentials {
        let bytes = try Self.read(path)
        var key = try self.upstreamKey.map { try Self.read($0) }
        var passphrase = try self.upstreamPassphraseFile.map { path in
            Array(FileBytes.firstLine(of: try Self.read(path, allowsNamedPipe: true)))
        }
        while true {
            do throws(TLSError) {
                return try UpstreamCredentials(certificate: bytes, key: key, passphrase: passphrase)
            } catch {
                switch error {
                case .passphraseMissing, .passphraseWrong:
                    let what = passphrase == nil ? "Passphrase of \(path):" : "Wrong passphrase. Passphrase of \(path):"
                    guard let answer = asker.askSecret(what) else {
                        let problem = passphrase == nil ? "the private key is encrypted" : "wrong passphrase"
                        throw CommandFailure(
                            .configuration,
                            "\(path): \(problem); name the file of its passphrase with --upstream-passphrase-file"
                        )
                    }
                    passphrase = answer
                case .keyMissing where key == nil:
                    let answer = try asker.ask("File of its private key:") { try Self.readable($0) }
                    guard let answer else {
                        throw CommandFailure(
                            .configuration,
                            "\(path) has no private key; name the key's file with --upstream-key"
                        )
                    }
                    key = try Self.read(answer)
                default: throw CommandFailure(.configuration, "\(path): \(error)")
                }
            }
        }
    }

    private func token(
        _ path: String,
        _ asker: SetupQuestions,
        _ missing: inout [String]
    ) throws -> UpstreamCredentials? {
        let bytes = try Self.read(path)
        do throws(TLSError) {
            _ = try ES256PrivateKey(bytes: bytes)
        } catch {
            throw CommandFailure(.configuration, "\(path): \(error)")
        }
        func ask(_ kind: String) throws -> String? {
            try asker.ask("\(kind) identifier (10 letters and digits):") {
                try Self.require(UpstreamCredentials.isIdentifier($0) ? $0 : nil, "expected 10 letters and digits")
            }
        }
        let key = try self.keyId ?? UpstreamCredentials.keyID(inPath: path) ?? ask("Key")
        if key == nil { missing.append("--key-id") }
        let team = try self.teamId ?? ask("Team")
        if team == nil { missing.append("--team-id") }
        guard let key, let team else { return nil }
        guard [key, team].allSatisfy(UpstreamCredentials.isIdentifier) else {
            throw CommandFailure(.usage, "--key-id and --team-id: expected 10 letters and digits")
        }
        return UpstreamCredentials(key: bytes, keyID: key, teamID: team)
    }
}

/// Asks for values that are not given as options.
private struct SetupQuestions {
    let console: Console

    init(_ console: Console) { self.console = console }

    /// How often a question is repeated after an invalid answer.
    private static let attemptCountMax = 5

    /// Asks until the answer is valid.
    ///
    /// Returns `nil` if the input is not a terminal.
    ///
    /// - Throws: ``CommandFailure`` if no answer was valid.
    func ask<Answer>(_ question: String, _ read: (String) throws -> Answer) throws -> Answer? {
        guard self.console.isInteractive else { return nil }
        for _ in 0..<Self.attemptCountMax {
            guard let text = self.console.ask(question) else { break }
            do { return try read(text) } catch let failure as CommandFailure { self.console.emit(failure.description) }
        }
        throw CommandFailure(.usage, "no valid answer to: \(question)")
    }

    /// Asks for a secret.
    ///
    /// Returns `nil` if the input is not a terminal, or ends.
    func askSecret(_ question: String) -> [UInt8]? {
        self.console.isInteractive ? self.console.askSecret(question) : nil
    }
}

extension ClientFamily: ExpressibleByArgument {
    /// Parses the name of a language.
    public init?(argument: String) { self.init(name: argument) }
}
