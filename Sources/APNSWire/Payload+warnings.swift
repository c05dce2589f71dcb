// SPDX-License-Identifier: Apache-2.0

public import APNSPayload

extension Payload {
    /// Finds what is valid in the payload but probably a mistake, for a push type and a topic.
    ///
    /// The system reads `aps` of alerts, background notifications, Live Activities, widgets and controls. For other
    /// push types, such as that of calls or of device management, and for Wallet, the payload may be any object, so
    /// there are no warnings.
    ///
    /// - Parameters:
    ///   - pushType: the push type; `nil` to infer it from the topic, as a client does.
    ///   - topic: the topic; by default that of an app.
    /// - Returns: the warnings, ordered by level and then by name; empty if there are none.
    /// - Throws: `PayloadProblem` if the payload is not a JSON object.
    public func warnings(
        for pushType: PushType?,
        topic: String? = nil
    ) throws(PayloadProblem) -> [PayloadWarning] {
        let warnings = try self.warnings()
        let family = topic.flatMap { TopicFamily(of: $0) }
        guard let type = pushType ?? family?.pushType else { return family?.isForWallet == true ? [] : warnings }
        return Self.typesWithKeys.contains(type) ? warnings : []
    }

    /// The push types whose payloads have keys that the system reads.
    private static let typesWithKeys: Set<PushType> = [.alert, .background, .liveActivity, .widgets, .controls]
}
