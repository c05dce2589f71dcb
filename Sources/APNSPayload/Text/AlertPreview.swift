// SPDX-License-Identifier: Apache-2.0

import APNSJSON

/// An alert as the user sees it.
public struct AlertPreview: Hashable, Sendable {
    /// The line above the body; `nil` if there is none.
    public var title: String?
    /// The line between the title and the body; `nil` if there is none.
    public var subtitle: String?
    /// The text; `nil` if there is none.
    public var body: String?
    /// The name of the button that opens the app; `nil` for the system's default, or if there is none.
    public var action: String?
    /// The keys for which the app has no text; the preview shows them instead.
    public var missingKeys: [String] = []
}

extension Payload {
    /// Previews the alert of the payload.
    ///
    /// - Parameter strings: the app's texts in the user's language.
    /// - Returns: the alert; `nil` if the payload has none.
    /// - Throws: ``PayloadProblem`` if the payload is not JSON.
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
    /// A text of an alert: the app's text for a key, otherwise the payload's text.
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
