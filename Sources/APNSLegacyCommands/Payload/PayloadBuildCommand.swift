// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import ArgumentParser

/// `apns-legacy payload build`: writes a payload of its parts.
struct PayloadBuildCommand: PayloadSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "build",
        abstract: "Print a payload that is made of its parts.",
        discussion: """
            A payload for apns-legacy send --payload, checked before it is printed:

              apns-legacy payload build --title Order --alert "Your order has left" --badge 1 --custom order=1234
            """
    )

    @OptionGroup var limit: PayloadLimitOptions

    @Option(help: .value("text", "The text of the alert."))
    var alert: String?

    @Option(help: .value("text", "The line above it."))
    var title: String?

    @Option(help: .value("text", "The line between the two."))
    var subtitle: String?

    @Option(help: .value("key", "The key of the text in the app's Localizable.strings, in place of --alert."))
    var locKey: String?

    @Option(name: .customLong("loc-arg"), help: .value("text", "What is filled into that text; once for each."))
    var locArguments: [String] = []

    @Option(help: .value("number", "The number at the app's icon; 0 takes it off."))
    var badge: Int?

    @Option(help: .value("name", "The sound; default for that of the system."))
    var sound: String?

    @Option(help: .value("name", "The category, which names the buttons that the app offers."))
    var category: String?

    @Option(help: .value("name", "The thread, by which notifications are grouped."))
    var threadId: String?

    @Flag(help: "Wake the app in the background.")
    var contentAvailable = false

    @Flag(help: "Let an extension of the app change the notification before it is shown.")
    var mutableContent = false

    @Option(
        name: .customLong("custom"),
        help: .value("name=value", "A key of the app's own; the value is JSON, or else a text. Once for each.")
    )
    var customs: [String] = []

    func validate() throws {
        guard self.alert == nil || self.locKey == nil else {
            throw ValidationError("Say --alert or --loc-key, not both.")
        }
        guard self.locArguments.isEmpty || self.locKey != nil else {
            throw ValidationError("--loc-arg needs --loc-key.")
        }
        guard self.badge ?? 0 >= 0 else { throw ValidationError("--badge is 0 or more.") }
        var names: Set<String> = ["aps"]
        for custom in self.customs {
            guard let name = custom.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).first,
                !name.isEmpty, custom.contains("=")
            else { throw ValidationError("--custom takes NAME=VALUE.") }
            guard names.insert(String(name)).inserted else {
                throw ValidationError("--custom cannot be \(name), which is there already.")
            }
        }
    }

    func run(in environment: CommandEnvironment) throws -> ExitStatus {
        let payload = Payload(self.aps, self.custom)
        do {
            try payload.check(rules: self.limit.rules)
        } catch {
            throw CommandFailure(.dataError, "The payload would be refused: \(error.kind).")
        }
        try environment.console.write(String(decoding: payload.bytes, as: UTF8.self) + "\n")
        for warning in try payload.warnings() { environment.console.say("warning: \(warning)") }
        return .success
    }

    private var aps: APS {
        var aps = APS(badge: self.badge, sound: self.sound.map { APS.Sound($0) })
        let body: APS.AlertText? =
            self.locKey.map { .localized(key: $0, arguments: self.locArguments) } ?? self.alert.map { .plain($0) }
        if body != nil || self.title != nil || self.subtitle != nil {
            aps.alert = APS.Alert(
                title: self.title.map { .plain($0) },
                subtitle: self.subtitle.map { .plain($0) },
                body: body
            )
        }
        aps.category = self.category
        aps.threadID = self.threadId
        aps.isContentAvailable = self.contentAvailable
        aps.isMutableContent = self.mutableContent
        return aps
    }

    private var custom: [String: JSONValue] {
        var members: [String: JSONValue] = [:]
        for custom in self.customs {
            let parts = custom.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let value = String(parts[1])
            members[String(parts[0])] = (try? JSONValue(parsing: Array(value.utf8))) ?? .string(value)
        }
        return members
    }
}
