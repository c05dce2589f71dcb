// SPDX-License-Identifier: Apache-2.0

package import APNSWire

/// Stores the expected resends of providers, and their dead tokens, for several gateways behind a balancer.
///
/// Each gateway recognizes resends by its copy in memory, and only one of them can claim each. All calls return at
/// once, and each is answered within bounded time, on any thread.
package protocol SharedGatewayStore: ResendStore, FeedbackListStore {
    /// Why the database currently does not answer; `nil` if it does.
    var problem: String? { get }

    /// The number of dead tokens in each list.
    var counts: [TokenScope: Int] { get }

    /// Waits until everything was tried once more, if the database answers.
    func flush() async

    /// Reads the resends that are expected of a provider and that no gateway has claimed.
    ///
    /// The result is `nil` if the database did not answer.
    func load(of provider: String, onLoaded: @escaping @Sendable ([ExpectedResend]?) -> Void)

    /// Claims an expected resend, or another one with the same key.
    func claim(
        _ resend: ExpectedResend,
        of provider: String,
        onClaimed: @escaping @Sendable (ResendClaim) -> Void
    )

    /// Reads a list, so that its pages are those of all gateways.
    ///
    /// The result is `false` if the database did not answer.
    func open(_ list: TokenScope, onOpened: @escaping @Sendable (Bool) -> Void)
}

/// What became of the claim of an expected resend.
package enum ResendClaim: Hashable, Sendable {
    /// It is claimed, and the claim is durable: the notification is not delivered again.
    case claimed
    /// It is not expected any more: the notification is delivered.
    case absent
    /// The database did not answer.
    case unknown
}
