// SPDX-License-Identifier: Apache-2.0

import Glibc
import NIOCore
import NIOPosix

/// Why a TCP connection could not be opened, in words for people.
package struct ConnectError: Error, Hashable, CustomStringConvertible {
    package let description: String

    /// Puts what the network said into words; `nil` for what is no failure to connect.
    init?(_ error: any Error, to target: Endpoint) {
        let place = "\(target.host) port \(target.port)"
        switch error {
        case let error as NIOConnectionError:
            guard let first = error.connectionErrors.first else {
                self.description = "the host name \(target.host) cannot be resolved; check its spelling and the DNS."
                return
            }
            guard let error = ConnectError(first.error, to: target) else { return nil }
            self = error
        case ChannelError.connectTimeout:
            self.description =
                "\(place) did not answer in time; check host and port, and whether a firewall lets it through."
        case let error as IOError:
            let text = unsafe String(cString: strerror(error.errnoCode))
            self.description =
                switch error.errnoCode {
                case ECONNREFUSED: "nobody listens on \(place) (\(text)); check host and port, and that it runs."
                case ENETUNREACH, EHOSTUNREACH: "there is no way to \(place) (\(text)); check the network."
                case EMFILE, ENFILE, ENOBUFS, ENOMEM:
                    "\(place) cannot be connected to: \(SystemLimit.sentence(error.errnoCode))."
                default: "\(place) cannot be connected to (\(text)); check host and port, and the network."
                }
        default: return nil
        }
    }
}
