// SPDX-License-Identifier: Apache-2.0

public import OpenSSLTLS

/// The address, admission rules and delivery options of a listener of the feedback service.
@dynamicMemberLookup
public struct FeedbackListenerConfiguration: Sendable {
    /// The address, admission rules and limits; also available as properties of this type.
    public var listener: ListenerConfiguration

    /// Whether the connection is closed after the last tuple, even if there is none; by default it is.
    ///
    /// Otherwise it stays open until the provider closes it. Apple's service was observed to do either.
    public var closesBehindList = true

    /// How long to wait between the last tuple and close_notify, and between the end of the provider's stream and
    /// close_notify; by default 300 ms.
    ///
    /// Some clients otherwise lose the last tuple. A provider that closes its socket within this time without having
    /// read everything keeps its list, and so does one that closes only its sending side.
    public var closingPause = Duration.milliseconds(300)

    /// Whether entries leave the list only if the provider has sent close_notify; by default an end of stream is
    /// sufficient, since many clients never send close_notify.
    ///
    /// A reset instead of an end of stream is never sufficient, and neither is an end of stream before the end of the
    /// connection was sent, unless the provider's system then refuses close_notify, since the socket is closed.
    public var requiresCloseNotify = false

    /// How long a provider may take to read the list and close; by default 10 minutes.
    public var connectionTimeout = Duration.seconds(600)

    /// The maximum number of connections of one provider, by its certificate; further ones are refused.
    ///
    /// By default 8, so that a provider with idle connections does not lock out others.
    public var connectionCountMaxPerProvider = 8

    /// How long a provider may read nothing, and how long it may take to close after the end of the list.
    ///
    /// Then the connection is cut, and the list is kept.
    ///
    /// By default 60 seconds.
    public var progressTimeout = Duration.seconds(60)

    /// Creates a configuration with defaults.
    ///
    /// - Parameters:
    ///   - identity: the service's certificate and key.
    ///   - clientTrust: the authorities that a provider's certificate must chain to.
    public init(identity: TLSIdentity, clientTrust: TLSTrust) {
        self.listener = ListenerConfiguration(identity: identity, clientTrust: clientTrust, port: 2196)
        self.connectionCountMax = 256
    }

    /// The settings that the listeners of all protocols share.
    public subscript<Value>(dynamicMember member: WritableKeyPath<ListenerConfiguration, Value>) -> Value {
        get { self.listener[keyPath: member] }
        set { self.listener[keyPath: member] = newValue }
    }
}

extension FeedbackListenerConfiguration: CustomStringConvertible, CustomReflectable {
    /// The protocol and the address, in one line.
    public var description: String { "listener of feedback on \(self.listener)" }

    /// Only ``description``, so that `dump` prints one line.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
