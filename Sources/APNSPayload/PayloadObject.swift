// SPDX-License-Identifier: Apache-2.0

/// An object of a payload that has known keys.
enum PayloadObject {
    case root, aps, alert, sound

    /// Finds the known key that some octets spell.
    ///
    /// The length picks the few keys that it could be, and those are compared by words: a perfect hash written out.
    @inline(__always)
    func key(_ octets: borrowing KeyOctets) -> PayloadKey? {
        switch self {
        case .root: octets.spell("aps") ? .aps : nil
        case .aps: Self.apsKey(octets)
        case .alert: Self.alertKey(octets)
        case .sound: Self.soundKey(octets)
        }
    }

    private static func apsKey(_ octets: borrowing KeyOctets) -> PayloadKey? {
        switch octets.count {
        case 5:
            if octets.spell("alert") { return .alert }
            if octets.spell("badge") { return .badge }
            if octets.spell("sound") { return .sound }
            if octets.spell("event") { return .event }
        case 8:
            if octets.spell("category") { return .category }
            if octets.spell("url-args") { return .urlArguments }
        case 9:
            if octets.spell("thread-id") { return .threadID }
            if octets.spell("timestamp") { return .timestamp }
        case 10:
            if octets.spell("account-id") { return .accountID }
            if octets.spell("stale-date") { return .staleDate }
            if octets.spell("attributes") { return .attributes }
        case 11:
            if octets.spell("summary-arg") { return .summaryArgument }
        case 13:
            if octets.spell("content-state") { return .contentState }
        case 14:
            if octets.spell("dismissal-date") { return .dismissalDate }
        case 15:
            if octets.spell("mutable-content") { return .mutableContent }
            if octets.spell("relevance-score") { return .relevanceScore }
            if octets.spell("filter-criteria") { return .filterCriteria }
            if octets.spell("attributes-type") { return .attributesType }
        case 16:
            if octets.spell("input-push-token") { return .inputPushToken }
        case 17:
            if octets.spell("content-available") { return .contentAvailable }
            if octets.spell("target-content-id") { return .targetContentID }
            if octets.spell("summary-arg-count") { return .summaryArgumentCount }
        case 18:
            if octets.spell("interruption-level") { return .interruptionLevel }
            if octets.spell("input-push-channel") { return .inputPushChannel }
        default:
            break
        }
        return nil
    }

    private static func alertKey(_ octets: borrowing KeyOctets) -> PayloadKey? {
        switch octets.count {
        case 4:
            if octets.spell("body") { return .alertBody }
        case 5:
            if octets.spell("title") { return .alertTitle }
        case 6:
            if octets.spell("action") { return .alertAction }
        case 7:
            if octets.spell("loc-key") { return .alertLocKey }
        case 8:
            if octets.spell("subtitle") { return .alertSubtitle }
            if octets.spell("loc-args") { return .alertLocArguments }
        case 11:
            if octets.spell("summary-arg") { return .alertSummaryArgument }
        case 12:
            if octets.spell("launch-image") { return .alertLaunchImage }
        case 13:
            if octets.spell("title-loc-key") { return .alertTitleLocKey }
        case 14:
            if octets.spell("title-loc-args") { return .alertTitleLocArguments }
            if octets.spell("action-loc-key") { return .alertActionLocKey }
        case 16:
            if octets.spell("subtitle-loc-key") { return .alertSubtitleLocKey }
        case 17:
            if octets.spell("subtitle-loc-args") { return .alertSubtitleLocArguments }
            if octets.spell("summary-arg-count") { return .alertSummaryArgumentCount }
        default:
            break
        }
        return nil
    }

    private static func soundKey(_ octets: borrowing KeyOctets) -> PayloadKey? {
        switch octets.count {
        case 4:
            if octets.spell("name") { return .soundName }
        case 6:
            if octets.spell("volume") { return .soundVolume }
        case 8:
            if octets.spell("critical") { return .soundCritical }
        default:
            break
        }
        return nil
    }
}
