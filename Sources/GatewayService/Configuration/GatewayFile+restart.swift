// SPDX-License-Identifier: Apache-2.0

extension GatewayFile {
    /// The keys that differ from a configuration that a gateway was started with, and that hold only from the start.
    ///
    /// - Parameter first: what it was started with.
    /// - Returns: the keys in alphabetical order, such as "listen.port".
    func keysForRestart(since first: GatewayFile) -> [String] {
        var keys = Self.differences(first.listen, self.listen, "listen")
        keys += Self.differences(first.limits, self.limits, "limits")
        switch (first.admin, self.admin) {
        case (nil, nil): break
        case (let old?, let new?): keys += Self.differences(old, new, "admin")
        case (.some, nil), (nil, .some): keys.append("admin")
        }
        if first.logLevel != self.logLevel { keys.append("log") }
        if first.feedback != self.feedback { keys.append("feedback") }
        return keys.sorted()
    }

    /// The properties that differ, which are called as their keys are, so that none can be forgotten here.
    private static func differences<Section>(_ old: Section, _ new: Section, _ name: String) -> [String] {
        zip(Mirror(reflecting: old).children, Mirror(reflecting: new).children).compactMap { old, new in
            "\(old.value)" == "\(new.value)" ? nil : "\(name).\(old.label ?? "")"
        }
    }
}
