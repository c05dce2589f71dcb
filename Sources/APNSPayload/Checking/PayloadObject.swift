// SPDX-License-Identifier: Apache-2.0

/// An object of a payload that has known keys.
enum PayloadObject {
    case root, aps, alert, sound

    /// Finds a known key by its bytes.
    ///
    /// The length selects a few candidates, which are compared word by word: a hand-written perfect hash.
    @inline(__always)
    func key(_ bytes: borrowing KeyBytes) -> PayloadKey? {
        switch self {
        case .root: bytes.spell("aps") ? .aps : nil
        case .aps: Self.apsKey(bytes)
        case .alert: Self.alertKey(bytes)
        case .sound: Self.soundKey(bytes)
        }
    }

    private static func apsKey(_ bytes: borrowing KeyBytes) -> PayloadKey? {
        switch bytes.count {
        case 5:
            if bytes.spell("alert") { return .alert }
            if bytes.spell("badge") { return .badge }
            if bytes.spell("sound") { return .sound }
            if bytes.spell("event") { return .event }
        case 8:
            if bytes.spell("category") { return .category }
            if bytes.spell("url-args") { return .urlArguments }
        case 9:
            if bytes.spell("thread-id") { return .threadID }
            if bytes.spell("timestamp") { return .timestamp }
        case 10:
            if bytes.spell("account-id") { return .accountID }
            if bytes.spell("stale-date") { return .staleDate }
            if bytes.spell("attributes") { return .attributes }
        case 11:
            if bytes.spell("summary-arg") { return .summaryArgument }
        case 13:
            if bytes.spell("content-state") { return .contentState }
        case 14:
            if bytes.spell("dismissal-date") { return .dismissalDate }
        case 15:
            if bytes.spell("mutable-content") { return .mutableContent }
            if bytes.spell("relevance-score") { return .relevanceScore }
            if bytes.spell("filter-criteria") { return .filterCriteria }
            if bytes.spell("attributes-type") { return .attributesType }
        case 16:
            if bytes.spell("input-push-token") { return .inputPushToken }
        case 17:
            if bytes.spell("content-available") { return .contentAvailable }
            if bytes.spell("target-content-id") { return .targetContentID }
            if bytes.spell("summary-arg-count") { return .summaryArgumentCount }
        case 18:
            if bytes.spell("interruption-level") { return .interruptionLevel }
            if bytes.spell("input-push-channel") { return .inputPushChannel }
        default:
            break
        }
        return nil
    }

    private static func alertKey(_ bytes: borrowing KeyBytes) -> PayloadKey? {
        switch bytes.count {
        case 4:
            if bytes.spell("body") { return .alertBody }
        case 5:
            if bytes.spell("title") { return .alertTitle }
        case 6:
            if bytes.spell("action") { return .alertAction }
        case 7:
            if bytes.spell("loc-key") { return .alertLocKey }
        case 8:
            if bytes.spell("subtitle") { return .alertSubtitle }
            if bytes.spell("loc-args") { return .alertLocArguments }
        case 11:
            if bytes.spell("summary-arg") { return .alertSummaryArgument }
        case 12:
            if bytes.spell("launch-image") { return .alertLaunchImage }
        case 13:
            if bytes.spell("title-loc-key") { return .alertTitleLocKey }
        case 14:
            if bytes.spell("title-loc-args") { return .alertTitleLocArguments }
            if bytes.spell("action-loc-key") { return .alertActionLocKey }
        case 16:
            if bytes.spell("subtitle-loc-key") { return .alertSubtitleLocKey }
        case 17:
            if bytes.spell("subtitle-loc-args") { return .alertSubtitleLocArguments }
            if bytes.spell("summary-arg-count") { return .alertSummaryArgumentCount }
        default:
            break
        }
        return nil
    }

    private static func soundKey(_ bytes: borrowing KeyBytes) -> PayloadKey? {
        switch bytes.count {
        case 4:
            if bytes.spell("name") { return .soundName }
        case 6:
            if bytes.spell("volume") { return .soundVolume }
        case 8:
            if bytes.spell("critical") { return .soundCritical }
        default:
            break
        }
        return nil
    }
}
