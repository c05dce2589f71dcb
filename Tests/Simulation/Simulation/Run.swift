// SPDX-License-Identifier: Apache-2.0

import APNSCertificates
import APNSProvider
import APNSProviderHTTP2
import APNSSession
import APNSSimulator
import APNSWire
import CSimulatedKernel
import NIOCore
import NIOPosix
import OpenSSLTLS

/// What all seeds share: creating keys takes longer than a seed.
struct Materials: Sendable {
    let server: TLSConfiguration
    let client: TLSConfiguration
    let identity: TLSIdentity
    let serverIdentity: TLSIdentity
    let authorityPEM: [UInt8]
    /// An authority that issued no provider's certificate.
    let otherAuthorityPEM: [UInt8]

    init() throws {
        let authority = try CertificateAuthority(name: "Simulation")
        self.server = try authority.makeServerTLS()
        self.client = try authority.makeClientTLS(topic: "com.example.app")
        guard let identity = self.client.identity, let serverIdentity = self.server.identity else {
            fatalError("a certificate is missing")
        }
        (self.identity, self.serverIdentity) = (identity, serverIdentity)
        self.authorityPEM = authority.certificatePEM
        self.otherAuthorityPEM = try CertificateAuthority(name: "Other").certificatePEM
    }
}

/// What a seed runs.
enum Scenario: String, CaseIterable { case client, gateway, batch, feedback }

/// One seed.
final class Run: Sendable {
    private let seed: UInt64
    private let materials: Materials
    let history: History

    init(_ seed: UInt64, _ materials: Materials, isVerbose: Bool) {
        self.seed = seed
        self.materials = materials
        self.history = History(isVerbose: isVerbose)
    }

    /// The simulated time that a scenario may take.
    private static let durationMax: UInt64 = 86_400 * 1_000_000_000

    /// Returns what is wrong; `nil` if nothing is.
    func run() -> String? {
        NIOSingletons.groupLoopCountSuggestion = 1
        NIOSingletons.blockingPoolThreadCountSuggestion = 1
        sim_start(self.seed, wallSeconds)
        let hasEnded = UnsafeMutablePointer<Bool>.allocate(capacity: 1)
        hasEnded.initialize(to: false)
        let end = End(hasEnded)
        let (history, materials) = (self.history, self.materials)
        Task.detached {
            do {
                let scenario = Chance.one(of: Scenario.allCases)
                switch scenario {
                case _ where scenarioWanted.map { $0 != scenario } == true: break
                case .client: try await ClientScenario(materials, history).run()
                case .gateway: try await GatewayScenario(materials, history).run()
                case .batch: try await BatchScenario(materials, history).run()
                case .feedback: try await FeedbackScenario(materials, history).run()
                }
            } catch {
                history.fail("the scenario failed: \(error)")
            }
            end.reach()
        }
        switch sim_run(hasEnded, sim_now() + Self.durationMax) {
        case 0: break
        case 1: history.fail("it did not end in time")
        default: history.fail("it waits for what never happens")
        }
        return history.failure
    }
}

/// The flag that ends a run.
private struct End: @unchecked Sendable {
    private let flag: UnsafeMutablePointer<Bool>

    init(_ flag: UnsafeMutablePointer<Bool>) { self.flag = flag }

    func reach() { self.flag.pointee = true }
}

/// Time that passes at once when nothing else can happen.
enum SimulatedTime {
    static func pass(_ duration: Duration) async throws { try await Task.sleep(for: duration) }
}

/// Chance, from the seed.
enum Chance {
    /// A number in a range.
    static func number(_ range: ClosedRange<Int>) -> Int {
        range.lowerBound + Int(sim_random(UInt64(range.upperBound - range.lowerBound + 1)))
    }

    /// Whether something happens that happens once in so many times.
    static func once(in count: Int) -> Bool { sim_random(UInt64(count)) == 0 }

    static func one<Value>(of values: [Value]) -> Value { values[Int(sim_random(UInt64(values.count)))] }

    static func duration(_ milliseconds: ClosedRange<Int>) -> Duration { .milliseconds(Self.number(milliseconds)) }
}
