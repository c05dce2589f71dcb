// SPDX-License-Identifier: Apache-2.0

public import APNSJSON

/// A key of a payload whose meaning and type are known.
///
/// - SeeAlso: "Creating the Remote Notification Payload" and "Generating a remote notification" in Apple's
///   documentation.
///
/// Later versions may add cases.
@nonexhaustive
public enum PayloadKey: UInt8, Hashable, Sendable, CaseIterable {
    /// `aps`: an object.
    case aps
    /// `aps.alert`: a string or an object.
    case alert
    /// `aps.badge`: a number.
    case badge
    /// `aps.sound`: a string or an object.
    case sound
    /// `aps.content-available`: a number.
    case contentAvailable
    /// `aps.mutable-content`: a number.
    case mutableContent
    /// `aps.content-changed`: a boolean or a number.
    case contentChanged
    /// `aps.category`: a string.
    case category
    /// `aps.thread-id`: a string.
    case threadID
    /// `aps.url-args`: an array of strings.
    case urlArguments
    /// `aps.account-id`: a string.
    case accountID
    /// `aps.target-content-id`: a string.
    case targetContentID
    /// `aps.interruption-level`: a string.
    case interruptionLevel
    /// `aps.relevance-score`: a number.
    case relevanceScore
    /// `aps.filter-criteria`: a string.
    case filterCriteria
    /// `aps.timestamp`: a number.
    case timestamp
    /// `aps.event`: a string.
    case event
    /// `aps.content-state`: an object.
    case contentState
    /// `aps.stale-date`: a number.
    case staleDate
    /// `aps.dismissal-date`: a number.
    case dismissalDate
    /// `aps.attributes-type`: a string.
    case attributesType
    /// `aps.attributes`: an object.
    case attributes
    /// `aps.input-push-token`: a number.
    case inputPushToken
    /// `aps.input-push-channel`: a string.
    case inputPushChannel
    /// `aps.summary-arg`: a string.
    case summaryArgument
    /// `aps.summary-arg-count`: a number.
    case summaryArgumentCount
    /// `aps.alert.title`: a string.
    case alertTitle
    /// `aps.alert.subtitle`: a string.
    case alertSubtitle
    /// `aps.alert.body`: a string.
    case alertBody
    /// `aps.alert.launch-image`: a string.
    case alertLaunchImage
    /// `aps.alert.action`: a string.
    case alertAction
    /// `aps.alert.loc-key`: a string.
    case alertLocKey
    /// `aps.alert.loc-args`: an array of strings.
    case alertLocArguments
    /// `aps.alert.title-loc-key`: a string.
    case alertTitleLocKey
    /// `aps.alert.title-loc-args`: an array of strings.
    case alertTitleLocArguments
    /// `aps.alert.subtitle-loc-key`: a string.
    case alertSubtitleLocKey
    /// `aps.alert.subtitle-loc-args`: an array of strings.
    case alertSubtitleLocArguments
    /// `aps.alert.action-loc-key`: a string or null.
    case alertActionLocKey
    /// `aps.alert.summary-arg`: a string.
    case alertSummaryArgument
    /// `aps.alert.summary-arg-count`: a number.
    case alertSummaryArgumentCount
    /// `aps.sound.critical`: a number.
    case soundCritical
    /// `aps.sound.name`: a string.
    case soundName
    /// `aps.sound.volume`: a number.
    case soundVolume
}

extension PayloadKey: CustomStringConvertible {
    /// The path of the key in the payload, as in `aps.alert.loc-args`.
    public var description: String {
        switch self {
        case .aps: "aps"
        case .alert: "aps.alert"
        case .badge: "aps.badge"
        case .sound: "aps.sound"
        case .contentAvailable: "aps.content-available"
        case .mutableContent: "aps.mutable-content"
        case .contentChanged: "aps.content-changed"
        case .category: "aps.category"
        case .threadID: "aps.thread-id"
        case .urlArguments: "aps.url-args"
        case .accountID: "aps.account-id"
        case .targetContentID: "aps.target-content-id"
        case .interruptionLevel: "aps.interruption-level"
        case .relevanceScore: "aps.relevance-score"
        case .filterCriteria: "aps.filter-criteria"
        case .timestamp: "aps.timestamp"
        case .event: "aps.event"
        case .contentState: "aps.content-state"
        case .staleDate: "aps.stale-date"
        case .dismissalDate: "aps.dismissal-date"
        case .attributesType: "aps.attributes-type"
        case .attributes: "aps.attributes"
        case .inputPushToken: "aps.input-push-token"
        case .inputPushChannel: "aps.input-push-channel"
        case .summaryArgument: "aps.summary-arg"
        case .summaryArgumentCount: "aps.summary-arg-count"
        case .alertTitle: "aps.alert.title"
        case .alertSubtitle: "aps.alert.subtitle"
        case .alertBody: "aps.alert.body"
        case .alertLaunchImage: "aps.alert.launch-image"
        case .alertAction: "aps.alert.action"
        case .alertLocKey: "aps.alert.loc-key"
        case .alertLocArguments: "aps.alert.loc-args"
        case .alertTitleLocKey: "aps.alert.title-loc-key"
        case .alertTitleLocArguments: "aps.alert.title-loc-args"
        case .alertSubtitleLocKey: "aps.alert.subtitle-loc-key"
        case .alertSubtitleLocArguments: "aps.alert.subtitle-loc-args"
        case .alertActionLocKey: "aps.alert.action-loc-key"
        case .alertSummaryArgument: "aps.alert.summary-arg"
        case .alertSummaryArgumentCount: "aps.alert.summary-arg-count"
        case .soundCritical: "aps.sound.critical"
        case .soundName: "aps.sound.name"
        case .soundVolume: "aps.sound.volume"
        }
    }
}

extension PayloadKey {
    /// The kinds of value that the key may have.
    public var kinds: JSONKinds {
        switch self {
        case .aps, .contentState, .attributes:
            .object
        case .alert, .sound:
            [.string, .object]
        case .badge, .contentAvailable, .mutableContent, .relevanceScore, .timestamp, .staleDate,
            .dismissalDate, .inputPushToken, .summaryArgumentCount, .alertSummaryArgumentCount,
            .soundCritical, .soundVolume:
            .number
        case .category, .threadID, .accountID, .targetContentID, .interruptionLevel, .filterCriteria, .event,
            .attributesType, .inputPushChannel, .summaryArgument, .alertTitle, .alertSubtitle, .alertBody,
            .alertLaunchImage, .alertAction, .alertLocKey, .alertTitleLocKey, .alertSubtitleLocKey,
            .alertSummaryArgument, .soundName:
            .string
        case .urlArguments, .alertLocArguments, .alertTitleLocArguments, .alertSubtitleLocArguments:
            .array
        case .alertActionLocKey:
            [.string, .null]
        case .contentChanged:
            [.boolean, .number]
        }
    }
}
