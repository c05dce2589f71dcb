// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Glibc
import NIOCore
import NIOPosix

extension ConnectionFailure {
    /// Puts into words what the network said about a TCP connection; `nil` for what is no failure to connect.
    ///
    /// - Parameters:
    ///   - error: what the network said.
    ///   - target: the service, or the proxy before it.
    init?(_ error: any Error, connectingTo target: Endpoint) {
        let place = "\(target.host) port \(target.port)"
        switch error {
        case let error as NIOConnectionError:
            guard let first = error.connectionErrors.first else {
                let host = target.host
                self.init(.nameNotResolved, "the host name \(host) cannot be resolved; check its spelling and the DNS.")
                return
            }
            self.init(first.error, connectingTo: target)
        case ChannelError.connectTimeout:
            let advice = "check host and port, and whether a firewall lets it through."
            self.init(.timedOut, "\(place) did not answer in time; \(advice)")
        case let error as IOError:
            let text = unsafe String(cString: strerror(error.errnoCode))
            switch error.errnoCode {
            case ECONNREFUSED:
                self.init(.refused, "nobody listens on \(place) (\(text)); check host and port, and that it runs.")
            case ENETUNREACH, EHOSTUNREACH:
                self.init(.unreachable, "there is no way to \(place) (\(text)); check the network.")
            case EMFILE, ENFILE, ENOBUFS, ENOMEM:
                self.init(.localLimit, "\(place) cannot be connected to: \(SystemLimit.sentence(error.errnoCode)).")
            default:
                self.init(.other, "\(place) cannot be connected to (\(text)); check host and port, and the network.")
            }
        default: return nil
        }
    }
}

extension ConnectionFailure {
    /// A proxy did not open the way.
    ///
    /// - Parameter answer: what it answered.
    /// - Returns: the failure.
    static func proxy(_ answer: String) -> Self { Self(.proxy, "the proxy did not open the way: \(answer)") }

    /// A proxy wants to know who connects.
    static let proxyAuthentication = Self(
        .proxyAuthentication,
        "the proxy wants a user name and a password, or others than those that it got."
    )
}
