// SPDX-License-Identifier: Apache-2.0

public import OpenSSLTLS

/// Where a listener of the feedback service listens, whom it lets in, and how it delivers.
@dynamicMemberLookup
public struct FeedbackListenerConfiguration: Sendable {
    /// Where it listens, whom it lets in, and its limits; these are properties of this type, too.
    public var listener: ListenerConfiguration

    /// Whether the connection is closed behind the last tuple, also where there is none; by default it is.
    ///
    /// Otherwise it stays open until the provider closes it. The service was seen to do either.
    public var closesBehindList = true

    /// How long to wait between the last tuple and close_notify; by default 300 ms, since some clients lose the last
    /// tuple otherwise.
    public var closingPause = Duration.milliseconds(300)

    /// Whether entries leave the list only when the provider has sent close_notify; by default an end of stream does
    /// as well, since many clients never send it.
    ///
    /// A reset never does.
    public var requiresCloseNotify = false

    /// How long a provider may take to read the list, and then to close; by default 10 minutes.
    public var connectionDurationMax = Duration.seconds(600)

    /// How many connections one provider may have, by its certificate; more are refused.
    ///
    /// By default 8. So one provider that lets its connections stand keeps no other one out.
    public var connectionCountMaxPerProvider = 8

    /// How long a provider may take nothing of what is written to it, and how long it may take to close where the list
    /// is closed behind; then the connection is cut, and the list stays as it is.
    ///
    /// By default 60 seconds.
    public var progressTimeout = Duration.seconds(60)

    /// Makes a configuration with the defaults.
    ///
    /// - Parameters:
    ///   - identity: the service's certificate and key.
    ///   - clientTrust: the authorities that a provider's certificate must lead to.
    public init(identity: TLSIdentity, clientTrust: TLSTrust) {
        self.listener = ListenerConfiguration(identity: identity, clientTrust: clientTrust, port: 2196)
        self.connectionCountMax = 256
    }

    /// What the listeners of all protocols have in common.
    public subscript<Value>(dynamicMember member: WritableKeyPath<ListenerConfiguration, Value>) -> Value {
        get { self.listener[keyPath: member] }
        set { self.listener[keyPath: member] = newValue }
    }
}

extension FeedbackListenerConfiguration: CustomStringConvertible, CustomReflectable {
    /// The protocol, and where it listens, in one line.
    public var description: String { "listener of feedback on \(self.listener)" }

    /// Nothing that is not in ``description``, so that `dump` prints one line.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
