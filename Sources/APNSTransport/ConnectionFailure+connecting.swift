// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Glibc
import NIOCore
import NIOPosix

extension ConnectionFailure {
    /// Describes why a TCP connection could not be opened; `nil` for an error of another kind.
    init?(_ error: any Error, connectingTo target: Endpoint, _ role: RemoteRole) {
        switch error {
        case let error as NIOConnectionError:
            guard let first = error.connectionErrors.first else {
                let text = "host name \(target.host) cannot be resolved"
                self.init(.nameNotResolved, text, advice: "check its spelling and the DNS")
                return
            }
            self.init(first.error, connectingTo: target, role)
        case ChannelError.connectTimeout:
            let advice = "check host and port, and whether a firewall blocks it"
            self.init(.timedOut, "connection to \(target) timed out", advice: advice)
        case let error as IOError:
            let text = unsafe String(cString: strerror(error.errnoCode))
            switch error.errnoCode {
            case ECONNREFUSED:
                let advice = "is the \(role.rawValue) running there?"
                self.init(.refused, "connection to \(target) refused", advice: advice)
            case ENETUNREACH, EHOSTUNREACH:
                self.init(.unreachable, "no route to \(target) (\(text))", advice: "check the network")
            case EMFILE, ENFILE, ENOBUFS, ENOMEM:
                self.init(.localLimit, "cannot connect to \(target): \(SystemLimit.sentence(error.errnoCode))")
            default:
                self.init(.other, "cannot connect to \(target) (\(text))", advice: "check host and port")
            }
        default: return nil
        }
    }
}

extension ConnectionFailure {
    /// A proxy did not open the connection.
    static func proxy(_ proxy: Endpoint, to target: Endpoint, _ reason: String, advice: String?) -> Self {
        Self(.proxy, "proxy \(proxy) did not connect to \(target): \(reason)", advice: advice)
    }

    /// A proxy requires credentials, or refused those that it got.
    static func proxyAuthentication(_ proxy: Endpoint) -> Self {
        Self(
            .proxyAuthentication,
            "proxy \(proxy) requires a user name and a password, or refused those it got",
            advice: "give them as http://user:password@host:port"
        )
    }
}
