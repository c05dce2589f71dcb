// SPDX-License-Identifier: Apache-2.0

/// An alert as its reader will see it.
public struct AlertPreview: Hashable, Sendable {
    /// The line above the body; `nil` for none.
    public var title: String?
    /// The line between title and body; `nil` for none.
    public var subtitle: String?
    /// The text; `nil` for none.
    public var body: String?
    /// The name of the button that opens the app; `nil` for the system's, or none.
    public var action: String?
    /// The keys for which the app has no text; they stand where their texts would.
    public var missingKeys: [String] = []
}

extension Payload {
    /// Shows the alert of the payload.
    ///
    /// - Parameter strings: the texts that the app has in the language of the reader.
    /// - Returns: the alert; `nil` where the payload shows none.
    /// - Throws: ``PayloadProblem`` for what is no JSON.
    public func alertPreview(_ strings: LocalizedStrings = [:]) throws(PayloadProblem) -> AlertPreview? {
        guard let alert = try self.value()["aps"]?["alert"] else { return nil }
        var preview = AlertPreview()
        if let text = alert.string {
            preview.body = text
        } else {
            preview.title = preview.text(alert, "title", prefix: "title-", strings)
            preview.subtitle = preview.text(alert, "subtitle", prefix: "subtitle-", strings)
            preview.body = preview.text(alert, "body", prefix: "", strings)
            preview.action = preview.text(alert, "action", prefix: "action-", strings)
        }
        return preview
    }
}

extension AlertPreview {
    /// A text of an alert: what the app has under a key, or else what the payload says.
    fileprivate mutating func text(
        _ alert: JSONValue,
        _ name: String,
        prefix: String,
        _ strings: LocalizedStrings
    ) -> String? {
        guard let key = alert["\(prefix)loc-key"]?.string else { return alert[name]?.string }
        let arguments = alert["\(prefix)loc-args"]?.elements?.compactMap(\.string) ?? []
        if let text = strings.text(of: key, arguments: arguments) { return text }
        self.missingKeys.append(key)
        return key
    }
}
