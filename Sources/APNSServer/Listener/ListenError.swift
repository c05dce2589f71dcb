// SPDX-License-Identifier: Apache-2.0

import APNSTransport
import Glibc
import NIOCore

/// Why an address cannot be listened on, in words for people.
package struct ListenError: Error, Hashable, CustomStringConvertible {
    package let description: String

    /// Puts what the system said into words.
    package init(_ error: any Error) {
        switch error {
        case let error as IOError:
            let text = unsafe String(cString: strerror(error.errnoCode))
            self.description =
                switch error.errnoCode {
                case EADDRINUSE: "something listens there already (\(text)). Stop it, or choose another port."
                case EACCES: "this user may not (\(text)). Choose a port above 1023, or give it the right to."
                case EADDRNOTAVAIL: "this machine has no such address (\(text)). Choose one that it has."
                case EMFILE, ENFILE, ENOBUFS, ENOMEM: "\(SystemLimit.sentence(error.errnoCode))."
                default: "\(text)."
                }
        case is SocketAddressError, is SocketAddressError.UnknownHost:
            self.description = "it is no address or host name of this machine. Check its spelling."
        default: self.description = "\(error)"
        }
    }
}
