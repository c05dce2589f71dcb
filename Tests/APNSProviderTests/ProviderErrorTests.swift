// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import OpenSSLTLS
import Testing

@testable import APNSProvider

@Suite struct ProviderErrorTests {
    @Test func `each ending has its own kind and words, and the last failure`() {
        let endings: [ProviderEnding] = [.abandoned, .notPermitted, .refused, .unavailable, .tooManyInvalidTokens]
        let names = TLSErrorNames(remote: "gateway a:1")
        let errors =
            endings.compactMap {
                ProviderError($0, lastFailure: .stalled(.seconds($0 == .unavailable ? 1 : 2), names), names)
            }
            + [.alreadyRan, .configuration("x"), .tls(.certificateMissing)]
        #expect(Set(errors.map(\.description)).count == errors.count && errors.count == 8)
        #expect(Set(errors.map(\.kind)).count == errors.count)
        #expect(ProviderError(.completed, lastFailure: nil, names) == nil)
        let failures: [ConnectionFailure] = [
            ConnectionFailure(UnexpectedResponse(bytes: Array("SSH-2.0".utf8)), names), .stalled(.seconds(1), names),
            .closed(names),
        ]
        #expect(failures.map(\.kind) == [.wrongProtocol, .stalled, .closed(nil)])
        for failure in failures {
            let error = ProviderError(.unavailable, lastFailure: failure, names)
            #expect(error?.kind == .unavailable(failure))
            #expect(error?.description == "\(failure)" && failure.detail.hasPrefix("gateway a:1 "))
        }
    }

    @Test func `an unusable identity is the same typed error for both senders`() throws {
        let configuration = try Sending.configuration(port: 1) { $0.tls.trust = .pem(Array("none".utf8)) }
        func kinds() throws(ProviderError) -> [ProviderError.Kind] {
            var kinds: [ProviderError.Kind] = []
            do { _ = try PushClient(.binary(configuration)) } catch { kinds.append(error.kind) }
            do { _ = try BatchSender(configuration) } catch { kinds.append(error.kind) }
            return kinds
        }
        let found = try kinds()
        #expect(found.count == 2)
        for kind in found {
            guard case .tls(.trustUnusable) = kind else {
                Issue.record("\(kind)")
                continue
            }
        }
    }
}
