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
        case .root: bytes.equals("aps") ? .aps : nil
        case .aps: Self.apsKey(bytes)
        case .alert: Self.alertKey(bytes)
        case .sound: Self.soundKey(bytes)
        }
    }

    private static func apsKey(_ bytes: borrowing KeyBytes) -> PayloadKey? {
        switch bytes.count {
        case 5:
            if bytes.equals("alert") { return .alert }
            if bytes.equals("badge") { return .badge }
            if bytes.equals("sound") { return .sound }
            if bytes.equals("event") { return .event }
        case 8:
            if bytes.equals("category") { return .category }
            if bytes.equals("url-args") { return .urlArguments }
        case 9:
            if bytes.equals("thread-id") { return .threadID }
            if bytes.equals("timestamp") { return .timestamp }
        case 10:
            if bytes.equals("account-id") { return .accountID }
            if bytes.equals("stale-date") { return .staleDate }
            if bytes.equals("attributes") { return .attributes }
        case 11:
            if bytes.equals("summary-arg") { return .summaryArgument }
        case 13:
            if bytes.equals("content-state") { return .contentState }
        case 14:
            if bytes.equals("dismissal-date") { return .dismissalDate }
        case 15:
            if bytes.equals("mutable-content") { return .mutableContent }
            if bytes.equals("content-changed") { return .contentChanged }
            if bytes.equals("relevance-score") { return .relevanceScore }
            if bytes.equals("filter-criteria") { return .filterCriteria }
            if bytes.equals("attributes-type") { return .attributesType }
        case 16:
            if bytes.equals("input-push-token") { return .inputPushToken }
        case 17:
            if bytes.equals("content-available") { return .contentAvailable }
            if bytes.equals("target-content-id") { return .targetContentID }
            if bytes.equals("summary-arg-count") { return .summaryArgumentCount }
        case 18:
            if bytes.equals("interruption-level") { return .interruptionLevel }
            if bytes.equals("input-push-channel") { return .inputPushChannel }
        default:
            break
        }
        return nil
    }

    private static func alertKey(_ bytes: borrowing KeyBytes) -> PayloadKey? {
        switch bytes.count {
        case 4:
            if bytes.equals("body") { return .alertBody }
        case 5:
            if bytes.equals("title") { return .alertTitle }
        case 6:
            if bytes.equals("action") { return .alertAction }
        case 7:
            if bytes.equals("loc-key") { return .alertLocKey }
        case 8:
            if bytes.equals("subtitle") { return .alertSubtitle }
            if bytes.equals("loc-args") { return .alertLocArguments }
        case 11:
            if bytes.equals("summary-arg") { return .alertSummaryArgument }
        case 12:
            if bytes.equals("launch-image") { return .alertLaunchImage }
        case 13:
            if bytes.equals("title-loc-key") { return .alertTitleLocKey }
        case 14:
            if bytes.equals("title-loc-args") { return .alertTitleLocArguments }
            if bytes.equals("action-loc-key") { return .alertActionLocKey }
        case 16:
            if bytes.equals("subtitle-loc-key") { return .alertSubtitleLocKey }
        case 17:
            if bytes.equals("subtitle-loc-args") { return .alertSubtitleLocArguments }
            if bytes.equals("summary-arg-count") { return .alertSummaryArgumentCount }
        default:
            break
        }
        return nil
    }

    private static func soundKey(_ bytes: borrowing KeyBytes) -> PayloadKey? {
        switch bytes.count {
        case 4:
            if bytes.equals("name") { return .soundName }
        case 6:
            if bytes.equals("volume") { return .soundVolume }
        case 8:
            if bytes.equals("critical") { return .soundCritical }
        default:
            break
        }
        return nil
    }
}
