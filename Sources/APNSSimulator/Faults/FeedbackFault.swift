// SPDX-License-Identifier: Apache-2.0

package import APNSServer
import NIOCore
import OpenSSLTLS

/// How the feedback service delivers its lists; by default as the service did.
public struct FeedbackFault: Hashable, Sendable, Codable {
    /// How a delivery ends that is cut.
    public enum Cut: String, Hashable, Sendable, Codable, CaseIterable {
        /// close_notify, as if that were all.
        case orderly
        /// An end of stream without close_notify.
        case abrupt
        /// A reset.
        case reset
    }

    /// So many bytes go at a time; `nil`, the default, for as many as the connection takes.
    public var dripByteCount: Int?

    /// The pause between two drips in milliseconds; by default 10.
    public var dripMilliseconds = 10

    /// Behind so many bytes the delivery is cut, be it inside a tuple; `nil`, the default, for never.
    public var cutByteCount: Int?

    /// How it is cut; by default orderly.
    public var cut = Cut.orderly

    /// Delivers as the service did.
    public init() {}
}

extension FeedbackFault {
    /// Lets a listener deliver each list like this.
    ///
    /// A portion that drips has to be done within the listener's
    /// `FeedbackListenerConfiguration.progressTimeout`.
    package func apply(to configuration: inout FeedbackListenerConfiguration) {
        guard self != FeedbackFault() else { return }
        configuration.configurePipeline = { channel, _ in
            let pipeline = channel.pipeline.syncOperations
            let tls = try pipeline.handler(type: TLSHandler.self)
            try pipeline.addHandler(FeedbackFaultHandler(self), position: .after(tls))
        }
    }
}
