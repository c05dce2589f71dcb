// SPDX-License-Identifier: Apache-2.0

import APNSTransport
import Glibc
import NIOCore

/// The reason why an address cannot be listened on, for people.
package struct ListenError: Error, Hashable, CustomStringConvertible {
    package let description: String

    /// Describes a system error.
    package init(_ error: any Error) {
        switch error {
        case let error as IOError:
            let text = unsafe String(cString: strerror(error.errnoCode))
            self.description =
                switch error.errnoCode {
                case EADDRINUSE: "address already in use; stop the other program or choose another port"
                case EACCES: "permission denied; choose a port above 1023 or grant the right to use lower ports"
                case EADDRNOTAVAIL: "not an address of this machine; choose one that it has"
                case EMFILE, ENFILE, ENOBUFS, ENOMEM: SystemLimit.sentence(error.errnoCode)
                default: text
                }
        case is SocketAddressError, is SocketAddressError.UnknownHost:
            self.description = "not an address or host name of this machine; check the spelling"
        default: self.description = "\(error)"
        }
    }
}
