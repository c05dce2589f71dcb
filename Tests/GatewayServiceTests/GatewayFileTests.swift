// SPDX-License-Identifier: Apache-2.0

import APNSGateway
import APNSProviderHTTP2
import APNSSession
import APNSWire
import Logging
import OpenSSLTLS
import ServiceSupport
import Testing

@testable import GatewayService

/// Goal: a configuration is read as intended, and each error names its key and its line.
@Suite struct GatewayFileTests {
    private static let shortest = """
        server:
          certificate: server.pem
        feedback: feedback.sqlite
        providers:
          - name: shop
            clients:
              authority: clients.pem
            environment: production
            upstream:
              certificate: push.p12
              passphraseFile: secret
        """

    @Test func `the shortest configuration has the defaults`() throws {
        let file = try GatewayFile(yaml: Self.shortest)
        #expect(file.listen == GatewayFile.Listen())
        #expect(file.limits == GatewayFile.Limits())
        #expect(file.admin == GatewayFile.Admin())
        #expect(file.admin?.host == "127.0.0.1")
        #expect(file.server == GatewayFile.Identity(certificate: "server.pem"))
        let provider = try #require(file.providers.first)
        #expect(provider.name == "shop")
        #expect(provider.topic == nil)
        #expect(provider.payloadLimit == 2048)
        #expect(provider.retries == RetryRules())
        #expect(
            provider.service.credentials
                == .certificate(GatewayFile.Identity(certificate: "push.p12", passphraseFile: "secret"))
        )
    }

    @Test func `all keys are read`() throws {
        let digits = String(repeating: "AB:", count: 31) + "AB"
        let file = try GatewayFile(
            yaml: """
                listen: {host: 0.0.0.0, port: 1, feedbackPort: 2, tlsMinimum: "1.0", tlsMaximum: "1.3", ciphers: ALL}
                limits: {connections: 5, handshake: 500ms, idle: 1h, inFlightPerConnection: 7, shutdown: 1m}
                admin: off
                log: debug
                server: {certificate: a, key: b}
                feedback: f
                providers:
                  - name: one
                    clients:
                      authority: ca
                      revocations: crl
                      pins: [{fingerprint: "\(digits)", allowExpired: true}]
                    topic: com.example.one
                    environment: sandbox
                    upstream:
                      {p8: k, keyID: ABCDEFGHIJ, teamID: KLMNOPQRST, host: h, port: 2197, trust: t, connections: 3}
                    payloadLimit: 4096
                    rejections: ignore
                    rejectedToFeedback: true
                    spool: s
                    limits: {inFlight: 10, remembered: 20, rememberedFor: 30s, spoolSize: 1048576, spoolAge: 1h}
                    retry: {budget: 2m, first: 1s, longest: 5s, atMostOnce: true}
                    overrides:
                      {pushType: none, passPushType: background, priority: 5, lifetime: 1h, relativeExpiry: 30d}
                """
        )
        #expect(file.listen.port == 1 && file.listen.tlsMinimum == .tls1_0 && file.listen.tlsMaximum == .tls1_3)
        #expect(file.limits.handshake == .milliseconds(500) && file.limits.shutdown == .seconds(60))
        #expect(file.admin == nil)
        #expect(file.logLevel == .debug)
        let provider = try #require(file.providers.first)
        #expect(provider.pins == [.init(fingerprint: String(repeating: "ab", count: 32), allowsExpired: true)])
        #expect(provider.service.port == 2197 && provider.service.connections == 3)
        #expect(
            provider.service.credentials
                == .providerToken(key: "k", keyID: "ABCDEFGHIJ", teamID: "KLMNOPQRST")
        )
        #expect(provider.retries.budget == .seconds(120) && provider.retries.givesUpUnknownUnkept)
        #expect(provider.requests.pushType == .omitted && provider.requests.passPushType == .background)
        #expect(provider.requests.lifetime == .seconds(3600))
        #expect(provider.requests.relativeExpiryMax == .seconds(30 * 86_400))
        #expect(provider.rejections == .ignore && provider.rejectedToFeedback)
        #expect(provider.spool == "s" && provider.spoolByteCount == 1 << 20 && provider.spoolAge == .seconds(3600))
        #expect(provider.rememberedCount == 20 && provider.rememberedDuration == .seconds(30))
    }

    struct Fault: CustomTestStringConvertible, Sendable {
        var testDescription: String
        /// The replacement in the shortest configuration.
        var change: (String, String)
        var line: Int?
        var key: String
    }

    static let faults: [Fault] = [
        Fault(testDescription: "unknown key", change: ("feedback: f", "feedbak: f"), line: 3, key: "feedbak"),
        Fault(
            testDescription: "unknown inner key",
            change: ("  certificate: server.pem", "  certificat: server.pem"),
            line: 2,
            key: "server.certificat"
        ),
        Fault(
            testDescription: "the same port twice",
            change: ("providers:", "listen: {port: 5, feedbackPort: 5}\nproviders:"),
            line: 4,
            key: "listen"
        ),
        Fault(
            testDescription: "rejectedToFeedback with reported rejections",
            change: ("environment: production", "environment: production\n    rejectedToFeedback: true"),
            line: 9,
            key: "providers[0].rejectedToFeedback"
        ),
        Fault(
            testDescription: "a spool with reported rejections",
            change: ("environment: production", "environment: production\n    spool: folder"),
            line: 9,
            key: "providers[0].spool"
        ),
        Fault(
            testDescription: "a URL as the host of the service",
            change: ("passphraseFile: secret", "host: https://localhost"),
            line: 11,
            key: "providers[0].upstream.host"
        ),
        Fault(
            testDescription: "a host with a port",
            change: ("passphraseFile: secret", "host: \"localhost:443\""),
            line: 11,
            key: "providers[0].upstream.host"
        ),
        Fault(
            testDescription: "a push type in upper case",
            change: ("    environment:", "    overrides: {pushType: Alert}\n    environment:"),
            line: 8,
            key: "providers[0].overrides.pushType"
        ),
        Fault(
            testDescription: "wrong word",
            change: ("production", "prod"),
            line: 8,
            key: "providers[0].environment"
        ),
        Fault(
            testDescription: "no certificates to admit",
            change: ("authority: clients.pem", "pins: []"),
            line: 7,
            key: "providers[0].clients"
        ),
        Fault(
            testDescription: "revocations alone",
            change: ("authority: clients.pem", "revocations: x\n      pins: [{fingerprint: zz}]"),
            line: 8,
            key: "providers[0].clients.pins[0].fingerprint"
        ),
        Fault(
            testDescription: "number out of range",
            change: ("feedback: f", "listen: {port: 70000}\nfeedback: f"),
            line: 3,
            key: "listen.port"
        ),
        Fault(
            testDescription: "time without unit",
            change: ("feedback: f", "limits: {idle: 30}\nfeedback: f"),
            line: 3,
            key: "limits.idle"
        ),
        Fault(
            testDescription: "as many connections per address as in total",
            change: ("feedback: f", "limits: {connections: 60, unauthenticatedPerAddress: 60}\nfeedback: f"),
            line: 3,
            key: "limits.unauthenticatedPerAddress"
        ),
        Fault(
            testDescription: "more connections per address than the default total",
            change: ("feedback: f", "limits:\n  unauthenticatedPerAddress: 2000\nfeedback: f"),
            line: 4,
            key: "limits.unauthenticatedPerAddress"
        ),
        Fault(
            testDescription: "an outcome limit below the retry budget",
            change: ("feedback: f", "limits: {outcome: 1m}\nfeedback: f"),
            line: 3,
            key: "limits"
        ),
        Fault(
            testDescription: "a key under both of its names",
            change: ("feedback: f", "limits: {outcome: 7m, verdict: 7m}\nfeedback: f"),
            line: 3,
            key: "limits.verdict"
        ),
        Fault(
            testDescription: "a retry budget above the outcome limit",
            change: ("    environment:", "    retry: {budget: 6m}\n    environment:"),
            line: 5,
            key: "providers"
        ),
        Fault(
            testDescription: "fewer remembered notifications than may be in flight",
            change: ("    environment:", "    limits: {inFlight: 20, remembered: 19}\n    environment:"),
            line: 8,
            key: "providers[0].limits"
        ),
        Fault(
            testDescription: "nothing remembered, by default several in flight",
            change: ("    environment:", "    limits: {remembered: 0}\n    environment:"),
            line: 8,
            key: "providers[0].limits"
        ),
        Fault(
            testDescription: "more in flight than are remembered by default",
            change: ("    environment:", "    limits: {inFlight: 200000}\n    environment:"),
            line: 8,
            key: "providers[0].limits"
        ),
        Fault(
            testDescription: "two credentials",
            change: ("passphraseFile: secret", "p8: key"),
            line: 10,
            key: "providers[0].upstream"
        ),
        Fault(testDescription: "invalid YAML", change: ("feedback: f", "feedback: [f"), line: 4, key: ""),
        Fault(
            testDescription: "a duplicate key",
            change: ("feedback: f", "feedback: a\nfeedback: f"),
            line: 3,
            key: ""
        ),
    ]

    @Test func `a spool belongs to one provider of one gateway`() throws {
        let provider =
            "  - {name: NAME, clients: {authority: a}, environment: production, upstream: {certificate: c}, "
            + "rejections: ignore, spool: folder}\n"
        let top = "server: {certificate: s}\nfeedback: f\n"
        let (one, two) = (provider.replacing("NAME", with: "one"), provider.replacing("NAME", with: "two"))
        #expect(try GatewayFile(yaml: top + "providers:\n" + one).providers.count == 1)
        let twice = #expect(throws: YAMLNode.Problem.self) {
            _ = try GatewayFile(yaml: top + "providers:\n" + one + two)
        }
        #expect(twice?.sentence == "duplicate spool: folder; each provider needs a folder of its own")
        let respelled = #expect(throws: YAMLNode.Problem.self) {
            _ = try GatewayFile(
                yaml: top + "providers:\n" + one + two.replacing("spool: folder", with: "spool: ./folder/")
            )
        }
        #expect(respelled?.sentence.hasPrefix("duplicate spool: ") == true)
        #if PostgreSQL
        let shared = #expect(throws: YAMLNode.Problem.self) {
            _ = try GatewayFile(yaml: top + "store: postgresql:///push\nproviders:\n" + one)
        }
        #expect(shared?.sentence.hasPrefix("spool of one cannot be combined with store: ") == true)
        #endif
    }

    @Test(arguments: Self.faults) func `an error names its key and its line`(_ fault: Fault) throws {
        let yaml = Self.shortest.replacing(fault.change.0, with: fault.change.1)
        do throws(YAMLNode.Problem) {
            _ = try GatewayFile(yaml: yaml)
            Issue.record("accepted")
        } catch {
            #expect(error.key == fault.key, "\(error)")
            #expect(error.line == fault.line, "\(error)")
        }
    }

    @Test(arguments: [
        ("limits: {inFlightPerConnection: 1}\nfeedback: f", "remembered: 0"),
        ("feedback: f", "inFlight: 1, remembered: 0"), ("feedback: f", "inFlight: 20, remembered: 20"),
    ])
    func `as many notifications as may be in flight are enough to remember`(top: String, limits: String) throws {
        let yaml = Self.shortest.replacing("feedback: f", with: top)
            .replacing("    environment:", with: "    limits: {\(limits)}\n    environment:")
        #expect(try GatewayFile(yaml: yaml).providers.count == 1)
    }

    @Test func `environment variables override the file`() throws {
        let file = try GatewayFile(
            yaml: Self.shortest,
            environment: ["APNS_LEGACY_LISTEN_PORT": "0", "APNS_LEGACY_LOG": "error", "PATH": "/bin"]
        )
        #expect(file.listen.port == 0)
        #expect(file.logLevel == .error)
        for (name, value) in ["APNS_LEGACY_LISTEN_PORT": "x", "APNS_LEGACY_NONE": "1", "APNS_LEGACY_LOG": "loud"] {
            do throws(YAMLNode.Problem) {
                _ = try GatewayFile(yaml: Self.shortest, environment: [name: value])
                Issue.record("\(name) accepted")
            } catch {
                #expect(error.key == name)
            }
        }
    }

    @Test func `an environment variable hides no error of the file`() throws {
        for (name, text) in [("APNS_LEGACY_LOG", "log: loud"), ("APNS_LEGACY_LISTEN_PORT", "listen: {port: many}")] {
            let yaml = Self.shortest + "\n\(text)\n"
            do throws(YAMLNode.Problem) {
                _ = try GatewayFile(yaml: yaml, environment: [name: name == "APNS_LEGACY_LOG" ? "debug" : "1"])
                Issue.record("\(text) accepted")
            } catch {
                #expect(error.line == yaml.split(separator: "\n").count, "\(error)")
            }
        }
    }

    @Test(arguments: ["5", "", "[1]"]) func `a section without keys is the error, not the variable for one of them`(
        _ value: String
    ) throws {
        let yaml = Self.shortest + "\nlisten: \(value)\n"
        do throws(YAMLNode.Problem) {
            _ = try GatewayFile(yaml: yaml, environment: ["APNS_LEGACY_LISTEN_PORT": "1"])
            Issue.record("accepted")
        } catch {
            #expect(error.key == "listen" && error.line != nil, "\(error)")
        }
    }

    @Test func `a byte order mark is passed over`() throws {
        #expect(try GatewayFile(yaml: "\u{FEFF}" + Self.shortest).providers.count == 1)
    }

    @Test func `a variable for the admin port is rejected if admin is off`() throws {
        for (name, value) in ["APNS_LEGACY_ADMIN_HOST": "127.0.0.1", "APNS_LEGACY_ADMIN_PORT": "1"] {
            let file = try GatewayFile(yaml: Self.shortest, environment: [name: value])
            #expect(file.admin?.host == "127.0.0.1")
            do throws(YAMLNode.Problem) {
                _ = try GatewayFile(yaml: Self.shortest + "\nadmin: off", environment: [name: value])
                Issue.record("\(name) accepted")
            } catch {
                #expect(error.key == name)
            }
        }
    }
}
